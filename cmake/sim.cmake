# libdpexec_cudasim.so: CUDA devices simulated on the CPU, for the tests (tests/sim/sim.h).  The own kernels of
# kernels/cuda/device are compiled into it by the host's C++ compiler, which takes long: a sanitized build, which does not
# instrument them, can have them of another build.
file(GLOB sim_sources CONFIGURE_DEPENDS tests/sim/*.cpp)
file(GLOB device_sources CONFIGURE_DEPENDS kernels/cuda/device/*.cu)
file(GLOB device_headers CONFIGURE_DEPENDS kernels/cuda/device/*.cuh)
set(DPX_SIM_DEVICE "" CACHE FILEPATH "libsim_device.a of another build, instead of compiling kernels/cuda/device for the simulation")
if(DPX_SIM_DEVICE)
    add_library(sim_device STATIC IMPORTED)
    set_target_properties(sim_device PROPERTIES IMPORTED_LOCATION ${DPX_SIM_DEVICE})
else()
    add_library(sim_device STATIC ${device_sources})
    target_include_directories(sim_device PRIVATE ${CMAKE_SOURCE_DIR} kernels/cuda/device)
    set_target_properties(sim_device PROPERTIES CXX_VISIBILITY_PRESET hidden ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()
add_library(cudasim MODULE ${sim_sources} ${plugin_base})
target_include_directories(cudasim PRIVATE ${CMAKE_SOURCE_DIR} kernels/cuda/device)
target_link_libraries(cudasim PRIVATE -Wl,--whole-archive sim_device -Wl,--no-whole-archive Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(cudasim PROPERTIES OUTPUT_NAME dpexec_cudasim PREFIX lib CXX_STANDARD 20 CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(gnu_only "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
option(DPX_SIM_ALIGNMENT "The simulation sees accesses of own kernels to misaligned addresses" OFF)
set(sim_alignment $<$<BOOL:${DPX_SIM_ALIGNMENT}>:-fsanitize=alignment>)
set_source_files_properties(${device_sources} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS
    "-include;${CMAKE_SOURCE_DIR}/tests/sim/shim.h;-std=c++17;-O1;-fno-strict-aliasing;-ffp-contract=off;${sim_alignment};-Wno-uninitialized;${gnu_only};-Wno-pedantic;-Wno-unknown-pragmas;-Wno-unused-function;-Wno-missing-field-initializers")
set_source_files_properties(${sim_sources} PROPERTIES COMPILE_OPTIONS "-O2;-ffp-contract=off;-Wno-missing-field-initializers")

# Sanitizers.  The simulation is no product: UBSan, half of what its files take to compile, does not watch it.  Of UBSan's library, where
# it is not linked, block.cpp brings what the simulation needs.  What computes is not
# instrumented, for it takes long to compile and to run: it holds the simulation's lock and touches devices' memory, which
# memory.cpp watches, alone.  Nor is, under TSan, what switches stacks.
if(NOT DPX_SANITIZE MATCHES "undefined")
    set_source_files_properties(tests/sim/block.cpp PROPERTIES COMPILE_DEFINITIONS SIM_OWN_UBSAN)
endif()
if(DPX_SANITIZE)
    set_property(SOURCE ${sim_sources} APPEND PROPERTY COMPILE_OPTIONS -O1)
    if(DPX_SANITIZE MATCHES "undefined")
        set_property(SOURCE ${sim_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
    endif()
    set(computing attention conv gemm)
    if(DPX_SANITIZE MATCHES "thread")
        list(APPEND computing block fiber)
    endif()
    list(TRANSFORM computing REPLACE ".+" "${CMAKE_SOURCE_DIR}/tests/sim/\\0.cpp")
    set_property(SOURCE ${computing} APPEND PROPERTY COMPILE_OPTIONS -O2 -fno-sanitize=all)
    set_property(SOURCE ${device_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()

# Generated kernels are compiled when tests run, and kept by their source and compiler: another build's compiler finds what that has kept.
set(DPX_SIM_CXX ${CMAKE_CXX_COMPILER} CACHE FILEPATH "C++ compiler for kernels generated for simulated devices")
set_source_files_properties(tests/sim/module.cpp PROPERTIES COMPILE_DEFINITIONS
    "SIM_CXX=\"${DPX_SIM_CXX}\";SIM_CXX_FLAGS=\"\";SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\";BUILD_DIR=\"${CMAKE_BINARY_DIR}\"")
