#!/bin/bash
# Makes Debian packages for the Debian that it runs on, and checks them with lintian:
#   tools/make_deb.sh [DIR]             writes DIR/*.deb; DIR is dist by default
# It needs what debian/control names under Build-Depends, dpkg-dev and lintian.  Where nvcc is found, dpexec-cuda is among them,
# unless DPX_CUDA=OFF is set.
# Packages of two builds of one commit are the same bytes: the folder has a fixed name, times are the commit's.
set -eu
cd "$(dirname "$0")/.."
to=$(realpath -m "${1:-dist}")
mkdir -p "$to"
work=/tmp/dpexec-deb
mkdir "$work"           # an error where another is at work
trap 'rm -rf "$work"' EXIT
git archive --prefix=dpexec/ HEAD | tar -x -C "$work"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
profiles=${DEB_BUILD_PROFILES:-}
if [ "${DPX_CUDA:-}" != OFF ] && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then
    profiles="$profiles pkg.dpexec.cuda"
fi
cd "$work/dpexec"
. /etc/os-release
sed -i "1s/)/+deb$VERSION_ID)/" debian/changelog        # packages for two versions of Debian have two names
env DEB_BUILD_PROFILES="$profiles" dpkg-buildpackage -b -us -uc >"$to/build.log" 2>&1 || { tail -20 "$to/build.log"; exit 1; }
lintian --fail-on error,warning --allow-root ../*.changes
cp ../*.deb ../*.changes ../*.buildinfo "$to"
ls -sh "$to"/*.deb
