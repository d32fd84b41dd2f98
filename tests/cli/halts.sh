#!/bin/bash
# One of three processes is killed in front of each exchange of a whole run, and stopped in front of the first of each kind: the others
# end in time, and say what they wait for, who waits and who is missing.  Over inherited sockets, a meeting place and MPI.
. "$(dirname "$0")/lib.sh"
digits=tests/oracle/data/digits.npz
run=(models/mlp.onnx --data $digits --val $digits --loss cross-entropy --shard parameters --batch-size 22 --steps 2 --checkpoint-every 1
    --lr 0.01 --threads 1 --quiet)
for variable in $(compgen -e | grep -E '^(OMPI_|PMI_|PMIX_|SLURM_|HYDI_|MASTER_)'); do unset "$variable"; done
KILL=9 STOP=19

# halted NAME TURN SIGNAL COMMAND...: rank 1 gets the signal in front of that exchange; what is said is in $DIR/NAME.err, how it ended in
# $DIR/NAME.status.
halted() {
    local name=$1 turn=$2 signal=$3
    shift 3
    HALT=1:$turn:$signal LD_PRELOAD=${laid-$build/libhalt_sockets.so} "$@" >"$DIR/$name.out" 2>"$DIR/$name.err"
    echo $? >"$DIR/$name.status"
}

# place NAME RANK TEXT: what the rank says in front of the text, behind which both others stand as waiting.
place() { sed -nE "s/^dpexec: rank $2: (.+): $3; waiting: rank 0, 2\$/\1/p" "$DIR/$1.err" | sed 's/: rank [02] of 3$//'; }

# told NAME STATUS TEXT [LIKE]: it has ended so, and both others have said all that, of the same place, which is like LIKE.
told() {
    local name=$1 status=$2 here
    here=$(place "$name" 0 "$3")
    if [ -n "$here" ] && [ "$here" = "$(place "$name" 2 "$3")" ] && grep -qE "${4:-.}" <<<"$here" && grep -qxE "$status" "$DIR/$name.status"; then
        pass
    else
        fail "$name: expected '$3' of ranks 0 and 2 at one place ${4:-} and status $status, found $(cat "$DIR/$name.status") and:"
        cat "$DIR/$name.err"
    fi
}

gone='rank 1 of 3: the process has gone: its connection is closed'
late='nothing has come from rank 1 of 3 for 4 seconds'

# ---- killed in front of every exchange ----

launched=(timeout 90 "$dpexec" launch -n 3 -- "${run[@]}")
turns=0
while [ ! -e "$DIR/over" ] && [ $turns -lt 400 ]; do
    for k in {0..3}; do
        halted "kill-$((turns + k))" $((turns + k)) $KILL "${launched[@]}" --world-timeout 30 --out "$DIR/run-$((turns + k))" &
    done
    wait
    for k in {0..3}; do [ "$(cat "$DIR/kill-$((turns + k)).status")" != 0 ] || echo $((turns + k)) >>"$DIR/over"; done
    turns=$((turns + 4))
done
turns=$(head -1 "$DIR/over")
for ((k = 0; k < turns; k++)); do
    told "kill-$k" 137 "$gone"
    place "kill-$k" 0 "$gone" | sed "s/^/$k /" >>"$DIR/places"
done

# Where the others waited, each kind of place once: AllReduce and its like for all nodes, "state" for all states; with the first exchange.
sed -E "s/ (All[A-Za-z]*|ReduceScatter) .*/ \1/; s/ state '[^']*' is in pieces that all processes read together/ state/" "$DIR/places" |
    awk '{ at = $1; sub("[0-9]+ ", ""); if (!seen[$0]++) print at, $0 }' >"$DIR/kinds"
cat >"$DIR/expected" <<'END'
comparing how the processes were started
the check of --data
the digest of --data
the check of --val
the digest of --val
the threads of devices
the sizes of devices
whether the run goes on after step 0
comparing the states with which the processes begin
AllGather
AllReduce
ReduceScatter
the outputs of a step
state: the checkpoint of step 1
whether the run goes on after step 1
the metrics of epoch 1
whether the run goes on after step 2
whether the page is due at step 2
the worst samples of step 2
whether step 2 has the best model
state: the checkpoint of step 2
state: the exported model
the end, when all files are written
END
check 'all that is waited for has a name' diff <(cut -d' ' -f2- "$DIR/kinds") "$DIR/expected"
like() { echo "^${1/state: /state .*: }"; }
turn_of() { sed -n "s/ $1\$//p" "$DIR/kinds"; }

# A checkpoint that was not finished is none.
during=$(($(turn_of 'state: the checkpoint of step 2') + 3))
check 'another goes on from the checkpoint before' "${launched[@]}" --resume "$DIR/run-$during"
check 'a whole run' "${launched[@]}" --out "$DIR/whole"
check 'with the same bytes' same_run "$DIR/whole" "$DIR/run-$during"

# ---- stopped, of each kind ----

# The launcher ends the one that hangs, ten seconds after the others.
while read -r turn name; do
    halted "stop-$turn" "$turn" $STOP "${launched[@]}" --world-timeout 4 --out "$DIR/stop-$turn" &
done <"$DIR/kinds"
wait
while read -r turn name; do told "stop-$turn" 137 "$late" "$(like "$name")"; done <"$DIR/kinds"

# ---- a table, which rank 0 fits for all ----

awk 'BEGIN { for (r = 0; r < 45; r++) { for (i = 0; i < 64; i++) printf "%s,", r ? (r * i) % 17 : "x" i; print r ? r % 10 : "target" } }' >"$DIR/table.csv"
table=(timeout 90 "$dpexec" launch -n 3 -- models/mlp.onnx --data "$DIR/table.csv" --val-split 0.2 --loss cross-entropy --steps 1 --lr 0.01
    --threads 1 --quiet --world-timeout 30 --out)
for k in {1..8}; do halted "table-$k" "$k" $KILL "${table[@]}" "$DIR/run-table-$k" & done
wait
for k in {1..8}; do check "a table, exchange $k" grep -qF "$gone" "$DIR/table-$k.err"; done
check 'the fit is waited for' grep -qF 'what rank 0 fits' "$DIR"/table-{1..8}.err

# ---- a batch size that all processes choose ----

chosen='the batch size that fits all processes'
turn=$(turn_of 'the digest of --data')      # comes right behind it
auto=(timeout 90 "$dpexec" launch -n 3 -- "${run[@]/#22/auto}" --out)
halted auto-killed "$turn" $KILL "${auto[@]}" "$DIR/auto-killed" --world-timeout 30
told auto-killed 137 "$gone" "^$chosen"
halted auto-stopped "$turn" $STOP "${auto[@]}" "$DIR/auto-stopped" --world-timeout 4
told auto-stopped 137 "$late" "^$chosen"

# ---- a meeting place ----

# met NAME SIGNAL KIND: the first time.
met() {
    local name=$1 turn r at
    turn=$(turn_of "$3")
    next_port
    patience=4
    for r in 0 1 2; do
        [ $r = 1 ] && at=-1:$turn:$2 || at=
        HALT=$at LD_PRELOAD=$build/libhalt_sockets.so start $r 3 "${run[@]}" --out "$DIR/$name"
    done
    await ended 0 2
    kill -KILL "$(cat "$DIR/pid-1")" 2>/dev/null
    wait
    cat "$DIR"/rank-? >"$DIR/$name.err"
    cat "$DIR/status-0" >"$DIR/$name.status"
    check "$name: the status of both" cmp "$DIR/status-0" "$DIR/status-2"
}

somewhere=('comparing how the processes were started' AllReduce 'state: the checkpoint of step 1' 'the metrics of epoch 1')
for kind in "${somewhere[@]}"; do
    met meeting-killed $KILL "$kind"
    told meeting-killed 1 "$gone" "$(like "$kind")"
    met meeting-stopped $STOP "$kind"
    told meeting-stopped 1 "$late" "$(like "$kind")"
done

# ---- MPI, whose first exchange is one of its own ----

# over LIBRARY COMMAND...: three processes of the library's launcher.
over() {
    local library=$1 launcher=(mpirun.mpich)
    [ "$1" = mpich ] || launcher=(mpirun.openmpi --allow-run-as-root --oversubscribe)
    shift
    # shellcheck disable=SC2016     # of the processes
    timeout 90 "${launcher[@]}" -n 3 bash -c 'export LD_PRELOAD=$1; shift; exec "$@"' laid "$build/libfaulty_$library.so" "$@"
}

for library in openmpi mpich; do
    if [ ! -e "$build/libdpexec_$library.so" ]; then
        skip "$library" 'its plug-in is not built, CMake found no mpicc'
        continue
    fi
    for kind in "${somewhere[@]}" 'the outputs of a step' 'the end, when all files are written'; do
        turn=$(($(turn_of "$kind") + 1))
        laid='' halted "$library-$turn" $turn $STOP over $library "$dpexec" "${run[@]}" --world-timeout 4 --out "$DIR/$library-$turn" &
    done
    wait
    for kind in "${somewhere[@]}" 'the outputs of a step' 'the end, when all files are written'; do
        turn=$(($(turn_of "$kind") + 1))
        told "$library-$turn" '[1-9].*' "$late" "$(like "$kind")"
    done
done
finish
