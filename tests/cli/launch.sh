#!/bin/bash
# dpexec launch: processes of this machine over inherited connections, which end together, whatever ends them.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data
mlp=(train models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --steps 12 --lr 0.01 --momentum 0.9 --threads 1 --quiet)
forever=("${mlp[@]/#12/100000000}")

# The processes that a launcher has started, in the order of their ranks.
children() { pgrep -P "$1"; }
child() { children "$1" | sed -n "$(($2 + 1))p"; }

# begin NAME SIZE ARGS...: in the background, its number in $launched, its error text in $DIR/NAME.err; returns when it trains.
# Where the tests run under nohup, a hang-up ends it all the same.
begin() {
    local name=$1 size=$2
    shift 2
    env --default-signal=HUP "$dpexec" launch -n "$size" -- "${forever[@]}" "$@" --out "$DIR/$name" >/dev/null 2>"$DIR/$name.err" &
    launched=$!
    await test -s "$DIR/$name/metrics.jsonl"
}

# ends STATUS SECONDS: the launcher that has begun does so, and nobody it started is left.
ends() {
    local before=$SECONDS status
    wait "$launched" 2>/dev/null
    status=$?
    if [ $status = "$1" ] && [ $((SECONDS - before)) -le "$2" ] && ! alive $started; then
        pass
    else
        fail "status $status after $((SECONDS - before)) s, expected $1 within $2 s; alive: $(alive $started)"
    fi
}

# alive PID...: those that still run; fails when none does.
alive() {
    local p n=0
    for p; do
        [ -e "/proc/$p/stat" ] && [ "$(sed -E 's/.*\) (.).*/\1/' "/proc/$p/stat" 2>/dev/null)" != Z ] && echo "$p" && n=$((n + 1))
    done
    [ $n -gt 0 ]
}

# ---- one model ----

check 'three devices' "$dpexec" "${mlp[@]}" --devices 'cpu*3' --out "$DIR/alone"
check 'three processes' "$dpexec" launch -n 3 -- "${mlp[@]}" --devices 'cpu:{rank}' --out "$DIR/three"
check 'the bytes of three processes' same_run "$DIR/alone" "$DIR/three"
check 'one process' "$dpexec" launch -n 1 -- "${mlp[@]}" --devices 'cpu*3' --out "$DIR/one"
check 'the bytes of one process' same_run "$DIR/alone" "$DIR/one"
check 'more processes than the limit of open files was for' bash -c 'ulimit -Sn 100; exec "$@"' - "$dpexec" launch -n 20 -- "${mlp[@]/#12/1}"
refused 2 '-n 40: needs 910 open files at a time, this process may have 200' \
    bash -c 'ulimit -n 200; exec "$@"' - "$dpexec" launch -n 40 -- "${mlp[@]}"
refused 2 "dpexec: launch: -- is missing before the command: dpexec launch ... -- train ..." "$dpexec" launch -n 4 "${mlp[@]}"
check "that alone is said" test "$(grep -c '' "$DIR/refused.err")" = 2
refused 2 '-n N is missing' "$dpexec" launch -- "${mlp[@]}"
refused 2 'expected a whole number from 1 to 256' "$dpexec" launch -n 257 -- "${mlp[@]}"

# ---- what cannot differ, and what is said already ----

# others STATUS TEXT ARGS...: of four processes one is given something else, as {rank} says: all end with the text.
others() {
    local text=$2
    refused "$1" "$text" tests/cli/defaults "${mlp[@]:2:2}" "${mlp[@]:10:2}" -- "$dpexec" launch -n 4 -- "${mlp[@]:0:2}" "${mlp[@]:4:6}" "${mlp[@]:12}" "${@:3}"
    check "all four say $text" test "$(grep -cF -- "$text" "$DIR/refused.err")" = 4
}
others 2 "rank 3 has --lr '0.3', rank 0 '0.0'" --lr 0.{rank}
others 2 "rank 1 has --seed '1', rank 0 '0'" --seed {rank}
for r in 0 1 2 3; do
    cp $data/digits.npz "$DIR/digits-$r.npz"
    cp models/mlp.onnx "$DIR/model-$r.onnx"
done
cp $data/digits_ignored.npz "$DIR/digits-2.npz"
others 2 'rank 2 has --data of digest' --data "$DIR/digits-{rank}.npz"
sed 's/fc1/fc9/g' models/mlp.onnx >"$DIR/model-3.onnx"
refused 2 'rank 3 has a model of digest' "$dpexec" launch -n 4 -- train "$DIR/model-{rank}.onnx" "${mlp[@]:2}"
check 'all four say so' test "$(grep -cF 'rank 3 has a model of digest' "$DIR/refused.err")" = 4
for flag in '--world 1' '--rank 0' '--rendezvous localhost:1'; do
    refused 2 "${flag% *}: dpexec launch connects its processes itself" "$dpexec" launch -n 2 -- "${mlp[@]}" $flag
done

# ---- what the processes are told ----

for text in '' 0 0:2 2:2:0:fd=3 -1:2:0:fd=3 0:257:0:fd=3 0x0:2:0:fd=3 '0:2: 0:fd=3'; do
    refused 2 'DPEXEC_LAUNCHED: expected RANK:SIZE:PIPE:fd=' env DPEXEC_LAUNCHED="$text" "$dpexec" "${mlp[@]}"
done
refused 2 'descriptor 99 is no pipe' env DPEXEC_LAUNCHED=0:2:99:fd=3,4 "$dpexec" "${mlp[@]}"
cat >"$DIR/told.py" <<'END'
import os, socket, sys
(a, b), (c, d), datagram, (r, w) = socket.socketpair(), socket.socketpair(), socket.socketpair(type=socket.SOCK_DGRAM)[0], os.pipe()
at = {"A": a.fileno(), "C": c.fileno(), "D": datagram.fileno(), "P": r}
for fd in at.values():
    os.set_inheritable(fd, True)
os.set_inheritable(w, True)
os.environ["DPEXEC_LAUNCHED"] = "0:2:%d:" % r + "".join(str(at.get(x, x)) for x in sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
END
told=(python3 "$DIR/told.py")
refused 2 'found ' "${told[@]}" '' "$dpexec" "${mlp[@]}"
refused 2 'takes 2 descriptors, found less' "${told[@]}" fd=A "$dpexec" "${mlp[@]}"
refused 2 'takes 2 descriptors, found more' "${told[@]}" fd=A,C,9 "$dpexec" "${mlp[@]}"
refused 2 'is named twice' "${told[@]}" fd=A,A "$dpexec" "${mlp[@]}"
refused 2 'expected an inherited connection' "${told[@]}" fd=A,P "$dpexec" "${mlp[@]}"
refused 2 'expected an inherited connection' "${told[@]}" fd=A,999 "$dpexec" "${mlp[@]}"
refused 2 'expected a connection of bytes' "${told[@]}" fd=A,D "$dpexec" "${mlp[@]}"
refused 2 'expected descriptors such as fd=3,4' "${told[@]}" 'fd=A,+3' "$dpexec" "${mlp[@]}"
refused 2 'expected descriptors such as fd=3,4' "${told[@]}" 'fd=A;C' "$dpexec" "${mlp[@]}"
refused 1 'rank 1 of 2: the process has gone' "${told[@]}" fd=A,C "$dpexec" "${mlp[@]}"

# Without the kernel's help: a pipe that ends tells them too.
check 'they notice that the launcher has gone' timeout 60 python3 -c '
import os, socket, subprocess, sys, time
pairs, (r, w) = [socket.socketpair() for _ in range(2)], os.pipe()
def start(k):
    ends = [p[k].fileno() for p in pairs]
    return subprocess.Popen(sys.argv[2:], env=dict(os.environ, DPEXEC_LAUNCHED="%d:2:%d:fd=%d,%d" % (k, r, *ends)), pass_fds=ends + [r], stderr=subprocess.PIPE)
both = [start(0), start(1)]
while not os.path.exists(sys.argv[1] + "/metrics.jsonl") or not os.path.getsize(sys.argv[1] + "/metrics.jsonl"):
    time.sleep(0.05)
os.close(w)
for p in both:
    said = p.communicate(timeout=10)[1]
    assert p.returncode == 1, p.returncode
assert b"the launcher has gone" in said or b"the process has gone" in said, said' "$DIR/noticed" "$dpexec" "${forever[@]}" --out "$DIR/noticed"

# ---- ending together ----

begin killed 3
started=$(children $launched)
sockets=$(for p in $started; do readlink "/proc/$p/fd"/*; done | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
check 'six ends of connections' test "$(wc -w <<<"$sockets")" = 12
check 'none of them at a port' bash -c '! cat /proc/net/tcp /proc/net/tcp6 | grep -wF "$1"' - "$sockets"
kill -KILL $launched
wait $launched 2>/dev/null
for ((i = 0; i < 20; i++)); do alive $started >/dev/null || break; sleep 0.1; done
check 'no survivors of a killed launcher' test $i -lt 20

begin one-killed 4
started=$(children $launched)
kill -KILL "$(child $launched 1)"
ends 137 20
for r in 0 2 3; do
    check "rank $r says who has gone, and who waits" \
        grep -qE "rank $r: .+: rank 1 of 4: the process has gone: its connection is closed; waiting: rank 0.*, 2.*, 3" "$DIR/one-killed.err"
done
check 'the launcher says so too' grep -q 'rank 1 of 4 was killed by signal 9' "$DIR/one-killed.err"

# One that hangs: the others give it up after their timeout, and the launcher ends it (tests/cli/halts.sh: wherever that is).
begin stopped 4 --world-timeout 3
started=$(children $launched)
kill -STOP "$(child $launched 2)"
ends 137 40
for r in 0 1 3; do
    check "rank $r says who waits for whom" \
        grep -qE "rank $r: .+: nothing has come from rank 2 of 4 for 3 seconds; waiting: rank 0.*, 1.*, 3( \(.*\))?\$" "$DIR/stopped.err"
done
check 'what the launcher did' grep -q 'of 4 failed; the other ranks still run 10 seconds later and are killed' "$DIR/stopped.err"
check 'rank 2 was ended' grep -q 'rank 2 of 4 was killed by signal 9' "$DIR/stopped.err"

# One that cannot begin: nobody waits for it.
SECONDS=0
refused 2 '--world-timeout' "$dpexec" launch -n 2 -- "${forever[@]}" --world-timeout '{rank}00'
check 'at once' test $SECONDS -lt 10

# ---- signals ----

for signal in TERM:143 INT:130; do
    begin "signal-$signal" 2
    started=$(children $launched)
    kill -"${signal%:*}" $launched
    ends "${signal#*:}" 20
    check "a checkpoint after $signal" test -d "$DIR/signal-$signal/checkpoints"
done
begin hangup 2
started=$(children $launched)
kill -HUP $launched
ends 129 20
finish
