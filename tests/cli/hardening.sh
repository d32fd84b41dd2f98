#!/bin/bash
# What was built is hardened (cmake/hardening.cmake): programs and libraries are read with readelf and nm, and each check must also
# find a program that was built without.  No file names a folder of the machine that built it.
. "$(dirname "$0")/lib.sh"
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
if [ -n "$(value DPX_SANITIZE)" ]; then
    check "sanitizers watch the functions that _FORTIFY_SOURCE would replace" bash -c "! grep -q 'D_FORTIFY_SOURCE' '$build/build.ninja'"
    skip "hardening" "a sanitized build has none"
    finish
fi

# ---- each succeeds for a file that is hardened ----
relro() { readelf -lW "$1" | grep -q ' GNU_RELRO '; }
bind_now() { readelf -dW "$1" | grep -qE '\(FLAGS\) .*BIND_NOW|\(FLAGS_1\) .*NOW'; }
pie() { readelf -dW "$1" | grep -qE '\(FLAGS_1\) .*PIE'; }
stack_no_code() { readelf -lW "$1" | grep -qE ' GNU_STACK .* RW +0x'; }
writable_or_code() { ! readelf -lW "$1" | grep -qE ' LOAD .* RWE '; }
fixed_code() { ! readelf -dW "$1" | grep -q TEXTREL; }
stack_protected() { nm -D --undefined-only "$1" | grep -q ' __stack_chk_fail\>'; }
fortified() { nm -D --undefined-only "$1" | grep -qE ' __[a-z]+_chk\>'; }
beside_alone() { ! readelf -dW "$1" | grep -E '\((RPATH|RUNPATH)\)' | grep -qvE '\[\$ORIGIN(/[^:]+)?(:\$ORIGIN(/[^:]+)?)*\]$'; }
no_folder() { ! grep -qaF -e "$root/" -e "$build/" "$1"; }

# ---- a program that has nothing of it ----
cat >"$DIR/soft.c" <<'C'
#include <stdio.h>
#include <string.h>
int main(int n, char **words)
{
    char text[64];
    strcpy(text, words[n - 1]);
    puts(text);
    return puts(__FILE__) < 0;
}
C
sed -i "1i #line 1 \"$root/soft.c\"" "$DIR/soft.c"
cc=$(value CMAKE_C_COMPILER)
check "a soft program" "$cc" -O1 -w -no-pie -fno-pie -fno-stack-protector -U_FORTIFY_SOURCE -fcf-protection=none \
    -Wl,-z,norelro -Wl,-z,lazy -Wl,-z,execstack -Wl,-rpath,/nowhere "$DIR/soft.c" -o "$DIR/soft"
for trait in relro bind_now pie stack_no_code stack_protected fortified beside_alone no_folder; do
    check "$trait: a soft program lacks it" bash -c "$(declare -f $trait); root='$root' build='$build'; ! $trait '$DIR/soft'"
done

# ---- what was built ----
for file in dpexec graph-transform libdpexec.so libdpexec_openmpi.so libdpexec_mpich.so libdpexec_cuda.so; do
    if [ ! -e "$build/$file" ]; then
        skip "$file" "it was not built"
        continue
    fi
    for trait in relro bind_now stack_no_code writable_or_code fixed_code stack_protected; do
        check "$file: $trait" $trait "$build/$file"
    done
    case $file in
    *.so) ;;
    *) check "$file: pie" pie "$build/$file" ;;
    esac
    # The plug-ins have the search path that MPI's compiler, or the folders of CUDA, ask for; MPICH's copies nothing that could overflow.
    case $file in
    dpexec | graph-transform | libdpexec.so)
        check "$file: beside_alone" beside_alone "$build/$file"
        check "$file: fortified" fortified "$build/$file"
        ;;
    esac
    if [ "$(value CMAKE_BUILD_TYPE)" = Release ]; then
        check "$file: names no folder of this machine" no_folder "$build/$file"
    fi
done

# Calls of exported functions within the library cannot be diverted by a program that has a function of that name.
check "libdpexec.so calls its own functions directly" bash -c "! readelf -rW '$build/libdpexec.so' | grep JUMP_SLO | grep -E ' dpx_[a-z_]+'"
check "and exports them" bash -c "nm -D --defined-only '$build/libdpexec.so' | grep -q ' T dpx_train_step'"

# Archives have no times and owners.
check "libdpexec.a has no times" bash -c "ar tv '$build/libdpexec.a' | grep -q '^rw-r--r-- 0/0 .* Jan *1 ..:.. 1970 '"
finish
