#!/bin/bash
# The cores that --workers takes from the devices' teams, on machines of 4 to 16 cores that a library in front of libc makes up.
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cat >"$DIR/cores.c" <<'END'
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < atoi(getenv("CORES")); i++)
        CPU_SET_S(i, size, set);
    return 0;
}
END
check "a library" "$cc" -shared -fPIC -o "$DIR/cores.so" "$DIR/cores.c"
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0
# on CORES COMMAND...: the command on a machine of so many cores.
on() { CORES=$1 LD_PRELOAD=$DIR/cores.so "${@:2}"; }
# threads CORES FLAG...: threads of each device in the plan.
threads() { on "$1" "$dpexec" models/fashion_cnn.onnx --loss cross-entropy --batch-size 8 --dry-run --quiet "${@:2}" | sed -n 's/.*: threads: //p' | paste -sd' '; }
images=(--data images:none)
check "the made-up cores" test "$(threads 16)" = 16
check "two workers" test "$(threads 16 "${images[@]}")" = 14
check "five workers" test "$(threads 16 "${images[@]}" --workers 5)" = 11
check "more workers than cores" test "$(threads 16 "${images[@]}" --workers 40)" = 1
check "of two devices" test "$(threads 16 "${images[@]}" --workers 3 --devices 'cpu*2')" = "6 6"
check "--threads" test "$(threads 16 "${images[@]}" --workers 5 --threads 16)" = 16
check "six cores" test "$(threads 6 "${images[@]}")" = 5
check "four cores" test "$(threads 4 "${images[@]}" --workers 2)" = 4
for source in text:none tokens:none.bin csv:none.csv none.npz; do
    check "$source is copied" test "$(threads 16 --data $source --workers 5)" = 16
done

# In a run, whose bytes do not depend on the workers.
files=(tests/tools/images/*.jpg tests/tools/images/*.png)
for i in $(seq 0 15); do
    f=${files[$((i % ${#files[@]}))]} class=$((i % 2))
    mkdir -p "$DIR/photos/$class"
    cp "$f" "$DIR/photos/$class/$i.${f##*.}"
done
run=("$dpexec" models/resnet20.onnx --data "images:$DIR/photos" --loss cross-entropy --batch-size 8 --epochs 2)
says "cpu:0, 4 cores left to --workers" on 12 "${run[@]}" --workers 4 --out "$DIR/left"
says "devices    cpu:0;" on 12 "${run[@]}" --workers 4 --threads 2 --out "$DIR/four"
says "devices    cpu:0;" on 4 "${run[@]}" --workers 4 --out none
check "one worker" on 12 "${run[@]}" --workers 1 --threads 2 --out "$DIR/one"
check "the same bytes" same_run "$DIR/one" "$DIR/four"
says '"samples":16' on 12 "$dpexec" eval "$DIR/one" --data "images:$DIR/photos" --workers 4
finish
