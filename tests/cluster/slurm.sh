#!/bin/bash
# Under a Slurm of its own, one node that is this machine: tasks of srun with either MPI and with a meeting place give the bytes of one
# process, with neither they are refused, and the batch scripts of docs/example do what docs/guide/cluster.md says.
# Needs slurmctld, slurmd and munged (tools/install_packages.sh slurm); without them nothing is tested, and that is said.
. "$(dirname "$0")/../cli/lib.sh"
PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd srun sbatch scontrol; do
    command -v $tool >/dev/null && continue
    skip 'Slurm' "there is no $tool (tools/install_packages.sh slurm)"
    echo '0 passed, 0 failed'
    exit 0
done
data=$root/tests/oracle/data
mlp=("$root/models/mlp.onnx" --data "$data/digits.npz" --loss cross-entropy --batch-size 10 --steps 12 --lr 0.01 --momentum 0.9 --threads 1 --quiet)
for variable in $(compgen -e | grep -E '^(OMPI_|PMI_|PMIX_|SLURM_|HYDI_|MASTER_)'); do unset "$variable"; done
export PATH=$build:$PATH
chmod 755 "$DIR"

# ---- the cluster ----

daemons=()
# daemon NAME COMMAND...: in the background, until the test ends.
daemon() {
    local name=$1
    shift
    "$@" >"$DIR/$name.out" 2>&1 &
    daemons+=($!)
}
down() {
    [ -z "${SLURM_CONF:-}" ] || scancel --user="$(id -un)" 2>/dev/null
    [ ${#daemons[@]} = 0 ] || kill "${daemons[@]}" 2>/dev/null
    wait
    rm -rf "$DIR"
}
trap down EXIT

up() {
    local host user
    host=$(hostname -s) user=$(id -un)
    mkdir -p "$DIR/state" "$DIR/spool" "$DIR/munge"
    (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge/key")
    next_port
    cat >"$DIR/slurm.conf" <<CONF
ClusterName=dpexec
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$DIR/munge/socket
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=8
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$DIR/slurm.conf
    daemon munged munged --force --foreground --key-file="$DIR/munge/key" --socket="$DIR/munge/socket" --pid-file="$DIR/munge/pid" \
        --log-file="$DIR/munge/log" --seed-file="$DIR/munge/seed"
    daemon slurmctld slurmctld -D -c
    daemon slurmd slurmd -D
    for _ in {1..300}; do
        sinfo --noheader --format=%T 2>/dev/null | grep -qx idle && { pass; return; }
        sleep 0.1
    done
    fail 'Slurm has not come up within 30 seconds'
    tail -n 5 "$DIR"/*.out "$DIR"/*.log
    finish
}

# step N ARGS...: of srun; its own flags first.
step() {
    local n=$1
    shift
    timeout 90 srun -n "$n" "$@"
}

# same NAME N FLAGS... -- ARGS...: a step of N tasks, and one process of N devices.
same() {
    local name=$1 n=$2 flags=()
    shift 2
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    [ -e "$DIR/one-$n/model.onnx" ] || check "one process of $n devices" dpexec train "${mlp[@]}" --devices "cpu*$n" --out "$DIR/one-$n"
    rm -rf "$DIR/run"
    check "$name: $n tasks" step "$n" "${flags[@]}" dpexec train "${mlp[@]}" --out "$DIR/run" "$@"
    check "$name: the bytes of $n tasks" same_run "$DIR/one-$n" "$DIR/run"
}

# has LIBRARY PLUGIN: the plug-in is built, and srun can start processes in the way that it understands.
has() {
    [ -e "$build/libdpexec_$1.so" ] || { skip "srun with $1" 'its plug-in is not built'; return 1; }
    srun --mpi=list 2>&1 | grep -qw "$2" || { skip "srun with $1" "this Slurm has no --mpi=$2"; return 1; }
}

# job N SCRIPT ARGS...: waits for its end; what it said is in $DIR/job.
job() {
    local n=$1
    shift
    (cd "$DIR" && timeout 120 sbatch --quiet --wait -n "$n" --ntasks-per-node="$n" --output="$DIR/job" "$@")
}

up

# ---- steps ----

! has openmpi pmix || same 'Open MPI' 3 --mpi=pmix -- --mpi openmpi
! has mpich pmi2 || same 'MPICH' 3 --mpi=pmi2 -- --mpi mpich
next_port
same 'a meeting place' 3 -- --rendezvous "localhost:$port"
MASTER_ADDR=localhost MASTER_PORT=$port same 'a meeting place of the environment' 2 --
neither='srun started 3 processes: connect them with --rendezvous HOST:PORT, or by MPI with --mpi openmpi or --mpi mpich'
refused 2 "$neither" srun --quiet -n 3 dpexec train "${mlp[@]}"
refused 2 "$neither" srun --quiet --mpi=pmi2 -n 3 dpexec train "${mlp[@]}"
refused 2 'srun started 2 processes, of which each would train a model of its own' srun --quiet -n 2 dpexec launch -n 2 -- train "${mlp[@]}"
check 'one task is alone' step 1 dpexec train "${mlp[@]}"
check 'one task launches' step 1 dpexec launch -n 2 -- train "${mlp[@]}"
says 'trained 12 steps' step 2 dpexec train "${mlp[@]}" --world 1

# ---- jobs ----

# Outside srun: one process, however many tasks the job has.
printf '#!/bin/bash\nexec dpexec train "$@"\n' >"$DIR/alone.sh"
check 'a batch script outside srun' job 3 "$DIR/alone.sh" "${mlp[@]}"
check 'trains alone' test "$(grep -c trained "$DIR/job")" = 1
scripts=(slurm_tcp)
! has openmpi pmix || scripts+=(slurm_mpi)
for script in "${scripts[@]}"; do
    rm -rf "$DIR/run"
    check "$script" job 3 "$root/docs/example/$script.sh" "${mlp[@]}" --out "$DIR/run"
    check "$script: the bytes" same_run "$DIR/one-3" "$DIR/run"
    check "$script: no secret is left" test -z "$(find "$DIR" -name '.dpexec-*')"
done

# A job that is cancelled, as one whose time is over, writes a checkpoint, from which the next goes on.
rm -rf "$DIR/run"
job 2 "$root/docs/example/slurm_tcp.sh" "${mlp[@]/#12/100000000}" --out "$DIR/run" &
waiting=$!
for _ in {1..300}; do [ -s "$DIR/run/metrics.jsonl" ] && break; sleep 0.1; done
scancel --user="$(id -un)"
wait $waiting
# sbatch returns when the job is cancelled: until its processes have ended it is listed as completing.
for _ in {1..300}; do [ -z "$(squeue --noheader)" ] && break; sleep 0.1; done
check 'a cancelled job has a checkpoint' test -n "$(ls "$DIR/run/checkpoints")"
reached=$(tail -n 1 "$DIR/run/metrics.jsonl" | grep -o '"step":[0-9]*' | cut -d: -f2)
check 'another goes on' job 2 "$root/docs/example/slurm_tcp.sh" "${mlp[@]/#12/$((reached + 2))}" --resume "$DIR/run"
check 'from there' grep -q "\"step\":$((reached + 2))," "$DIR/run/metrics.jsonl"
finish
