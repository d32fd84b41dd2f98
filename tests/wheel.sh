#!/bin/bash
# Installs a wheel (tools/make_wheel.sh) in a bare Debian, which has Python and nothing else, and runs the first piece of
# the page on Python there.  Not part of tests/all.sh: needs root, debootstrap, Debian's packages and PyPI.
#   tests/wheel.sh WHEEL [SUITE...]     SUITE: bookworm and trixie by default
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: $0 WHEEL [SUITE...]" >&2; exit 2; }
wheel=$(realpath "$1")
shift
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0
failed=0
page=$(find "$root/docs" -name python.md)
[ $# -gt 0 ] || set -- bookworm trixie
dpexec=$(sed -n 's/^#define DPX_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$root/include/dpexec.h" | paste -sd.)
for suite; do
    bare=$tree/$suite
    debootstrap --variant=minbase --include=python3-venv "$suite" "$bare" >"$tree/log" || { tail -3 "$tree/log"; exit 1; }
    mkdir "$bare/test"
    cp "$wheel" "$bare/test/"
    version=$(chroot "$bare" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    python3 -m pip download -q --disable-pip-version-check --only-binary :all: --python-version "$version" --dest "$bare/test" numpy
    awk '/^```python$/ { on = 1; next } /^```$/ && on { exit } on' "$page" >"$bare/test/first.py"
    cat >"$bare/test/run.sh" <<'END'
cd /test
python3 -m venv venv && venv/bin/pip install -q --no-index --find-links . dpexec && venv/bin/python first.py &&
    venv/bin/dpexec --version && venv/bin/graph-transform --version
END
    # The loader finds a program's libraries by /proc/self/exe.  The mount is gone with the shell that made it.
    if unshare -m sh -c "mount -t proc proc '$bare/proc' && chroot '$bare' env -i PATH=/usr/bin:/bin sh /test/run.sh" >"$tree/said" 2>&1 &&
        grep -q '^<dpexec model of step 75: accuracy 0.955>$' "$tree/said" && grep -qxF "dpexec $dpexec" "$tree/said" &&
        grep -qxF "graph-transform $dpexec" "$tree/said"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $suite"
        tail -5 "$tree/said"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
