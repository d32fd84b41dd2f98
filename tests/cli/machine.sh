#!/bin/bash
# What a process may have of the machine: processors by its mask and its group's quota, memory by its group's limit; and how long
# its threads wait by spinning.  Groups are made of files in a mount namespace, which takes root.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cd "$DIR" || exit 1

processors=$(env -u OMP_NUM_THREADS nproc)
cores() { "$@" "$dpexec" devices 2>/dev/null | sed -nE '1s/.* ([0-9]+) (core|cores),.*/\1/p'; }
check "all processors" test "$(cores env)" = "$processors"
check "those of the mask" test "$(cores taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')")" = 1

# grouped NAME=VALUE... -- COMMAND...: below a group whose files say so.
cat >grouped <<'END'
#!/bin/bash
if [ "${1:-}" != --inside ]; then exec unshare -m "$0" --inside "$@"; fi
shift
mount -t tmpfs none /sys/fs/cgroup || exit 1
for ((; $# > 0; )); do
    [ "$1" = -- ] && break
    mkdir -p "$(dirname "/sys/fs/cgroup/${1%%=*}")"
    echo "${1#*=}" >"/sys/fs/cgroup/${1%%=*}"
    shift
done
shift
exec "$@"
END
chmod +x grouped
if ./grouped cpu.max=max -- true 2>/dev/null; then
    check "no quota" test "$(cores ./grouped "cpu.max=max 100000" --)" = "$processors"
    check "a quota of 1.5 processors" test "$(cores ./grouped "cpu.max=150000 100000" --)" = 1
    check "a quota of a tenth" test "$(cores ./grouped "cpu.max=10000 100000" --)" = 1
    check "a quota of version 1" test "$(cores ./grouped cpu/cpu.cfs_quota_us=100000 cpu/cpu.cfs_period_us=100000 --)" = 1
    says "0.5 GiB" ./grouped memory.max=536870912 -- "$dpexec" devices
    check "data" "$python" -c 'import numpy as np
np.savez("d.npz", image=np.zeros((512, 1, 28, 28), "f"), target=np.zeros(512, "i8"))'
    train=("$dpexec" "$root/models/fashion_cnn.onnx" --data d.npz --loss cross-entropy --batch-size 512 --steps 1 --out run)
    ./grouped memory.max=67108864 -- "${train[@]}" >out.txt 2>err.txt
    check "a plan above the group's memory" test $? = 1
    check "says what there is" grep -q 'out of memory: a step needs .* the machine or its group has 64.0 MiB' err.txt
    check "with the table of the plan" grep -q "the arena's peak" err.txt
    check "and before the first step" test ! -s run/metrics.jsonl
else
    skip "groups" "no mount namespace can be made"
fi

spins() { OMP_DISPLAY_ENV=verbose "$@" "$dpexec" --version 2>&1 | sed -nE "s/.*GOMP_SPINCOUNT = '([0-9]+)'.*/\1/p" | tail -1; }
check "few rounds" test "$(spins env)" -lt 50000
check "as the environment says" test "$(spins env GOMP_SPINCOUNT=123)" = 123
check "or its policy" test "$(spins env OMP_WAIT_POLICY=passive)" = 0
finish
