#!/bin/bash
# Makes a folder with Debian's libraries for another processor, to compile for (cmake/cross.cmake), as root or not:
#   tools/make_sysroot.sh DIR [ARCH [SUITE]]        arm64, bookworm by default
# It unpacks packages without installing them: those with -dev that debian/control names, but for MPI, and what they depend on.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: $0 DIR [ARCH [SUITE]]" >&2; exit 2; }
dir=$(realpath -m "$1")
arch=${2:-arm64}
suite=${3:-bookworm}
mkdir -p "$dir"/etc/apt/{apt.conf.d,preferences.d,trusted.gpg.d} "$dir"/var/lib/{apt/lists/partial,dpkg} "$dir/var/cache/apt/archives/partial"
touch "$dir/var/lib/dpkg/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" >"$dir/etc/apt/sources.list"
cat >"$dir/apt.conf" <<END_OF_CONF
Dir "$dir";
Dir::State::status "$dir/var/lib/dpkg/status";
Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Etc "$dir/etc/apt";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
END_OF_CONF
export APT_CONFIG=$dir/apt.conf
mapfile -t packages < <(sed -n '/^Build-Depends/,/^[A-Z].*:.*4/p' debian/control | grep -oE '\<(lib|zlib)[a-z0-9+-]+-dev\>' | grep -v mpi)
gcc=$(gcc -dumpversion | cut -d. -f1)
apt-get update -q
apt-get install -y -q --download-only "${packages[@]}" libcunit1-dev libc6-dev "libgcc-$gcc-dev" "libstdc++-$gcc-dev"
for package in "$dir"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$dir"; done
