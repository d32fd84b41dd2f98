# libdpexec.so and libdpexec.a: core, of which only what include/dpexec.h declares is visible.
#
# The tools load libdpexec.so as any program does, and call more of it than dpexec.h has.  The library exports that under the names of
# exec/api/tool_names.h, with a symbol version of this release: no other program should use them.  Definitions are visible to the
# linker, which keeps what libdpexec.map does not name within the library; the compiler still takes its own functions for its own.
target_compile_options(core PUBLIC "SHELL:-include exec/api/tool_names.h" PRIVATE -fvisibility=default -fno-semantic-interposition)

add_library(libdpexec SHARED $<TARGET_OBJECTS:core> ${isa_objects})
set(symbols ${CMAKE_SOURCE_DIR}/cmake/libdpexec.map)
set_target_properties(libdpexec PROPERTIES OUTPUT_NAME dpexec EXPORT_NAME dpexec VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE CXX LINK_DEPENDS ${symbols})
target_link_libraries(libdpexec PRIVATE $<TARGET_PROPERTY:core,LINK_LIBRARIES>)
target_include_directories(libdpexec INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(NOT DPX_SANITIZE)    # sanitizers leave their own symbols to the executable, and export some
    target_link_options(libdpexec PRIVATE -Wl,--no-undefined -Wl,--version-script=${symbols})
endif()

# The static library: one object, in which all but what dpexec.h declares is local, as in the shared library.
# Its libraries stay shared; dpexec.pc lists them for pkg-config --static.
if(NOT DPX_SANITIZE)
    set(static ${CMAKE_BINARY_DIR}/libdpexec.a)
    add_custom_command(OUTPUT ${static} DEPENDS core onnx_proto VERBATIM
        COMMAND ${CMAKE_LINKER} -r -o ${CMAKE_BINARY_DIR}/dpexec_static.o --whole-archive $<TARGET_FILE:core> $<TARGET_FILE:onnx_proto>
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=!dpx_private_* --keep-global-symbol=dpx_*
            ${CMAKE_BINARY_DIR}/dpexec_static.o
        COMMAND ${CMAKE_COMMAND} -E rm -f ${static}
        COMMAND ${CMAKE_AR} rcsD ${static} ${CMAKE_BINARY_DIR}/dpexec_static.o
        COMMAND ${CMAKE_COMMAND} -E rm -f ${CMAKE_BINARY_DIR}/dpexec_static.o)
    add_custom_target(static ALL DEPENDS ${static})
endif()
