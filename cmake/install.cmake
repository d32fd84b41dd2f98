# All that `cmake --install` puts in place: the libraries, the header, a pkg-config file, a CMake package (find_package(dpexec),
# dpexec::dpexec), the tools, their completions and man pages, licences and examples.  The target `uninstall` removes it.
include(CMakePackageConfigHelpers)

set(private_libraries ${JANSSON_LDFLAGS} ${XXHASH_LDFLAGS} ${SODIUM_LDFLAGS} ${PROTOBUF_C_LDFLAGS} ${RE2_LDFLAGS})
foreach(name dnnl ${OpenMP_C_LIB_NAMES} stdc++ m ${CMAKE_DL_LIBS})
    list(APPEND private_libraries -l${name})
endforeach()
list(REMOVE_DUPLICATES private_libraries)
list(JOIN private_libraries " " private_libraries)

install(TARGETS libdpexec EXPORT dpexec LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET static)
    install(FILES ${static} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS dpexec graph-transform RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/dpexec.h include/dpexec_operators.h include/dpexec_world.h include/dpexec_data.h include/dpexec_sized.h include/dpexec.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The licence, what changed, and the programs of docs/example with the model that they train.
install(FILES LICENSE CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/example/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES models/mlp.onnx DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# cmake --build BUILD --target uninstall: the files that the last `cmake --install BUILD` put in place.
add_custom_target(uninstall VERBATIM COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
    -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake)

# The Python package, as pip makes a wheel of it (pyproject.toml): library and programs lie within.
if(SKBUILD)
    install(FILES $<TARGET_FILE:libdpexec> DESTINATION dpexec/lib RENAME libdpexec.so.${PROJECT_VERSION_MAJOR} COMPONENT python)
    install(TARGETS dpexec graph-transform RUNTIME DESTINATION dpexec/bin COMPONENT python)
endif()

# The prefix may be given as late as `cmake --install --prefix`: the file is written then.
install(CODE "
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(PROJECT_DESCRIPTION \"${PROJECT_DESCRIPTION}\")
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(private_libraries \"${private_libraries}\")
    configure_file(\"${CMAKE_SOURCE_DIR}/cmake/dpexec.pc.in\" \"${CMAKE_BINARY_DIR}/dpexec.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/dpexec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dpexec)
install(EXPORT dpexec NAMESPACE dpexec:: FILE dpexecConfig.cmake DESTINATION ${cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/dpexecConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/dpexecConfigVersion.cmake DESTINATION ${cmake_dir})

# Man pages, which the tools write of themselves: they are never behind the options.
if(NOT DPX_FUZZ AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    set(man_pages)
    function(add_man_page page)
        add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man/${page}.1
            COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man
            COMMAND ${ARGN} --man > ${CMAKE_BINARY_DIR}/man/${page}.1
            DEPENDS ${ARGV1})
        set(man_pages ${man_pages} ${CMAKE_BINARY_DIR}/man/${page}.1 PARENT_SCOPE)
    endfunction()
    add_man_page(dpexec dpexec)
    add_man_page(graph-transform graph-transform)
    foreach(command train resume export report eval run generate data check tokenize new launch devices completion)
        add_man_page(dpexec-${command} dpexec ${command})
    endforeach()
    add_custom_target(man ALL DEPENDS ${man_pages})
    install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    set(completions)
    foreach(shell bash zsh fish)
        set(completion ${CMAKE_BINARY_DIR}/completions/dpexec.${shell})
        add_custom_command(OUTPUT ${completion}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/completions
            COMMAND dpexec completion ${shell} > ${completion}
            DEPENDS dpexec COMMENT "Generating completions/dpexec.${shell}" VERBATIM)
        list(APPEND completions ${completion})
    endforeach()
    add_custom_target(completions ALL DEPENDS ${completions})
    install(FILES ${CMAKE_BINARY_DIR}/completions/dpexec.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dpexec)
    install(FILES ${CMAKE_BINARY_DIR}/completions/dpexec.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _dpexec)
    install(FILES ${CMAKE_BINARY_DIR}/completions/dpexec.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# Man pages of the C functions (section 3), and the target `reference`: HTML by Doxygen, both from the header's comments.
find_package(Python3 COMPONENTS Interpreter)
find_program(DPX_DOXYGEN doxygen)
if(Python3_Interpreter_FOUND AND NOT DPX_FUZZ)
    set(headers include/dpexec.h include/dpexec_world.h include/dpexec_data.h include/dpexec_operators.h
        include/dpexec_sized.h)
    list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/)
    set(c_reference ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/docs/c_reference.py)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man3/dpexec.3 DEPENDS ${headers} docs/c_reference.py VERBATIM
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${CMAKE_BINARY_DIR}/man3
        COMMAND ${c_reference} --man ${CMAKE_BINARY_DIR}/man3 COMMENT "Generating man3")
    add_custom_target(man3 ALL DEPENDS ${CMAKE_BINARY_DIR}/man3/dpexec.3)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} FILES_MATCHING PATTERN "*.3")
endif()
if(Python3_Interpreter_FOUND AND DPX_DOXYGEN AND NOT DPX_FUZZ)
    list(JOIN headers " " inputs)
    list(JOIN c_reference " " filter)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/Doxyfile CONTENT "PROJECT_NAME = dpexec
PROJECT_NUMBER = ${PROJECT_VERSION}
PROJECT_BRIEF = \"${PROJECT_DESCRIPTION}\"
OUTPUT_DIRECTORY = ${CMAKE_BINARY_DIR}/reference
INPUT = ${inputs}
INPUT_FILTER = \"${filter} --filter\"
FILTER_SOURCE_FILES = YES
OPTIMIZE_OUTPUT_FOR_C = YES
AUTOLINK_SUPPORT = YES
GENERATE_LATEX = NO
QUIET = YES
WARN_AS_ERROR = YES
HAVE_DOT = NO
WARN_IF_UNDOCUMENTED = NO
")
    add_custom_target(reference COMMAND ${DPX_DOXYGEN} ${CMAKE_BINARY_DIR}/Doxyfile DEPENDS ${headers} docs/c_reference.py VERBATIM)
endif()
