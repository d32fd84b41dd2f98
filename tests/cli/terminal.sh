#!/bin/bash
# What a run prints on terminals of 50, 80 and 200 columns, by the terminal emulator pyte, and elsewhere: tests/cli/terminal.py.
# Needs python3-numpy, and pyte in BUILD_DIR/python (tests/interop/install.sh BUILD_DIR).
. "$(dirname "$0")/lib.sh"
if ! cmp -s "$root/tests/interop/requirements.txt" "$build/python/requirements.txt"; then
    fail "no terminal emulator: tests/interop/install.sh $build installs it"
    finish
fi
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(1)
w = r.normal(size=(64, 10))
for name, n in ("train", 1200), ("val", 6000):
    x = r.normal(size=(n, 64)).astype("f4")
    np.savez(f"{sys.argv[1]}/{name}.npz", x=x, target=(x @ w + r.normal(size=(n, 10)) * 4).argmax(1))
PY
cp models/mlp.onnx "$DIR"
cd "$DIR" || exit 1
while read -r result name; do
    if [ "$result" = ok ]; then pass; else fail "$name"; fi
done < <("$build/python/bin/python" "$root/tests/cli/terminal.py" "$dpexec" 2>&1 || echo "failed terminal.py ended")
check "something was tested" test "$n_passed" -ge 30
finish
