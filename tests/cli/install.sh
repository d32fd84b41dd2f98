#!/bin/bash
# Installs into an empty prefix, builds and runs docs/example against it, by pkg-config and by find_package, and uninstalls.
. "$(dirname "$0")/lib.sh"
prefix=$DIR/prefix
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
flags=(-std=c11 -Wall -Wextra -Werror ${sanitize:+-fsanitize=$sanitize})

check "cmake --install" cmake --install "$build" --prefix "$prefix"
lib=$(dirname "$(find "$prefix" -name libdpexec.so)")
check "libdpexec.so" test -e "$lib/libdpexec.so"
check "soname" bash -c "objdump -p '$lib/libdpexec.so' | grep -q 'SONAME *libdpexec.so.0'"

# Exactly what the header declares is exported, and what the tools of this release call, under a version of its own.
grep -oE 'DPX_API [a-z_0-9 *]+ \**dpx_[a-z_]+\(' include/*.h | grep -oE 'dpx_[a-z_]+\(' | tr -d '(' | sort -u >"$DIR/declared"
nm -D --defined-only "$lib/libdpexec.so" | awk '$2 != "A" && !/@@DPEXEC_PRIVATE_/ { sub("@@.*", "", $3); print $3 }' | grep -v '^__\(asan\|ubsan\|tsan\|odr\)' | sort -u >"$DIR/exported"
check "exports what the header declares" diff "$DIR/declared" "$DIR/exported"
check "the header is C++ as well" bash -c "! command -v c++ >/dev/null || echo '#include <dpexec.h>' | c++ -x c++ -fsyntax-only -I '$prefix/include' -"
for page in man1/dpexec-train.1 man3/dpexec.3 man3/dpx_train_step.3 man3/dpx_train_step_sized.3; do
    check "$page" test -s "$prefix/share/man/$page"
done
pages=$(cd "$build/man" && ls dpexec-*.1 | wc -l)
check "a man page for each command" test "$(("$("$dpexec" --help | grep -c '^  [a-z][a-z]*  ')"))" = "$pages"
doc=$prefix/share/doc/dpexec
for file in LICENSE CHANGELOG.md SECURITY.md examples/train.c examples/CMakeLists.txt examples/mlp.onnx; do
    check "share/doc/dpexec/$file" test -s "$doc/$file"
done
check "the licence" cmp LICENSE "$doc/LICENSE"
for shell in bash-completion/completions/dpexec zsh/site-functions/_dpexec fish/vendor_completions.d/dpexec.fish; do
    check "share/$shell" grep -q 'learning-rate\|lr-schedule' "$prefix/share/$shell"
done
check "bash reads its completions" bash -n "$prefix/share/bash-completion/completions/dpexec"
version=$(sed -n 's/^#define DPX_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' include/dpexec.h | paste -sd.)
says "$version" "$prefix/bin/dpexec" --version
check "the library's file has the version" test -f "$lib/libdpexec.so.$version"
check "pkg-config has the version" test "$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --modversion dpexec)" = "$version"
check "the installed graph-transform" "$prefix/bin/graph-transform" --help

# Plug-ins are in a folder of their own, in which program and library find them.
for library in openmpi mpich; do
    if [ -e "$build/libdpexec_$library.so" ]; then
        check "the plug-in of $library" test -e "$lib/dpexec/libdpexec_$library.so"
        mv "$lib/dpexec/libdpexec_$library.so" "$DIR/"
        echo "no library" >"$lib/dpexec/libdpexec_$library.so"
        refused 1 "plug-in $prefix" env -u DPEXEC_PLUGIN_DIR "$prefix/bin/dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz \
            --loss cross-entropy --batch-size 10 --steps 1 --mpi "$library"
        mv "$DIR/libdpexec_$library.so" "$lib/dpexec/"
    fi
done

# The CUDA plug-in, where there is one, is found by the installed program and by nothing else here: what it says next, that there is
# no driver or which GPUs there are, comes from CUDA.
if [ -e "$build/libdpexec_cuda.so" ]; then
    check "the plug-in" test -e "$lib/dpexec/libdpexec_cuda.so"
    env -u DPEXEC_PLUGIN_DIR -u DPEXEC_CUDA_PLUGIN "$prefix/bin/dpexec" devices >"$DIR/devices" 2>&1
    check "the plug-in is found" bash -c "! grep -q 'there is no CUDA plug-in\|cannot be loaded' '$DIR/devices'"
else
    skip "the installed plug-in" "it was not built"
fi

{
    printf "\x93NUMPY\x01\x00\x76\x00%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 64), }"
    head -c 256 /dev/zero
} >"$DIR/x.npy"

export PKG_CONFIG_PATH=$lib/pkgconfig
mkdir "$DIR/by_pkg_config"
check "compile with pkg-config" bash -c "$cc ${flags[*]} docs/example/train.c \$(pkg-config --cflags --libs dpexec) -o '$DIR/by_pkg_config/train'"
says "right answers: 50 of 50" env LD_LIBRARY_PATH="$lib" "$DIR/by_pkg_config/train" models/mlp.onnx "$DIR/by_pkg_config"

check "configure with find_package" cmake -G Ninja -S docs/example -B "$DIR/by_cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="${sanitize:+-fsanitize=$sanitize}"
check "compile with find_package" cmake --build "$DIR/by_cmake"
says "resumed at step 20" "$DIR/by_cmake/train" models/mlp.onnx "$DIR/by_cmake"
says "state fc1.weight" "$DIR/by_cmake/train" models/mlp.onnx "$DIR/by_cmake"
says "the copy is at step 40; predictions were asked for: yes" "$DIR/by_cmake/app" models/mlp.onnx
check "run the trained model" "$dpexec" run "$DIR/by_cmake/trained.onnx" --input "x=$DIR/x.npy" --out "$DIR/out"
check "its output" test -s "$DIR/out/logits.npy"

# ---- uninstall ----
echo "not dpexec's" >"$prefix/bin/other"
check "uninstall" cmake --build "$build" --target uninstall
check "nothing is left but what others put there: $(cd "$prefix" && find . ! -type d)" \
    test "$(cd "$prefix" && find . ! -type d)" = ./bin/other
check "no folder of dpexec's is left" bash -c "! find '$prefix' -type d -name dpexec | grep ."
says "already gone" cmake --build "$build" --target uninstall

# As packages are made: into a folder that stands for the root.
check "with DESTDIR" env DESTDIR="$DIR/root" cmake --install "$build" --prefix /opt/dpexec
check "it is there" test -x "$DIR/root/opt/dpexec/bin/dpexec"
check "uninstall with DESTDIR" env DESTDIR="$DIR/root" cmake --build "$build" --target uninstall
check "nothing is left there" test -z "$(find "$DIR/root" ! -type d)"
finish
