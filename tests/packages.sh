#!/bin/bash
# Installs packages (tools/make_deb.sh) in a bare Debian, runs debian/tests there, trains in two processes over each MPI library, and
# removes the packages.  Not part of tests/all.sh: needs root, debootstrap and Debian's packages.
#   tests/packages.sh DIR [SUITE]       DIR has the packages; SUITE: bookworm [default] or trixie
# $BARE=TREE: a tree that debootstrap has made, of which a copy is taken.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: $0 DIR [SUITE]" >&2; exit 2; }
packages=$(realpath "$1")
suite=${2:-bookworm}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
bare=$tree/$suite
if [ -n "${BARE:-}" ]; then
    cp -a "$BARE" "$bare"
else
    debootstrap --variant=minbase "$suite" "$bare" >"$tree/log" || { tail -3 "$tree/log"; exit 1; }
fi
cp /etc/resolv.conf "$bare/etc/"
mkdir -p "$bare/test/debs"
cp "$packages"/*.deb "$bare/test/debs/"
cp -r "$root/debian/tests" "$root/models/mlp.onnx" "$root/tests/oracle/data/digits.npz" "$bare/test/"
passed=0
failed=0
# inside NAME COMMAND: a shell's command in the tree.  The loader and MPI read /proc; the mount is gone with the shell that made it.
inside() {
    if unshare -m sh -c "mount -t proc proc '$bare/proc' && chroot '$bare' env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive OMP_NUM_THREADS=1 sh -c 'cd /test && $2'" >"$tree/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $suite: $1"
        tail -5 "$tree/said"
    fi
}
one='--data digits.npz --loss cross-entropy --batch-size 10 --steps 8 --lr 0.01 --quiet'
inside 'the programs alone install' 'apt-get update -q && apt-get install -y -q --no-install-recommends ./debs/dpexec_*.deb ./debs/libdpexec0_*.deb'
inside 'they train' "dpexec train mlp.onnx $one --devices \"cpu*2\" --out alone && test -s alone/model.onnx"
inside 'a plug-in that is not installed is named' "! dpexec train mlp.onnx $one --mpi openmpi 2>said && grep -q libdpexec_openmpi.so said"
inside 'all install' 'apt-get install -y -q --no-install-recommends ./debs/*.deb gcc libc6-dev libdlpack-dev pkg-config openmpi-bin mpich'
inside 'the example of README' tests/example
inside 'Python' tests/python
for library in openmpi mpich; do
    root_too=$([ $library = mpich ] || echo --allow-run-as-root --oversubscribe)
    inside "two processes over $library" \
        "mpirun.$library $root_too -n 2 dpexec train mlp.onnx $one --out $library && cmp alone/model.onnx $library/model.onnx"
done
inside 'they are removed' 'apt-get purge -y -q "*dpexec*" && test -z "$(find /usr -name "*dpexec*")"'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
