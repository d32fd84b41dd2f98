#!/bin/bash
# The commands of docs/tutorial/text.md, with 60 steps instead of 1500, end with a validation loss that shows learning: frequencies of
# bytes alone give more than 3.1.  Needs python3-numpy and python3-onnx.
. "$(dirname "$0")/lib.sh"
begin_tutorial text
short=${commands/--steps 1500/--steps 60}
short=${short/--warmup-steps 100/--warmup-steps 10}
check "the short form" test "$short" != "$commands"
follow "$short"
check "1.2 MB" test "$(stat -c %s code.txt)" = 1200000
check "validation loss" awk '/eval loss/ { sub(/.*eval loss /, ""); loss = $1 + 0 } END { exit !(loss > 1 && loss < 2.9) }' log
check "the loss of bytes by their frequencies" "$python" - <<'PY'
import numpy as np
p = np.bincount(np.fromfile("code.txt", "u1")) / 1.2e6
assert -sum(p[p > 0] * np.log(p[p > 0])) > 3.1, -sum(p[p > 0] * np.log(p[p > 0]))
PY
finish
