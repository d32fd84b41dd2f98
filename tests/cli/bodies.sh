#!/bin/bash
# Operators for which ONNX ships a function body give what the body gives, planned and interpreted, over attributes, shapes and types drawn
# from a seed (tests/interop/bodies.py).  Onnx and ONNX Runtime are in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "there is no onnx with the bodies: tests/interop/install.sh $build installs it"
    finish
fi

check "bodies" "$build/python/bin/python" -W ignore tests/interop/bodies.py "$DIR/bodies" 1 12
n=$(find "$DIR/bodies" -name model.onnx | wc -l)
check "$n cases, at least 500" test "$n" -ge 500
for how in "" --interpreter; do
    says "$n passed" "$dpexec" check "$DIR/bodies" $how
done
finish
