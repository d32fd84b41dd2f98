#!/bin/bash
# Several processes: the bytes of one process with as many devices, and an end of all with a reason when one of them fails.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data
mlp=(models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --steps 12 --lr 0.01 --momentum 0.9 --threads 1 --quiet)
cnn=(models/fashion_cnn.onnx --data $data/fashion.npz --loss cross-entropy --batch-size 10 --steps 6 --lr 0.01 --threads 1 --quiet)

# ---- the same bytes ----

# same NAME DEVICES ARGS...: one process of DEVICES devices, and as many processes of one; if they are even, half as many of two.
same() {
    local name=$1 n=$2
    shift 2
    check "$name: one process" "$dpexec" "$@" --devices "cpu*$n" --out "$DIR/$name-1"
    check "$name: $n processes" together "$n" "$@" --out "$DIR/$name-n"
    check "$name: the bytes of $n processes" same_run "$DIR/$name-1" "$DIR/$name-n"
    if [ $((n % 2)) = 0 ] && [ "$n" -gt 2 ]; then
        check "$name: $((n / 2)) processes of 2 devices" together $((n / 2)) "$@" --devices 'cpu*2' --out "$DIR/$name-h"
        check "$name: the bytes of $((n / 2)) processes of 2 devices" same_run "$DIR/$name-1" "$DIR/$name-h"
    fi
}
same mlp 2 "${mlp[@]}"
same mlp4 4 "${mlp[@]}"
same cnn 2 "${cnn[@]}"
same adamw 3 "${cnn[@]}" --optimizer adamw --clip-norm 1 --accumulate 2 --metric accuracy --val $data/fashion.npz --eval-every 3
same local 4 "${cnn[@]}" --bn local --replicas 6
same few 4 "${mlp[@]/#10/3}"
check 'without --out' together 2 "${mlp[@]}"

# ---- waiting to meet ----

# One of three does not come: those that wait say so after 10 seconds, and that others cannot come to this address.
next_port
patience=12 start 0 3 "${mlp[@]:0:${#mlp[@]}-1}"
patience=12 start 1 3 "${mlp[@]:0:${#mlp[@]}-1}"
wait
check 'rank 0 says who is missing' grep -qE "^dpexec: rank 0 has waited 1[0-9] seconds for rank 2 of 3 processes at 127.0.0.1:$port" "$DIR/rank-0"
check 'rank 1 says who is missing' grep -qE "^dpexec: rank 1 has waited [0-9]+ seconds for rank 2 of 3 processes" "$DIR/rank-1"
check 'an address of one machine' grep -qF 'only this machine reaches' "$DIR/rank-0"

# ---- stopping and going on ----

check 'the first half' together 2 "${cnn[@]/#6/3}" --out "$DIR/half"
check 'the second half' together 2 "${cnn[@]}" --resume "$DIR/half"
check 'the bytes of a resumed run' same_run "$DIR/cnn-1" "$DIR/half"

# With as many replicas as it began with, on whatever there is now.
check 'four processes begin' together 4 "${mlp[@]/#12/5}" --out "$DIR/fewer"
check 'three go on' together 3 "${mlp[@]/#12/8}" --resume "$DIR/fewer"
check 'two devices go on' "$dpexec" "${mlp[@]/#12/10}" --devices 'cpu*2' --resume "$DIR/fewer"
check 'launched ones end it' "$dpexec" launch -n 2 -- train "${mlp[@]/#12/12}" --resume "$DIR/fewer"
check 'the bytes of one process' same_run "$DIR/mlp4-1" "$DIR/fewer"
refused 2 '--replicas 4: fewer than the 6 devices' "$dpexec" launch -n 3 -- train "${mlp[@]}" --devices 'cpu*2' --resume "$DIR/fewer"

next_port
for r in 0 1; do start $r 2 "${mlp[@]/#12/100000000}" --out "$DIR/stopped"; done
await test -s "$DIR/stopped/metrics.jsonl"
kill -TERM "$(cat "$DIR/pid-1")"
wait
check 'both stop' grep -qx 143 "$DIR/status-0"
check 'rank 0 says so' grep -q 'stopped by a signal' "$DIR/rank-0"
check 'the status of the other' grep -qx 143 "$DIR/status-1"
check 'a checkpoint of the stopped run' test -d "$DIR/stopped/checkpoints"

# Data of one process alone are told before they are read, which all do together.
next_port
start 0 2 "${mlp[@]}"
start 1 2 "${mlp[@]}" --val $data/digits.npz
wait
for r in 0 1; do tells $r 2 "started with different settings: rank 1 has --val 'given', rank 0 'not given'"; done

# One of the processes may use one core of several: both have their share of what they may use.
if [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] && taskset -c 0,1 true 2>/dev/null; then
    next_port
    for r in 0 1; do
        (taskset -c "$([ $r = 0 ] && echo 0,1 || echo 0)" "$dpexec" models/mlp.onnx --data $data/digits.npz --loss cross-entropy \
            --batch-size 10 --steps 2 --world 2 --rank $r --rendezvous "127.0.0.1:$port" >"$DIR/cores-$r" 2>&1) &
    done
    wait
    check 'unequal processes are named' grep -q 'the step waits for the slowest device: cpu:0 of rank 0 (1 core, .* MiB) and cpu:0 of rank 1 (0.5 cores, .* are unequal' \
        "$DIR/cores-0"
fi

# ---- launchers ----

next_port
start_env() { (env "$@" "$dpexec" "${mlp[@]}" --out "$DIR/env-$1" >"$DIR/env.log" 2>&1; echo $? >"$DIR/env-status-$1") & }
start_env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
start_env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
wait
check 'the bytes of a run from the environment' same_run "$DIR/mlp-1" "$DIR/env-RANK=0"
check 'rank 1 writes nothing' test ! -e "$DIR/env-RANK=1"
# torchrun's own store listens at MASTER_PORT.
next_port
"${PYTHON:-/usr/bin/python3}" -c 'import socket, sys, time; s = socket.create_server(("127.0.0.1", int(sys.argv[1]))); time.sleep(60)' "$port" &
store=$!
for r in 0 1; do
    start_env TORCH_RANK=$r RANK=$r WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_USE_AGENT_STORE=True
done
for r in 0 1; do await test -e "$DIR/env-status-TORCH_RANK=$r"; done
kill $store
wait
port=$((port + 1))
check "the bytes of a run under torchrun" same_run "$DIR/mlp-1" "$DIR/env-TORCH_RANK=0"
refused 2 "is the port of torchrun's own store" env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=65535 \
    TORCHELASTIC_USE_AGENT_STORE=True "$dpexec" "${mlp[@]}"
# What one process does for all, rank 0 does.
alone=(models/mlp.onnx --data $data/digits.npz --loss cross-entropy)
says '"eval_loss"' env RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$dpexec" eval "${alone[@]}"
for by in RANK=1,WORLD_SIZE=2,MASTER_ADDR=127.0.0.1,MASTER_PORT=$port OMPI_COMM_WORLD_RANK=1,OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=1; do
    says 'rank 1: nothing to do: rank 0 runs dpexec eval' env ${by//,/ } "$dpexec" eval "${alone[@]}"
done
check 'one evaluation of two processes' test "$("$dpexec" launch -n 2 -- eval "${alone[@]}" 2>/dev/null | grep -c eval_loss)" = 1
refused 2 'srun started 4 processes: connect them with --rendezvous' env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$dpexec" "${mlp[@]}"
refused 2 'SLURM_STEP_NUM_TASKS: expected a whole number' env SLURM_STEP_NUM_TASKS=4x SLURM_PROCID=0 "$dpexec" "${mlp[@]}"
refused 2 'SLURM_PROCID: expected a whole number' env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID= "$dpexec" "${mlp[@]}"
for variable in SLURM_STEP_NUM_TASKS=4,SLURM_PROCID=1 OMPI_COMM_WORLD_SIZE=2,OMPI_COMM_WORLD_RANK=0; do
    # shellcheck disable=SC2086     # several words
    refused 2 'start dpexec launch once' env ${variable//,/ } "$dpexec" launch -n 2 -- "${mlp[@]}"
done
next_port
for r in 0 1; do OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$r start $r 2 "${mlp[@]}"; done
wait
check "mpirun's processes may meet without MPI" grep -qx 0 "$DIR/status-0"
check 'a batch script of Slurm' env SLURM_NTASKS=4 SLURM_PROCID=0 "$dpexec" "${mlp[@]}"
check 'a batch script of Slurm that has named a place' \
    env SLURM_NTASKS=4 SLURM_PROCID=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$dpexec" "${mlp[@]}" --world-timeout 2
check 'a step of one task' env SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$dpexec" "${mlp[@]}"
next_port
start_env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
start_env SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
wait
check 'the bytes of a step of Slurm' same_run "$DIR/mlp-1" "$DIR/env-SLURM_PROCID=0"
refused 2 '--rank 2: expected 0 to 1' "$dpexec" "${mlp[@]}" --world 2 --rank 2 --rendezvous localhost:1
refused 2 'needs --rendezvous' "$dpexec" "${mlp[@]}" --world 2 --rank 1
refused 2 'needs --rank' "$dpexec" "${mlp[@]}" --world 2 --rendezvous localhost:1
refused 2 'expected HOST:PORT' "$dpexec" "${mlp[@]}" --world 2 --rank 1 --rendezvous localhost
refused 2 '--dry-run plans one process' "$dpexec" "${mlp[@]}" --world 2 --rank 1 --rendezvous localhost:1 --dry-run

# ---- failures ----

# Differences are listed, all of them, by every rank.
next_port
start 0 2 "${mlp[@]}"
start 1 2 "${mlp[@]/#0.01/0.5}" --seed 3 --devices 'cpu*2' --no-shuffle
wait
for r in 0 1; do
    for text in "rank 1 has --lr '0.5', rank 0 '0.01'" "--seed '3'" "devices '2 of the CPU', rank 0 '1 of the CPU'" '--no-shuffle'; do
        tells $r 2 "$text"
    done
done
next_port
start 0 2 "${mlp[@]}"
start 1 2 "${mlp[@]/%digits.npz/digits_ignored.npz}"
wait
tells 1 2 '--data of digest'
next_port
start 0 2 "${mlp[@]}"
start 1 2 "${cnn[@]}"
wait
tells 0 2 'a model of digest'

# One that cannot begin tells the others why.
next_port
start 0 3 "${mlp[@]}"
start 1 3 "${mlp[@]}"
start 2 3 "${mlp[@]/#$data*/$DIR/missing.npz}"
wait
tells 2 1 'missing.npz'
tells 0 1 'rank 2 of 3: '
tells 1 1 'missing.npz'

# And one whose GPU cannot: the others do not wait for it in a communicator.
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
next_port
start 0 2 "${mlp[@]}" --devices cuda
DPEXEC_SIM_FAIL=stream_create:2 start 1 2 "${mlp[@]}" --devices cuda
wait
tells 1 1 'stream_create: injected failure'
tells 0 1 'rank 1 of 2: '
next_port
SECONDS=0
start 0 2 "${mlp[@]}" --devices cuda
DPEXEC_SIM_FAIL=comm_create@1:1 start 1 2 "${mlp[@]}" --devices cuda
wait
tells 1 1 'comm_create: injected failure of rank 1'
tells 0 1 'rank 1 of 2: cuda:0: comm_create: injected failure of rank 1'
check 'heard at once' test $SECONDS -lt 30
unset DPEXEC_CUDA_PLUGIN

# A killed process ends the others.
next_port
for r in 0 1 2; do start $r 3 "${mlp[@]/#12/100000000}" --out "$DIR/killed"; done
await test -s "$DIR/killed/metrics.jsonl"
kill -KILL "$(cat "$DIR/pid-1")"
wait
tells 0 1 'rank 1 of 3: the process has gone'
tells 2 1 'rank 1 of 3: the process has gone'

# One that hangs is given up.
next_port
for r in 0 1; do patience=2 start $r 2 "${mlp[@]/#12/100000000}" --out "$DIR/hung"; done
await test -s "$DIR/hung/metrics.jsonl"
kill -STOP "$(cat "$DIR/pid-1")"
await ended 0
kill -CONT "$(cat "$DIR/pid-1")"
wait
tells 0 1 'nothing has come from rank 1 of 2 for 2 seconds'
tells 1 1 'rank 0 of 2: '

# One of four, killed or stopped: the three others end in time, and all say whose fault it was.
for signal in KILL STOP; do
    text='rank 2 of 4: the process has gone'
    [ $signal = KILL ] || text='nothing has come from rank 2 of 4 for 3 seconds; waiting: rank 0'
    next_port
    for r in 0 1 2 3; do patience=3 start $r 4 "${mlp[@]/#12/100000000}" --out "$DIR/four-$signal"; done
    await test -s "$DIR/four-$signal/metrics.jsonl"
    SECONDS=0
    kill -$signal "$(cat "$DIR/pid-2")"
    until [ -s "$DIR/status-0" ] && [ -s "$DIR/status-1" ] && [ -s "$DIR/status-3" ] || [ $SECONDS -ge 20 ]; do sleep 0.1; done
    check "of four, one by $signal: the others end in time" test $SECONDS -lt 20
    for r in 0 1 2 3; do kill -KILL "$(cat "$DIR/pid-$r")" 2>/dev/null; done
    wait
    for r in 0 1 3; do
        tells $r 1 "$text"
        [ $signal = KILL ] || check "rank $r says who waits" grep -qE 'waiting: rank 0.*, 1.*, 3( \(.*\))?$' "$DIR/rank-$r"
    done
done

# Worlds that do not come together.
next_port
patience=1
start 0 3 "${mlp[@]}"
start 1 3 "${mlp[@]}"
wait
tells 0 1 'within 1 seconds: rank 2 did not'
tells 1 1 'rank 2 did not'
next_port
start 1 2 "${mlp[@]}"
wait
tells 1 1 'cannot reach rank 0'
patience=60
next_port
start 0 3 "${mlp[@]}"
start 1 2 "${mlp[@]}"
wait
tells 0 2 'rank 1 was started for a world of 2 processes, rank 0 for one of 3'
tells 1 1 'a world of 2 processes'
next_port
start 0 2 "${mlp[@]}"
asks() { (printf 'GET / HTTP/1.0\r\n\r\n' >"/dev/tcp/127.0.0.1/$port"); }
await asks
start 1 2 "${mlp[@]}"
wait
check 'a stranger connects' grep -qx 0 "$DIR/status-0"
check 'a stranger connects, rank 1' grep -qx 0 "$DIR/status-1"
next_port
start 0 2 "${mlp[@]}"
await listens $port
patience=5 start 0 2 "${mlp[@]}" --no-shuffle
await ended 0
tells 0 1 'Address already in use'
start 1 2 "${mlp[@]}"
wait
finish
