#!/bin/bash
# Programs that embed the library as docs/embed.md says: with memory of their own.
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
warns=(-Wall -Wextra -Wpedantic -Werror ${sanitize:+-fsanitize=$sanitize} -Iinclude)
library=(-L "$build" -ldpexec -Wl,-rpath,"$build" -pthread -lm)

# ---- memory of the program's own ----
check "compile allocator.c" "$cc" -std=c11 "${warns[@]}" tests/member/allocator.c "${library[@]}" -o "$DIR/allocator"
check "all memory comes back" bash -c "'$DIR/allocator' models/mlp.onnx >'$DIR/said' 2>'$DIR/counted'"
check "it is the library's large memory: $(cat "$DIR/counted")" grep -qE '^DPX_OK: [0-9]{3,} calls, [0-9]{7,} bytes' "$DIR/counted"
calls=$(sed 's/^DPX_OK: \([0-9]*\) calls.*/\1/' "$DIR/counted")
for ((n = 1; n <= calls; n += calls / 12)); do
    check "allocation $n of $calls fails" bash -c "'$DIR/allocator' models/mlp.onnx $n >>'$DIR/losses' 2>>'$DIR/failed'"
done
check "most failures end a call" test "$(grep -c '^DPX_NOMEM' "$DIR/failed")" -ge 7
check "without some memory the numbers are the same" bash -c "[ ! -s '$DIR/losses' ] || [ \"\$(sort -u '$DIR/losses')\" = \"\$(cat '$DIR/said')\" ]"
finish
