#!/bin/bash
# Processes that MPI's launchers start: the bytes of one process with as many devices, and an end of all when one of them fails.
# With Open MPI and with MPICH, each where its plug-in is built; then its launcher must be there too.
. "$(dirname "$0")/lib.sh"
export LSAN_OPTIONS=suppressions=$root/tests/member/lsan.supp:print_suppressions=0 ASAN_OPTIONS=$ASAN_OPTIONS:fast_unwind_on_malloc=0
data=tests/oracle/data
python=${PYTHON:-/usr/bin/python3}
mlp=(models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --steps 12 --lr 0.01 --momentum 0.9 --threads 1 --quiet)
loud=("${mlp[@]::${#mlp[@]}-1}")
cnn=(models/fashion_cnn.onnx --data $data/fashion.npz --loss cross-entropy --batch-size 10 --steps 4 --lr 0.01 --threads 1 --quiet)
dropout=(models/exported_resnet.onnx --data $data/images32.npz --loss cross-entropy --batch-size 6 --steps 4 --lr 0.01 --threads 1 --quiet)
for variable in $(compgen -e | grep -E '^(OMPI_|PMI_|PMIX_|SLURM_|HYDI_)'); do unset "$variable"; done

# started LIBRARY N COMMAND...: by the library's launcher.
started() {
    local library=$1 n=$2
    shift 2
    case $library in
    # shellcheck disable=SC2086     # options
    openmpi) timeout 120 mpirun.openmpi --allow-run-as-root --oversubscribe ${openmpi_options:-} -n "$n" "$@" ;;
    mpich) timeout 120 mpirun.mpich -n "$n" "$@" ;;
    esac
}

# ends LIBRARY PATTERN...: nobody is left, the status is not 0, and each pattern is in what was said; of what `launch` has started.
ends() {
    local library=$1
    shift
    wait "$launched"
    local status=$?
    if [ $status = 0 ] || [ $status = 124 ]; then
        fail "$library: the launcher's status is $status, expected an end that says: $*"
        grep -a dpexec "$DIR/said" | head -5
        return
    fi
    for text; do
        if ! grep -q -- "$text" "$DIR/said"; then
            fail "$library: expected '$text', found:"
            grep dpexec "$DIR/said" | head -5
            return
        fi
    done
    for _ in {1..100}; do
        [ -z "$(survivors)" ] && { pass; return; }
        sleep 0.1
    done
    fail "$library: processes are left: $(survivors)"
}

# launch LIBRARY N SCRIPT: in the background, each process by this script, which finds its rank in $rank; the rest are dpexec's
# arguments "$@" of the call.
launch() {
    local library=$1 n=$2 script=$3
    shift 3
    rm -f "$DIR"/pid-*
    # shellcheck disable=SC2016     # the script's own variables
    started "$library" "$n" bash -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; dpexec=$1 DIR=$2; shift 3; '"$script"'
        echo $$ >"$DIR/pid-$rank.new" && mv "$DIR/pid-$rank.new" "$DIR/pid-$rank"; exec "$dpexec" "$@"' \
        run "$dpexec" "$DIR" -- "$@" >"$DIR/said" 2>&1 &
    launched=$!
}
survivors() {
    for f in "$DIR"/pid-*; do
        [ -e "$f" ] && [ -d "/proc/$(cat "$f")" ] && grep -qs '^State:.*[RSDT]' "/proc/$(cat "$f")/status" && cat "$f"
    done
}

# same LIBRARY NAME N ARGS...: one process of N devices, made once, and N processes.
same() {
    local library=$1 name=$2 n=$3
    shift 3
    [ -e "$DIR/$name-$n/model.onnx" ] || check "$name: one process" "$dpexec" "$@" --devices "cpu*$n" --out "$DIR/$name-$n"
    rm -rf "$DIR/mpi"
    check "$library: $name: $n processes" started "$library" "$n" "$dpexec" "$@" --out "$DIR/mpi"
    check "$library: $name: the bytes of $n processes" same_run "$DIR/$name-$n" "$DIR/mpi"
}

bytes() {
    for n in 1 2 3 4 5; do same "$1" mlp $n "${mlp[@]}"; done
    same "$1" adamw 3 "${cnn[@]}" --optimizer adamw --clip-norm 1 --accumulate 2 --metric accuracy --val $data/fashion.npz --eval-every 2
    same "$1" cnn 2 "${cnn[@]}"
    same "$1" few 4 "${mlp[@]/#10/3}"
    same "$1" dropout 3 "${dropout[@]}"
    same "$1" dropout-of-5 2 "${dropout[@]}" --replicas 5
    same "$1" local 2 "${cnn[@]}" --bn local --replicas 3
    check "$1: only rank 0 prints" test "$(started "$1" 3 "$dpexec" "${mlp[@]}" | grep -c trained)" = 1
}


# The last checkpoint of a run's folder.
states() { echo "$1"/checkpoints/step-*/state.safetensors; }

# sums LIBRARY NAME N LIMIT ARGS...: with --reduce library the states of the tree within LIMIT, and --out "$DIR/library" remains.
sums() {
    local library=$1 name=$2 n=$3 limit=$4
    shift 4
    rm -rf "$DIR/library" "$DIR/tree"
    check "$library: $name: the tree's sums" "$dpexec" "$@" --devices "cpu*$n" --out "$DIR/tree"
    check "$library: $name: the library's sums" started "$library" "$n" "$dpexec" "$@" --reduce library --out "$DIR/library"
    check "$library: $name: both are near" "$python" tests/worlds/near.py "$limit" "$(states "$DIR/library")" "$(states "$DIR/tree")"
}

# Of 17,226 gradients in one bucket: enough that neither library adds those of 5 processes as the tree does.
reductions() {
    local adam=(models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --steps 4 --optimizer adamw --threads 1 --quiet)
    for n in 2 3 5; do
        sums "$1" "float32 of $n" $n 1e-5 "${mlp[@]}"
        [ $n != 5 ] || check "$1: the library's bits are its own" differ "$(states "$DIR/library")" "$(states "$DIR/tree")"
        sums "$1" "float64 of $n" $n 1e-12 "${mlp[@]}" --dtype float64
        sums "$1" "pieces of $n" $n 1e-12 "${adam[@]}" --dtype float64 --shard parameters --clip-norm 0.1 --accumulate 2
    done
    check "$1: the run knows what added" grep -q '"reduce": *"library"' "$DIR/library/args.json"
    for n in 2 3; do # with two, a wrong order of the sum has the same bits
        check "$1: $n devices each" started "$1" 2 "$dpexec" "${mlp[@]}" --devices "cpu*$n" --replicas 7 --reduce library --out "$DIR/each"
        check "$1: as one process" "$dpexec" "${mlp[@]}" --devices "cpu*$((2 * n))" --replicas 7 --out "$DIR/one"
        check "$1: both are near" "$python" tests/worlds/near.py 1e-5 "$(states "$DIR/each")" "$(states "$DIR/one")"
        rm -rf "$DIR/each" "$DIR/one"
    done
    says 'last bits depend on the mapping' started "$1" 2 "$dpexec" "${loud[@]}" --reduce library
}

resumes() {
    same "$1" whole 2 "${cnn[@]}"
    rm -rf "$DIR/half"
    check "$1: the first half" started "$1" 2 "$dpexec" "${cnn[@]/#4/2}" --out "$DIR/half"
    check "$1: the second half" started "$1" 2 "$dpexec" "${cnn[@]}" --resume "$DIR/half"
    check "$1: the bytes of a resumed run" same_run "$DIR/whole-2" "$DIR/half"
}

# The checkpoint of a run that was ended is one to go on from.
goes_on() { check "$1: a checkpoint of the ended run" "$dpexec" "${mlp[@]/#12/20}" --devices "cpu*$2" --resume "$DIR/ended"; }

differences() {
    # shellcheck disable=SC2016
    launch "$1" 2 '[ $rank = 0 ] || set -- "${@/#0.01/0.5}"' "${mlp[@]}"
    ends "$1" "rank 1 has --lr '0.5', rank 0 '0.01'"
    # shellcheck disable=SC2016
    launch "$1" 2 '[ $rank = 0 ] || set -- "${@/%digits.npz/digits_ignored.npz}"' "${mlp[@]}"
    ends "$1" '--data of digest'
    # shellcheck disable=SC2016
    launch "$1" 2 '[ $rank = 0 ] || { shift; set -- models/fashion_cnn.onnx "${@/%digits.npz/fashion.npz}"; }' "${mlp[@]}"
    ends "$1" 'a model of digest'
    # shellcheck disable=SC2016
    launch "$1" 3 '[ $rank != 2 ] || set -- "${@/%*digits.npz/missing.npz}"' "${mlp[@]}"
    ends "$1" 'missing.npz' 'rank 2 of 3: '
}

# begun: a run without end has written its first metrics and checkpoints, and all processes are known.
begun() {
    for _ in {1..600}; do
        [ -s "$DIR/ended/metrics.jsonl" ] && [ -n "$(ls "$DIR/ended/checkpoints" 2>/dev/null)" ] && return
        sleep 0.1
    done
    fail 'a run has not begun within a minute'
    tail -3 "$DIR/said"
}

# ended_by LIBRARY SIGNAL TEXT... [-- ARGS...]
ended_by() {
    local library=$1 signal=$2 said=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do said+=("$1"); shift; done
    rm -rf "$DIR/ended"
    launch "$library" 3 '' "${mlp[@]/#12/100000000}" "${@:2}" --checkpoint-every 5 --world-timeout 4 --out "$DIR/ended"
    begun
    kill "-$signal" "$(cat "$DIR/pid-1")"
    ends "$library" "${said[@]}"
    goes_on "$library" 3
}

# Open MPI's launcher leaves the others be where it is told to (docs/guide/cluster.md): they say what they waited for, and for whom.
last_words() {
    local openmpi_options='--mca orte_abort_on_non_zero_status 0'
    [[ $(mpirun.openmpi --version) == *') 4.'* ]] || openmpi_options=--continuous
    ended_by openmpi KILL 'nothing has come from rank 1 of 3 for 4 seconds; waiting: rank 0.*, 2'
}

# What devices need to meet in a communicator of their own goes over MPI too, and a failure of one is told.
devices() {
    export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    # shellcheck disable=SC2016
    launch "$1" 2 '[ $rank = 0 ] || export DPEXEC_SIM_FAIL=comm_create@1:1' "${mlp[@]}" --devices cuda
    ends "$1" 'rank 1: ' 'rank 1 of 2: cuda:0: comm_create: injected failure of rank 1'
    unset DPEXEC_CUDA_PLUGIN
}

wrong_launcher() {
    local other=mpich
    [ "$1" = mpich ] && other=openmpi
    [ -e "$build/libdpexec_$other.so" ] || return
    launch "$1" 2 '' "${mlp[@]}" --mpi $other
    ends "$1" 'but 2 were started'
}

# Members that talk and train nothing (tests/member).
members() {
    for case in pieces watched neighbours small sums; do
        check "$1: members: $case" started "$1" 3 "$build/world_member" "$1" $case
    done
    for n in 2 5; do check "$1: members: sums of $n" started "$1" $n "$build/world_member" "$1" sums; done
    talks "$1" broken-off 'member 0: the milk is finished' 'member 2: rank 0 of 3: the milk is finished'
    talks "$1" other-size 'rank 1 of 3 is at exchange 1 of 8 bytes, expected exchange 1 of 16 bytes'
    talks "$1" absent 'the number of cups: nothing has come from rank 2 of 3 for 1 seconds; waiting: rank 0, 1'
    talks "$1" absent-from-sum 'nothing has come from rank 2 of 3 for 1 seconds; waiting: rank 0, 1'
    check "$1: members: patient" started "$1" 3 "$build/world_member" "$1" patient
    check "$1: a communicator of an embedder" started "$1" 3 "$build/embedder_$1"
    started "$1" 3 "$build/embedder_$1" outlive >"$DIR/said" 2>&1
    check "$1: the status that the embedder gives" test $? = 42
    check "$1: all outlive a failed world" test "$(grep -c 'has outlived its world' "$DIR/said")" = 3
}

# watched LIBRARY ARGS...: a run under tests/member/faulty_mpi.c, which ends a process that makes a call that waits or sends a message
# above 1 MiB; what is written of the end is in $DIR/diary.
watched() {
    local library=$1
    shift
    rm -rf "$DIR/diary" "$DIR/watched"
    MPI_DIARY=$DIR/diary launch "$library" 3 'export LD_PRELOAD='"$build/libfaulty_$library.so"'; ' "$@"
    wait "$launched"
}
noted() { test "$(grep -c "$1" "$DIR/diary")" = "$2"; }

# MPI is finalized where all is well and only there; MPI_Abort is the tool's, after a failure (an embedder's failed world: `members`).
calls() {
    check "$1: no call waits, no message is large" watched "$1" models/fashion_cnn.onnx --data $data/fashion.npz --loss cross-entropy \
        --steps 2 --batch-size 10 --threads 1 --quiet --shard parameters --out "$DIR/watched"
    check "$1: all finalize" noted MPI_Finalize 3
    check "$1: nobody aborts" noted MPI_Abort 0
    check "$1: messages were sent" grep -qE 'messages [1-9][0-9]{2}' "$DIR/diary"
    check "$1: none waits with --reduce library" watched "$1" "${mlp[@]}" --reduce library
    MPI_DIARY=$DIR/diary FAULTY_MPI=1:MPI_Isend:30 watched "$1" "${mlp[@]}" && fail "$1: a run that fails ends well"
    check "$1: nobody finalizes after a failure" noted MPI_Finalize 0
    check "$1: the tool aborts" grep -q 'MPI_Abort' "$DIR/diary"
}

# faulty LIBRARY CALL N TEXT ARGS...: rank 1's Nth call of MPI's fails; it says what MPI says, and the others say it after it.
faulty() {
    local library=$1 call=$2 n=$3 text=$4
    shift 4
    export FAULTY_MPI=1:$call:$n
    # shellcheck disable=SC2016
    launch "$library" 3 'export LD_PRELOAD='"$build/libfaulty_$library.so"'; ' "${mlp[@]}" "$@"
    unset FAULTY_MPI
    case $call in
    MPI_Comm_idup) ends "$library" "dpexec: $text" ;;
    *) ends "$library" ": $text" "rank 1 of 3: $text" ;;
    esac
}

errors() {
    local name='Open MPI' said='MPI_ERR_INTERN'
    [ "$1" = openmpi ] || { name=MPICH said='Internal MPI error!'; }
    faulty "$1" MPI_Isend 30 "$name: sending: $said"
    faulty "$1" MPI_Irecv 30 "$name: receiving: $said"
    faulty "$1" MPI_Test 40 "\([a-z ]*: \)\?$name: "           # polls are more or fewer: whatever is under way then
    faulty "$1" MPI_Iallreduce 3 "$name: a sum: $said" --reduce library
    faulty "$1" MPI_Comm_idup 1 "$name: duplicating the communicator: $said" --world-timeout 3
}

# talks LIBRARY CASE TEXT...: all end with a failure, and each text is said.
talks() {
    local library=$1 case=$2 status
    shift 2
    started "$library" 3 "$build/world_member" "$library" "$case" >"$DIR/said" 2>&1
    status=$?
    [ $status != 0 ] && [ $status != 124 ] || fail "$library: $case: status $status"
    for text; do check "$library: $case: $text" grep -qF -- "$text" "$DIR/said"; done
}

for library in openmpi mpich; do
    if [ ! -e "$build/libdpexec_$library.so" ]; then
        skip "$library" 'its plug-in is not built, CMake found no mpicc'
        continue
    fi
    if ! command -v "mpirun.$library" >/dev/null; then
        fail "$library: its plug-in is built, and there is no mpirun.$library"
        continue
    fi
    members $library
    errors $library
    calls $library
    bytes $library
    reductions $library
    resumes $library
    differences $library
    ended_by $library STOP 'nothing has come from rank 1 of 3 for 4 seconds; waiting: rank 0.*, 2'
    ended_by $library STOP 'nothing has come from rank 1 of 3 for 4 seconds; waiting: rank 0.*, 2' -- --reduce library
    ended_by $library KILL
    [ $library = mpich ] || last_words
    ended_by $library TERM
    devices $library
    wrong_launcher $library
    check "$library: --mpi without a launcher trains alone" "$dpexec" "${mlp[@]}" --mpi $library
done

# What dropout drops does not depend on the replicas, and it does drop: another seed drops others.
for r in 1 3; do check "dropout of $r replicas" "$dpexec" "${dropout[@]}" --dtype float64 --no-shuffle --replicas $r --out "$DIR/drop-$r"; done
check 'the same is dropped' "$python" tests/worlds/near.py 1e-12 "$(states "$DIR/drop-1")" "$(states "$DIR/drop-3")"
check 'another seed' "$dpexec" "${dropout[@]}" --dtype float64 --no-shuffle --seed 1 --out "$DIR/drop-seed"
"$python" tests/worlds/near.py 1e-6 "$(states "$DIR/drop-1")" "$(states "$DIR/drop-seed")" 2>/dev/null && fail 'another seed drops the same'

# ---- what else --reduce says ----

refused 2 '--reduce library needs processes that MPI connects' "$dpexec" launch -n 2 -- train "${mlp[@]}" --reduce library
refused 2 '--reduce: expected tree|library' "$dpexec" "${mlp[@]}" --reduce ring
refused 2 '--reproducible does not go with --reduce library, whose bits depend' "$dpexec" "${mlp[@]}" --reduce library --reproducible
says 'library has no effect: there is one process' "$dpexec" "${loud[@]}" --reduce library

# ---- what the environment says ----

refused 2 '--mpi: expected openmpi or mpich' "$dpexec" "${mlp[@]}" --mpi lam
refused 2 '--rendezvous does not go with --mpi' "$dpexec" "${mlp[@]}" --mpi mpich --rendezvous localhost:1
refused 2 'mpiexec started 2 processes: connect them with --rendezvous HOST:PORT, or by MPI with --mpi' env PMI_SIZE=2 PMI_RANK=0 "$dpexec" "${mlp[@]}"
refused 2 'a launcher started processes: ' env PMIX_RANK=0 "$dpexec" "${mlp[@]}"
check 'one task of srun' env PMIX_RANK=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$dpexec" "${mlp[@]}"
check 'one process of mpirun' env OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 DPEXEC_OPENMPI_PLUGIN=/nowhere "$dpexec" "${mlp[@]}"
check 'each for itself' env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$dpexec" "${mlp[@]}" --world 1
refused 1 'cannot be loaded' env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 DPEXEC_OPENMPI_PLUGIN=/nowhere "$dpexec" "${mlp[@]}"
finish
