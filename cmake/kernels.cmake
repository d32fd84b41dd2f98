# The fast kernels: optimised in every build type.
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
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    list(APPEND cpu_options -Wno-pass-failed)       # a loop that stays scalar is slower, not wrong
endif()

# ---- instruction sets ----
# The kernels are compiled for the processor at hand, or for $DPX_MARCH.  A package has them for several levels of x86-64 instead, from
# which a run picks the best (kernels/cpu/cpu_isa.c): objects of one level are linked into one, in which only the list of its kernels
# keeps a name, with the level behind it.
set(DPX_MARCH "" CACHE STRING "Processor to compile the fast kernels for, as gcc's -march has it [DPX_NATIVE: the one at hand]")
if(DPX_NATIVE OR DPX_MARCH OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" OR DPX_SANITIZE)
    set(isa_levels_default OFF)
else()
    set(isa_levels_default ON)
endif()
option(DPX_ISA_LEVELS "Compile the fast kernels for x86-64-v2, -v3 and -v4" ${isa_levels_default})
set(isa_march "")
if(DPX_MARCH)
    set(isa_march ${DPX_MARCH})
elseif(DPX_NATIVE)
    set(isa_march native)
elseif(DPX_ISA_LEVELS)
    set(isa_march x86-64-v2)
endif()
if(isa_march)
    list(APPEND cpu_options "-march=$<IF:$<BOOL:$<TARGET_PROPERTY:DPX_LEVEL>>,x86-64-$<TARGET_PROPERTY:DPX_LEVEL>,${isa_march}>")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND cpu_options -mprefer-vector-width=512)      # with AVX-512, of which gcc uses 256 bits by default
endif()
if(DPX_NATIVE OR DPX_MARCH OR NOT DPX_ISA_LEVELS)
    set_property(SOURCE kernels/cpu/cpu_isa.c PROPERTY COMPILE_DEFINITIONS "DPX_ISA=\"$<IF:$<BOOL:${isa_march}>,${isa_march},generic>\"")
endif()
set(isa_objects "")
if(DPX_ISA_LEVELS)
    set_property(SOURCE kernels/cpu/cpu_isa.c APPEND PROPERTY COMPILE_DEFINITIONS DPX_ISA_LEVELS)
    set(leveled ${cpu_kernels})
    list(FILTER leveled INCLUDE REGEX "kernels/cpu/[a-z0-9_]+\\.c$")
    list(FILTER leveled EXCLUDE REGEX "/(cpu_isa|cpu_target|onednn|pieces)\\.c$")     # compute nothing, and are called from elsewhere
    set(levels v3 v4)
    if(DPX_NATIVE OR DPX_MARCH)
        list(APPEND levels v2)      # else those of the library are of that level
    endif()
    foreach(level ${levels})
        add_library(cpu_${level} OBJECT ${leveled} ${GEN}/kernels/cpu.gen.c)
        set_target_properties(cpu_${level} PROPERTIES DPX_LEVEL ${level})
        add_dependencies(cpu_${level} lists)
        target_include_directories(cpu_${level} PRIVATE $<TARGET_PROPERTY:core,INCLUDE_DIRECTORIES>)
        target_compile_definitions(cpu_${level} PRIVATE $<TARGET_PROPERTY:core,COMPILE_DEFINITIONS>)
        target_compile_options(cpu_${level} PRIVATE $<TARGET_PROPERTY:core,INTERFACE_COMPILE_OPTIONS>)
        target_link_libraries(cpu_${level} PRIVATE OpenMP::OpenMP_C)
        set(object ${CMAKE_BINARY_DIR}/cpu_${level}.o)
        add_custom_command(OUTPUT ${object} DEPENDS cpu_${level} $<TARGET_OBJECTS:cpu_${level}> COMMAND_EXPAND_LISTS VERBATIM
            COMMAND ${CMAKE_LINKER} -r -o ${object} $<TARGET_OBJECTS:cpu_${level}>
            COMMAND ${CMAKE_OBJCOPY} --redefine-sym kernels_cpu=kernels_cpu_${level} --redefine-sym kernels_cpu_len=kernels_cpu_${level}_len
                --keep-global-symbol=kernels_cpu_${level} --keep-global-symbol=kernels_cpu_${level}_len ${object})
        list(APPEND isa_objects ${object})
    endforeach()
    set_source_files_properties(${isa_objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(core PRIVATE ${isa_objects})
endif()
set_source_files_properties(${cpu_kernels} PROPERTIES COMPILE_OPTIONS "${cpu_options}")
set_source_files_properties(${ref_kernels} PROPERTIES COMPILE_OPTIONS "${ref_options}")
