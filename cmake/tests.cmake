# One test program per folder of tests/, each suite registered by its DEFINE_SUITE line.
pkg_check_modules(CUNIT IMPORTED_TARGET cunit)
if(NOT CUNIT_FOUND)
    message(STATUS "CUnit not found: tests are not built")
    return()
endif()

add_library(harness STATIC tests/harness/main.c)
file(GLOB harness_sources CONFIGURE_DEPENDS tests/harness/*.c)
# What several programs have in common: the plans of a corpus, the networks that suites of passes make, and operator cases.
set(shared_sources tests/plans/corpus.c tests/plans/graph_text.c tests/plans/plan_text.c tests/passes/frozen_network.c
    tests/passes/random_networks.c tests/ops/case.c)
list(TRANSFORM shared_sources PREPEND ${CMAKE_SOURCE_DIR}/)
target_sources(harness PRIVATE ${harness_sources} ${shared_sources})
target_link_libraries(harness PUBLIC toolbox core PkgConfig::CUNIT)
if(DPX_SANITIZE)        # a third of the time to compile; tests compute little themselves
    target_compile_options(harness PUBLIC -O0)
endif()
# Where test programs find the tree and what was built.  With -DDPX_CARRIED=FOLDER they run from the root of any copy of the tree,
# the programs in that folder (tests/gpu_bundle.sh).
set(DPX_CARRIED "" CACHE STRING "Folder below the tree's root from which test programs will run, on any machine")
if(DPX_CARRIED)
    target_compile_definitions(harness PUBLIC SOURCE_DIR="." BUILD_DIR="${DPX_CARRIED}")
else()
    target_compile_definitions(harness PUBLIC SOURCE_DIR="${CMAKE_SOURCE_DIR}" BUILD_DIR="${CMAKE_BINARY_DIR}")
endif()

if(NOT TARGET dpexec_cuda)
    list(REMOVE_ITEM TEST_DIRS plugin nvrtc)    # tests of the CUDA plug-in alone
endif()
if(NOT DPX_CARRIED)
    include(cmake/sim.cmake)
endif()
if(DPX_SIM_ALIGNMENT)
    target_compile_definitions(harness PUBLIC DPX_SIM_ALIGNMENT)
endif()
if(NOT DPX_SANITIZE)        # operator cases on simulated devices, which would take many minutes
    target_compile_definitions(harness PUBLIC DPX_SIMULATION)
endif()

foreach(dir ${TEST_DIRS})
    file(GLOB sources CONFIGURE_DEPENDS tests/${dir}/*.c)
    list(REMOVE_ITEM sources ${shared_sources})
    add_executable(test_${dir} ${sources} ${GEN}/tests/${dir}.gen.c)
    add_dependencies(test_${dir} lists)
    target_link_libraries(test_${dir} PRIVATE harness)
    # The simulated devices take a minute to compile: only for programs whose tests open one.
    set(opens_devices NO)
    foreach(source ${sources})
        file(STRINGS ${source} users REGEX "tests/harness/gpu\\.h|cudasim" LIMIT_COUNT 1)
        if(users)
            set(opens_devices YES)
        endif()
    endforeach()
    if(TARGET cudasim AND opens_devices)
        add_dependencies(test_${dir} cudasim)
    endif()
    add_test(NAME ${dir} COMMAND test_${dir})
endforeach()

# tests/api/steady_names.c counts the comparisons of names in a step.
target_link_options(test_api PRIVATE -Wl,--wrap=strcmp,--wrap=strncmp)

# Processes of worlds: those that tests/cli/mpi.sh has MPI's launchers start, and those of tests/worlds.
if(NOT DPX_CARRIED)
    foreach(library openmpi mpich)
        if(TARGET dpexec_${library})
            add_executable(embedder_${library} tests/member/embedder.c)
            target_compile_definitions(embedder_${library} PRIVATE DPX_MPI_LIBRARY="${library}")
            if(DPX_SANITIZE)        # clang's check of functions' types is in the C++ part of its library
                set_target_properties(embedder_${library} PROPERTIES LINKER_LANGUAGE CXX)
            endif()
            target_include_directories(embedder_${library} PRIVATE ${CMAKE_SOURCE_DIR})
            target_include_directories(embedder_${library} SYSTEM PRIVATE $<TARGET_PROPERTY:dpexec_${library},INCLUDE_DIRECTORIES>)
            target_link_libraries(embedder_${library} PRIVATE libdpexec $<TARGET_PROPERTY:dpexec_${library},LINK_LIBRARIES>)
            add_library(faulty_${library} MODULE tests/member/faulty_mpi.c)
            target_include_directories(faulty_${library} PRIVATE ${CMAKE_SOURCE_DIR})
            target_include_directories(faulty_${library} SYSTEM PRIVATE $<TARGET_PROPERTY:dpexec_${library},INCLUDE_DIRECTORIES>)
            target_link_libraries(faulty_${library} PRIVATE $<TARGET_PROPERTY:dpexec_${library},LINK_LIBRARIES>)
        endif()
    endforeach()
    add_library(halt_sockets MODULE tests/member/halt_sockets.c)
    target_include_directories(halt_sockets PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(halt_sockets PRIVATE ${CMAKE_DL_LIBS})
    foreach(program world_member world_rows)
        add_executable(${program} tests/member/${program}.c)
        target_link_libraries(${program} PRIVATE core)
    endforeach()
endif()

if(TARGET test_plugin)
    string(REGEX REPLACE "-[a-z]+" "" capabilities "${DPX_CUDA_ARCHS}")
    string(REPLACE ";" "," capabilities "${capabilities}")
    target_sources(test_nvrtc PRIVATE tests/plugin/plugin.c tests/ops/case.c)
    target_sources(test_plugin PRIVATE tests/ops/case.c)       # the operator cases
    foreach(program test_plugin test_nvrtc)
        target_compile_definitions(${program} PRIVATE CUDA_CAPABILITIES=${capabilities})
        target_include_directories(${program} SYSTEM PRIVATE ${cuda_includes})
        add_dependencies(${program} dpexec_cuda)
    endforeach()
endif()

# How fast the own kernels of CUDA devices are: bench/kernels.txt.
if(NOT DPX_SANITIZE)
    add_executable(bench_kernels bench/kernels.c tests/ops/case.c)
    target_link_libraries(bench_kernels PRIVATE harness)
    if(TARGET cudasim)
        add_dependencies(bench_kernels cudasim)
    endif()
endif()

# How fast oneDNN's convolutions are alone: bench/convolutions.py.
add_executable(bench_convolutions EXCLUDE_FROM_ALL bench/convolutions.c)
target_link_libraries(bench_convolutions PRIVATE core)

# How fast images are read: bench/images.py.
add_executable(bench_images EXCLUDE_FROM_ALL bench/images.c)
target_link_libraries(bench_images PRIVATE toolbox)

# The official test data of ONNX: a package's, and any newer set that -DDPX_ONNX_TESTS=DIR names (the folder that holds node/,
# as the onnx wheel has it in onnx/backend/test/data).
find_path(DPX_ONNX_TESTDATA node/test_abs/model.onnx PATHS /usr/share/libonnx-testdata/data DOC "Official ONNX test data")
set(DPX_ONNX_TESTS "" CACHE PATH "More official ONNX test data")
if(TARGET test_conformance)
    target_compile_definitions(test_conformance PRIVATE ONNX_TESTDATA="${DPX_ONNX_TESTDATA}" ONNX_TESTS="${DPX_ONNX_TESTS}")
endif()

# What is checked of the text of the sources.
add_test(NAME layering COMMAND sh ${CMAKE_SOURCE_DIR}/tests/layering.sh)
add_test(NAME hygiene COMMAND sh ${CMAKE_SOURCE_DIR}/tests/hygiene.sh ${CMAKE_BINARY_DIR})

# The tests of the command line: shell scripts that get the build folder.
file(GLOB cli_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/tests/cli tests/cli/*.sh)
list(REMOVE_ITEM cli_tests lib.sh)
foreach(script ${cli_tests})
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME cli_${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/${script} ${CMAKE_BINARY_DIR})
endforeach()
