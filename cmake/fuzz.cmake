# The fuzzing harnesses of tests/fuzz: a program for each file there, with libFuzzer's main, which comes with clang.
if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "DPX_FUZZ: libFuzzer is a part of clang (-DCMAKE_C_COMPILER=clang), not of ${CMAKE_C_COMPILER_ID}")
endif()

# What no harness runs is compiled as fast as can be, unless tests run it; of what these run it is not counted.
file(GLOB unused kernels/cpu/*.c kernels/cpu/*.cpp kernels/cuda/*.c exec/gpu/*.c exec/world/*.c)
if(DPX_FUZZ STREQUAL "ON")
    set_source_files_properties(${unused} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-O0;-g0;-w")
else()
    set_property(SOURCE ${unused} APPEND PROPERTY COMPILE_OPTIONS "-fno-sanitize-coverage=inline-8bit-counters,pc-table")
endif()

file(GLOB shared CONFIGURE_DEPENDS tests/fuzz/common/*.c)
add_library(fuzz_common OBJECT EXCLUDE_FROM_ALL ${shared})     # objects, not an archive: they come before what they replace
target_link_libraries(fuzz_common PUBLIC toolbox core)
add_custom_target(fuzz)
file(GLOB harnesses CONFIGURE_DEPENDS tests/fuzz/*.c)
foreach(harness ${harnesses})
    get_filename_component(name ${harness} NAME_WE)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${harness})
    target_link_libraries(fuzz_${name} PRIVATE fuzz_common toolbox core)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz fuzz_${name})
endforeach()
