# What makes a fault harder to exploit, and a build the same bytes in every folder (docs/guide/packaging.md).
# tests/cli/hardening.sh checks the files that come out.
#
# Sanitized builds have nothing of it but -ffile-prefix-map: _FORTIFY_SOURCE calls functions that the sanitizers do not watch.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)    # programs are linked as they are compiled: position-independent
option(DPX_HARDENING "Compile and link with stack protectors, _FORTIFY_SOURCE, full RELRO" ON)

# ---- the same bytes in every folder ----
# Names of source files in messages and debug information: as the tree has them, whether the compiler was given an absolute path or one
# that begins in a build folder below the tree.  A debugger finds a Debug build's sources from any folder.
set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
set(maps ${CMAKE_SOURCE_DIR}/= ${CMAKE_BINARY_DIR}=.)
if(up MATCHES "^[./]+$")
    string(REGEX REPLACE "/$" "" up ${up})
    list(APPEND maps ${up}/=)
endif()
foreach(map ${maps})
    add_compile_options($<${optimised}:-ffile-prefix-map=${map}>)
endforeach()
foreach(language C CXX)     # D: archives without times and owners
    set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> qD <TARGET> <LINK_FLAGS> <OBJECTS>")
    set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> -D <TARGET>")
endforeach()

if(DPX_SANITIZE OR NOT DPX_HARDENING)
    return()
endif()

# ---- compiler ----
set(hardening -fstack-protector-strong)
foreach(flag -fstack-clash-protection -fcf-protection -mbranch-protection=standard)     # by processor
    string(MAKE_C_IDENTIFIER "DPX_HAS${flag}" has)
    check_c_compiler_flag("${flag} -Werror" ${has})
    if(${has})
        list(APPEND hardening ${flag})
    endif()
endforeach()
add_compile_options(${hardening})
# Level 3 knows sizes that are computed at run time.  Without optimisation glibc has no checked functions, and warns.
set(fortify 2)
if((CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 12) OR
    (CMAKE_C_COMPILER_ID MATCHES "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_GREATER_EQUAL 9))
    set(fortify 3)
endif()
add_compile_options($<${optimised}:-U_FORTIFY_SOURCE> $<${optimised}:-D_FORTIFY_SOURCE=${fortify}>)

# ---- linker ----
# relro and now: tables of addresses are read-only before main().  An exported function's calls within the library go straight to it.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
string(APPEND CMAKE_SHARED_LINKER_FLAGS " -Wl,-Bsymbolic-functions")
