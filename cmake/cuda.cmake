# libdpexec_cuda.so: built when the CUDA toolkit, cuDNN, NCCL, cuBLAS and NVRTC are found, in
#   -DCUDAToolkit_ROOT=DIR or $CUDAToolkit_ROOT, $CUDA_HOME, nvcc's own folder, /usr/local/cuda,
#   or NVIDIA's packages from PyPI in the Python at hand;
# without them everything else is built.  -DDPX_CUDA=ON makes their absence an error, OFF does not look for them.
#
# Own kernels (kernels/cuda/device/*.cu) are compiled to one cubin for each file and architecture and to PTX of the newest, for
# GPUs that come later; a Debug build is for one architecture, because each takes minutes.  They and the headers (for what is
# compiled at run time) are embedded in the plug-in.
set(DPX_CUDA AUTO CACHE STRING "Build the CUDA plug-in: ON, OFF, or AUTO when the toolkit is found")
set_property(CACHE DPX_CUDA PROPERTY STRINGS AUTO ON OFF)
set(default_archs "80-real;90-real;100")
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(default_archs "90-real")
endif()
if(DEFINED ENV{DPX_CUDA_ARCHS})
    set(default_archs $ENV{DPX_CUDA_ARCHS})
endif()
set(DPX_CUDA_ARCHS ${default_archs} CACHE STRING "Compute capabilities to compile kernels for, ascending: 90-real, 90-virtual (PTX), 90 (both)")
if(DPX_CUDA STREQUAL "OFF")
    return()
endif()

# ---- where things are: a toolkit has all of it in one folder, the wheels in site-packages/nvidia/{cu13,cudnn,nccl} ----
set(cuda_roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME})
find_program(nvcc_in_path nvcc NO_CACHE)
if(nvcc_in_path)
    file(REAL_PATH ${nvcc_in_path} nvcc_real)
    cmake_path(GET nvcc_real PARENT_PATH nvcc_bin)
    cmake_path(GET nvcc_bin PARENT_PATH nvcc_root)
    list(APPEND cuda_roots ${nvcc_root})
endif()
list(APPEND cuda_roots /usr/local/cuda)
find_program(python_of_wheels NAMES python3 python NO_CACHE)
if(python_of_wheels)
    execute_process(COMMAND ${python_of_wheels} -c "import nvidia; print(';'.join(nvidia.__path__))"
        OUTPUT_VARIABLE wheels ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    foreach(folder ${wheels})
        list(APPEND cuda_roots ${folder}/cu13)
    endforeach()
endif()
set(cuda_folders)
foreach(root ${cuda_roots})
    list(APPEND cuda_folders ${root} ${root}/../cudnn ${root}/../nccl)     # a root may be a wheels' folder too
endforeach()

find_program(DPX_NVCC nvcc PATHS ${cuda_roots} PATH_SUFFIXES bin NO_DEFAULT_PATH)
set(cuda_missing)
if(NOT DPX_NVCC)
    list(APPEND cuda_missing nvcc)
endif()
set(cuda_includes)
set(cuda_libraries)
# cuda_part(NAME HEADER SONAME): the wheels have libraries by their SONAME alone.
macro(cuda_part name header soname)
    find_path(DPX_${name}_INCLUDE ${header} PATHS ${cuda_folders} PATH_SUFFIXES include NO_DEFAULT_PATH)
    find_file(DPX_${name}_LIBRARY ${soname} PATHS ${cuda_folders} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
    mark_as_advanced(DPX_${name}_INCLUDE DPX_${name}_LIBRARY)
    if(NOT DPX_${name}_INCLUDE)
        list(APPEND cuda_missing ${header})
    endif()
    if(NOT DPX_${name}_LIBRARY)
        list(APPEND cuda_missing ${soname})
    endif()
    list(APPEND cuda_includes ${DPX_${name}_INCLUDE})
    list(APPEND cuda_libraries ${DPX_${name}_LIBRARY})
endmacro()
cuda_part(CUDART cuda_runtime_api.h libcudart.so.13)
cuda_part(CUBLASLT cublasLt.h libcublasLt.so.13)
cuda_part(NVRTC nvrtc.h libnvrtc.so.13)
cuda_part(CUDNN cudnn.h libcudnn.so.9)
cuda_part(NCCL nccl.h libnccl.so.2)

if(cuda_missing)
    list(JOIN cuda_missing ", " missing)
    if(DPX_CUDA STREQUAL "AUTO")
        message(STATUS "CUDA plug-in: not built, missing ${missing}")
        return()
    endif()
    list(JOIN cuda_folders " " looked)
    message(FATAL_ERROR "DPX_CUDA=${DPX_CUDA}: missing ${missing}; looked in ${looked}")
endif()
list(REMOVE_DUPLICATES cuda_includes)
set(cuda_rpath)
foreach(library ${cuda_libraries})
    cmake_path(GET library PARENT_PATH folder)
    list(APPEND cuda_rpath ${folder})
endforeach()
list(REMOVE_DUPLICATES cuda_rpath)
message(STATUS "CUDA plug-in: ${DPX_NVCC}, for ${DPX_CUDA_ARCHS}")

# ---- own kernels ----
# Relative paths and -c let ccache find what another checkout has compiled; relative to the build folder, as Ninja reads them.
file(REAL_PATH ${CMAKE_BINARY_DIR} build_folder)
file(REAL_PATH ${CMAKE_SOURCE_DIR} source_folder)
file(RELATIVE_PATH source_folder ${build_folder} ${source_folder})
if(source_folder STREQUAL "")
    set(source_folder .)
endif()
file(GLOB device_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} kernels/cuda/device/*.cu)
file(GLOB device_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} kernels/cuda/device/*.cuh kernels/cuda/device/*.h)
set(images_dir ${GEN}/cuda)
file(MAKE_DIRECTORY ${images_dir})
set(image_files)
set(image_list "")
# device_image(SOURCE CAPABILITY KIND): KIND is cubin or ptx.
function(device_image source capability kind)
    cmake_path(GET source STEM stem)
    set(image ${images_dir}/${stem}.${capability}.${kind})
    set(arch "sm_${capability}")
    if(kind STREQUAL "ptx")
        set(arch "compute_${capability}")
    endif()
    add_custom_command(OUTPUT ${image}
        COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${DPX_NVCC} -std=c++17 -O3 -I${source_folder} -isystem ${DPX_CUDART_INCLUDE} -c -${kind} -arch=${arch} -Werror all-warnings
            -MD -MF ${image}.d -MT ${image} -o ${image} ${source_folder}/${source}
        DEPENDS ${source} DEPFILE ${image}.d WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
        COMMENT "nvcc ${source} (${arch})" VERBATIM)
    list(APPEND image_files ${image})
    string(APPEND image_list "IMAGE(${stem}_${kind}_${capability}, \"${stem}\", ${capability}, ${kind}, \"${image}\")\n")
    set(image_files ${image_files} PARENT_SCOPE)
    set(image_list "${image_list}" PARENT_SCOPE)
endfunction()
foreach(source ${device_sources})
    foreach(arch ${DPX_CUDA_ARCHS})
        string(REGEX MATCH "^[0-9]+" capability ${arch})
        if(NOT arch MATCHES "-virtual$")
            device_image(${source} ${capability} cubin)
        endif()
        if(NOT arch MATCHES "-real$")
            device_image(${source} ${capability} ptx)
        endif()
    endforeach()
endforeach()
foreach(header ${device_headers} kernels/formulas.def)
    cmake_path(GET header FILENAME ident)
    string(REPLACE "." "_" ident ${ident})
    list(APPEND image_files ${CMAKE_SOURCE_DIR}/${header})
    string(APPEND image_list "HEADER(${ident}, \"${header}\", \"${CMAKE_SOURCE_DIR}/${header}\")\n")
endforeach()
file(GENERATE OUTPUT ${images_dir}/images.list CONTENT "${image_list}")     # read by kernels/cuda/plugin/images.c

# ---- the plug-in: C11, one exported symbol, and a copy of its own of the error text and the types ----
file(GLOB plugin_sources CONFIGURE_DEPENDS kernels/cuda/plugin/*.c)
add_library(dpexec_cuda MODULE ${plugin_sources} ${plugin_base})
set_source_files_properties(kernels/cuda/plugin/images.c PROPERTIES OBJECT_DEPENDS "${image_files}")
target_include_directories(dpexec_cuda PRIVATE ${CMAKE_SOURCE_DIR} ${images_dir})
target_include_directories(dpexec_cuda SYSTEM PRIVATE ${cuda_includes})
target_link_libraries(dpexec_cuda PRIVATE ${cuda_libraries} Threads::Threads m)
target_link_options(dpexec_cuda PRIVATE -Wl,--enable-new-dtags -Wl,--exclude-libs,ALL)
if(NOT DPX_SANITIZE)     # whose runtimes the program brings; else nothing may stay undefined
    target_link_options(dpexec_cuda PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(dpexec_cuda PROPERTIES BUILD_RPATH "${cuda_rpath}" INSTALL_RPATH "${cuda_rpath}")

# ---- what stands in for the driver where there is none, so that described devices can be planned for (nodriver.c) ----
add_library(dpexec_nodriver MODULE kernels/cuda/plugin/nodriver/nodriver.c)
target_link_options(dpexec_nodriver PRIVATE -Wl,-soname,libcuda.so.1)
add_dependencies(dpexec_cuda dpexec_nodriver)

# Where the engine looks for them: in the folder dpexec beside libdpexec.so.
install(TARGETS dpexec_cuda dpexec_nodriver LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dpexec)
# The package of python/cuda: beside the library of the package dpexec, with NVIDIA's packages two folders above.
if(SKBUILD)
    set_target_properties(dpexec_cuda PROPERTIES
        INSTALL_RPATH "$ORIGIN/../../nvidia/cu13/lib;$ORIGIN/../../nvidia/cudnn/lib;$ORIGIN/../../nvidia/nccl/lib")
    install(TARGETS dpexec_cuda dpexec_nodriver LIBRARY DESTINATION dpexec/lib COMPONENT python-cuda)
endif()
