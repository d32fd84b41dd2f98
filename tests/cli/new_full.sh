#!/bin/bash
# dpexec new at full size: ViT-B/16 and GPT-2 have in ONNX Runtime the scores of PyTorch's modules (tests/cli/new.py, which wrote
# tests/cli/new/torch_full.txt).  ONNX Runtime is in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "no ONNX Runtime: tests/interop/install.sh $build installs it"
    finish
fi
for name in vit-full gpt-full; do
    check "$name: the file" "$build/python/bin/python" tests/cli/new.py make "$dpexec" "$DIR" $name
    check "$name: scores" "$build/python/bin/python" tests/cli/new.py scores "$DIR" $name
    rm "$DIR/$name".*
done
finish
