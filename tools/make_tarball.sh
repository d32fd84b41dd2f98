#!/bin/bash
# Makes the two archives of a release: the sources, and what `cmake --install` puts in place.
#   tools/make_tarball.sh [DIR]         writes DIR/dpexec-VERSION.tar.gz, DIR/dpexec-VERSION-linux-ARCH.tar.gz, the list of components
#                                       DIR/dpexec-VERSION-linux-ARCH.spdx.json, and SHA256SUMS; DIR is dist by default
# $BUILD is the build folder to take, made with -DDPX_NATIVE=OFF -DCMAKE_INSTALL_LIBDIR=lib; without it one is made.  The second archive is
# for machines with the shared libraries of the Debian that it was built on.  Two runs at one commit write the same bytes.
set -eu
cd "$(dirname "$0")/.."
to=$(realpath -m "${1:-dist}")
mkdir -p "$to"
version=$(sed -n 's/^#define DPX_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/dpexec.h | paste -sd.)
name=dpexec-$version
binaries=$name-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# pack NAME: the folder $work/NAME, its files in order, of nobody and of the commit's time.
pack() {
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go+rX,go-w --mtime="@$SOURCE_DATE_EPOCH" \
        --format=gnu -c "$1" | gzip -n9 >"$to/$1.tar.gz"
}

git archive --prefix="$name/" HEAD | tar -x -C "$work"
pack "$name"
if [ -z "${BUILD:-}" ]; then
    BUILD=$work/build
    cmake -S "$work/$name" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_NATIVE=OFF -DBUILD_TESTING=OFF \
        -DCMAKE_INSTALL_LIBDIR=lib >/dev/null
    cmake --build "$BUILD" >/dev/null
fi
# Configured for the place where people unpack it: relative paths.
cmake --install "$BUILD" --prefix "$work/$binaries" --strip >/dev/null
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$work/$binaries/lib/pkgconfig/dpexec.pc"
tools/make_sbom.py "$BUILD" "$work/$binaries" >"$to/$binaries.spdx.json"
pack "$binaries"
(cd "$to" && sha256sum "$name.tar.gz" "$binaries.tar.gz" "$binaries.spdx.json" >SHA256SUMS)
ls -sh "$to/$name"*
