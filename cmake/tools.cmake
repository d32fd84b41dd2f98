# The command-line tools; what they share is a library, so that tests can reach it.
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)      # .npz archives
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)          # gzipped IDX files
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)       # images: libjpeg-turbo
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)  # patterns of tokenizer.json
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)      # its normalisation
pkg_check_modules(WEBP IMPORTED_TARGET libwebp)               # WebP images; without it they are refused
pkg_check_modules(LIBARCHIVE IMPORTED_TARGET libarchive)      # tar shards; without it they are refused

# A wheel carries the libraries that it needs.  Of libarchive's we need the tar format alone, which the linker takes out of
# the static library; the shared one brings libxml2 and ICU with it, 36 MB.
if(DPX_STATIC_LIBRARIES)
    foreach(target LIBARCHIVE JPEG PNG PCRE2 UTF8PROC WEBP)
        if(TARGET PkgConfig::${target})
            get_target_property(shared PkgConfig::${target} INTERFACE_LINK_LIBRARIES)
            string(REGEX REPLACE "[.]so(;|$)" ".a\\1" static "${shared}")
            foreach(file ${static})
                if(NOT EXISTS ${file})
                    message(FATAL_ERROR "DPX_STATIC_LIBRARIES: there is no ${file}")
                endif()
            endforeach()
            set_target_properties(PkgConfig::${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${static}")
        endif()
    endforeach()
endif()

file(GLOB tool_sources CONFIGURE_DEPENDS tools/*.c tools/*/*.c)
list(REMOVE_ITEM tool_sources ${CMAKE_SOURCE_DIR}/tools/dpexec.c ${CMAKE_SOURCE_DIR}/tools/graph_transform.c)
add_library(toolbox STATIC ${tool_sources} ${GEN}/tools/data_formats.gen.c)
add_dependencies(toolbox lists)
add_proto(event_proto ${CMAKE_SOURCE_DIR}/tools/tensorboard/event.proto)
add_proto(spm_proto ${CMAKE_SOURCE_DIR}/tools/text/sentencepiece.proto)
target_link_libraries(toolbox PUBLIC onnx_proto event_proto spm_proto)
# Programs link libdpexec.so, tests core.
target_include_directories(toolbox PUBLIC $<TARGET_PROPERTY:core,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_options(toolbox PUBLIC $<TARGET_PROPERTY:core,INTERFACE_COMPILE_OPTIONS>)
foreach(part css js)        # of the page of a run
    embed_text(toolbox tools/report/report.${part} tools/report_${part})
endforeach()
target_link_libraries(toolbox PUBLIC PkgConfig::JANSSON PkgConfig::XXHASH PkgConfig::SODIUM PkgConfig::LIBZIP PkgConfig::ZLIB
    PkgConfig::JPEG PkgConfig::PNG PkgConfig::PCRE2 PkgConfig::UTF8PROC)
if(WEBP_FOUND)
    target_compile_definitions(toolbox PUBLIC DPX_WEBP)
    target_link_libraries(toolbox PUBLIC PkgConfig::WEBP)
endif()
if(LIBARCHIVE_FOUND)
    target_compile_definitions(toolbox PUBLIC DPX_ARCHIVE)
    target_link_libraries(toolbox PUBLIC PkgConfig::LIBARCHIVE)
endif()
set_source_files_properties(tools/image/image_resize.c tools/image/image_augment.c tools/image/image_operations.c PROPERTIES COMPILE_OPTIONS -O3)  # loops over pixels

add_executable(dpexec tools/dpexec.c)
add_executable(graph-transform tools/graph_transform.c)
# They find libdpexec.so beside themselves, as it is built, or where it is installed.  CMake would fill up the shorter of two search
# paths by colons, each of which means the current folder: so it is one for both.
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
if(SKBUILD)
    set(to_libraries ../lib)
endif()
foreach(tool dpexec graph-transform)
    target_link_libraries(${tool} PRIVATE toolbox libdpexec Threads::Threads m)
    set_target_properties(${tool} PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/${to_libraries}" BUILD_RPATH_USE_ORIGIN ON)
    if(DPX_SANITIZE)        # the runtime of the library's C++ is the program's
        set_target_properties(${tool} PROPERTIES LINKER_LANGUAGE CXX)
    endif()
    if(NOT CMAKE_SKIP_INSTALL_RPATH)
        set_target_properties(${tool} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
    endif()
endforeach()
