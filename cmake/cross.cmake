# Compiles for 64-bit ARM on another machine, against a folder of tools/make_sysroot.sh; programs run by QEMU:
#   tools/make_sysroot.sh /srv/arm64
#   DPX_SYSROOT=/srv/arm64 cmake -S . -B build-arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake -DDPX_NATIVE=OFF -DDPX_CUDA=OFF -DDPX_MPI=OFF
# Debian: crossbuild-essential-arm64, qemu-user-static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triplet aarch64-linux-gnu)
if(DEFINED ENV{DPX_SYSROOT})
    set(DPX_SYSROOT $ENV{DPX_SYSROOT} CACHE PATH "Libraries of the processor that is compiled for")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DPX_SYSROOT)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_CXX_COMPILER ${triplet}-g++)
set(CMAKE_SYSROOT ${DPX_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DPX_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${DPX_SYSROOT}/usr/lib/${triplet}/pkgconfig:${DPX_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${DPX_SYSROOT})
# Libraries of libraries, which the linker reads to find undefined symbols.
foreach(folder usr/lib/${triplet} lib/${triplet} usr/lib/${triplet}/blas usr/lib/${triplet}/lapack)
    string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,-rpath-link,${DPX_SYSROOT}/${folder}")
    string(APPEND CMAKE_SHARED_LINKER_FLAGS_INIT " -Wl,-rpath-link,${DPX_SYSROOT}/${folder}")
endforeach()
