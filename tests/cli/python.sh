#!/bin/bash
# The Python package (python/dpexec): bound structs against the header, training against the program, estimators against
# scikit-learn's own checks, and networks against PyTorch where $NETWORKS_PYTHON is a Python with torch.  NumPy,
# scikit-learn and ONNX Runtime are in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
python=$build/python/bin/python
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "no Python to test with: tests/interop/install.sh $build installs it"
    finish
fi
if ldd "$build/libdpexec.so" | grep -q 'lib\(a\|ub\|t\)san'; then
    skip "the Python package" "its library has a sanitizer, which wants to be loaded first"
    finish
fi
DPEXEC_CC=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
export DPEXEC_CC PYTHONDONTWRITEBYTECODE=1

# package PYTHON PATTERN: runs tests/python and takes over what it counts.
package() {
    "$1" tests/python/main.py "$build" "$2" >"$DIR/package.log" 2>&1
    grep -E '^(FAILED|SKIPPED)' "$DIR/package.log"
    local counts passed
    if ! counts=$(grep -oE '^[0-9]+ passed, [0-9]+ failed$' "$DIR/package.log"); then
        fail "tests/python $2"
        tail -5 "$DIR/package.log"
        return
    fi
    passed=${counts%% *}
    counts=${counts#*, }
    n_passed=$((n_passed + passed))
    n_failed=$((n_failed + ${counts%% *}))
}
package "$python" 'test_*.py'
if [ -n "${NETWORKS_PYTHON:-}" ]; then package "$NETWORKS_PYTHON" test_torch.py; fi
finish
