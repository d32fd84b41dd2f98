# The fast kernels: optimised in every build type, for the machine at hand unless a package is built (-DDPX_NATIVE=OFF).
# Nothing reads errno or floating-point exceptions; results are not otherwise relaxed.  A product and a sum stay two operations, in the
# order of kernels/formulas.def.
file(GLOB cpu_kernels CONFIGURE_DEPENDS kernels/cpu/*.c kernels/exchange.c)
file(GLOB ref_kernels CONFIGURE_DEPENDS kernels/ref/*.c)
set(cpu_options -ffp-contract=off -O3 -fno-math-errno -fno-trapping-math)
set(ref_options -ffp-contract=off)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    list(APPEND ref_options -O3)        # float64 runs on them
endif()
if(DPX_SANITIZE)        # instrumented loops stay scalar; more takes longer to compile than it saves
    list(APPEND cpu_options -O1)
    if(NOT DPX_FUZZ)
        list(APPEND ref_options -O1)
    endif()
endif()
if(DPX_SANITIZE MATCHES "undefined")    # a quarter of the tests' time; ASan sees where such a pointer is used
    list(APPEND cpu_options -fno-sanitize=pointer-overflow)
    list(APPEND ref_options -fno-sanitize=pointer-overflow)
endif()
set(DPX_MARCH "" CACHE STRING "Processor to compile them for instead, as gcc's -march has it")
if(DPX_MARCH)
    list(APPEND cpu_options -march=${DPX_MARCH})
elseif(DPX_NATIVE)
    list(APPEND cpu_options -march=native)
endif()
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    list(APPEND cpu_options -Wno-pass-failed)       # a loop that stays scalar is slower, not wrong
endif()
set_source_files_properties(${cpu_kernels} PROPERTIES COMPILE_OPTIONS "${cpu_options}")
set_source_files_properties(${ref_kernels} PROPERTIES COMPILE_OPTIONS "${ref_options}")
