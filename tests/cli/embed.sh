#!/bin/bash
# Programs that embed the library as docs/guide/embed.md says: with memory of their own, in C++, and with the static library.
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
# ---- C++: the same bytes as from C ----
found=0
for cxx in g++ clang++; do
    command -v "$cxx" >/dev/null || continue
    case $sanitize:$cxx in ?*:g++) continue ;; esac      # the library has clang's sanitizers
    found=$((found + 1))
    check "dpexec.hpp alone, $cxx" bash -c "echo '#include <dpexec.hpp>' | $cxx -std=c++17 ${warns[*]} -fsyntax-only -x c++ -"
    check "compile with $cxx" "$cxx" -std=c++17 "${warns[@]}" tests/member/embedder.cpp "${library[@]}" -o "$DIR/$cxx"
    says "bytes" "$DIR/$cxx" models/mlp.onnx
done
awk '/^```cpp$/ { on = 1; next } /^```/ { on = 0 } on' "$(find docs -name embed.md)" | sed '1i #include <cstdint>\n#include <vector>' >"$DIR/page.cpp"
check "the C++ of the page on embedding" bash -c "grep -q Predictor '$DIR/page.cpp' && c++ -std=c++17 ${warns[*]} -fsyntax-only '$DIR/page.cpp'"
check "there is a C++ compiler" test "$found" -gt 0

# ---- the static library ----
if [ -n "$sanitize" ]; then
    skip "the static library" "the build has a sanitizer"
    finish
fi
check "cmake --install" cmake --install "$build" --prefix "$DIR/prefix"
lib=$(dirname "$(find "$DIR/prefix" -name libdpexec.a)")
check "it defines what dpexec.h declares alone" bash -c "! nm --defined-only '$lib/libdpexec.a' | grep -E ' [A-TV-Z] ' | grep -qv ' T dpx_'"
rm "$lib"/libdpexec.so*
export PKG_CONFIG_PATH=$lib/pkgconfig
check "compile with pkg-config --static" bash -c "$cc -std=c11 docs/example/train.c \$(pkg-config --static --cflags --libs dpexec) -o '$DIR/static'"
check "it needs no libdpexec.so" bash -c "! ldd '$DIR/static' | grep -q dpexec"
says "right answers: 50 of 50" "$DIR/static" models/mlp.onnx "$DIR"
finish
