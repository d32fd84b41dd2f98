#!/bin/bash
# The meeting place of a world: a secret keeps out all who do not have it, whatever they send and however many they are.
. "$(dirname "$0")/lib.sh"
data=tests/oracle/data
mlp=(models/mlp.onnx --data $data/digits.npz --loss cross-entropy --batch-size 10 --steps 12 --lr 0.01 --momentum 0.9 --threads 1 --quiet)
stranger=(timeout 60 python3 tests/cli/stranger.py)
head -c 32 /dev/urandom >"$DIR/secret"
head -c 32 /dev/urandom >"$DIR/other"
chmod 600 "$DIR/secret" "$DIR/other"
with=("${mlp[@]}" --world-secret "$DIR/secret")

# ---- the file ----

alone=("$dpexec" "${mlp[@]}" --world 2 --rank 0 --rendezvous localhost:1 --world-timeout 1)
refused 1 'missing: No such file' "${alone[@]}" --world-secret "$DIR/missing"
refused 2 'expected a regular file' "${alone[@]}" --world-secret "$DIR"
mkfifo -m 600 "$DIR/fifo"
refused 2 'expected a regular file' "${alone[@]}" --world-secret "$DIR/fifo"
for mode in 640 604 620 601; do
    head -c 32 "$DIR/secret" >"$DIR/open"
    chmod $mode "$DIR/open"
    refused 2 "other users may read it (mode $mode): chmod 600" "${alone[@]}" --world-secret "$DIR/open"
done
chmod 600 "$DIR/open"
for n in 0 15; do
    head -c $n "$DIR/secret" >"$DIR/open"
    refused 2 "expected 16 to 4096 bytes, found $n" "${alone[@]}" --world-secret "$DIR/open"
done
head -c 4097 /dev/zero >"$DIR/open"
refused 2 'expected 16 to 4096 bytes, found more' "${alone[@]}" --world-secret "$DIR/open"

# ---- where others could come ----

for rank in 0 1; do
    refused 2 'rendezvous 192.0.2.1:29500: other machines can reach it: give --world-secret FILE' "$dpexec" "${mlp[@]}" --world 2 --rank $rank --rendezvous 192.0.2.1:29500
    refused 2 'other machines can reach it' "$dpexec" "${mlp[@]}" --world 2 --rank $rank --rendezvous 0.0.0.0:29500
done
refused 1 'cannot listen there' "$dpexec" "${mlp[@]}" --world 2 --rank 0 --rendezvous 192.0.2.1:29500 --world-secret none
refused 1 'cannot listen there' "$dpexec" "${mlp[@]}" --world 2 --rank 0 --rendezvous 192.0.2.1:29500 --world-secret "$DIR/secret"

# ---- members ----

check 'three processes with a secret' together 3 "${with[@]}" --out "$DIR/three"
check 'one process' "$dpexec" "${mlp[@]}" --devices 'cpu*3' --out "$DIR/alone"
check 'the bytes of a run with a secret' same_run "$DIR/alone" "$DIR/three"
head -c 16 "$DIR/secret" >"$DIR/short"
head -c 4096 /dev/urandom >"$DIR/long"
chmod 600 "$DIR/short" "$DIR/long"
for size in short long; do
    check "a $size secret" together 2 "${mlp[@]}" --world-secret "$DIR/$size"
    next_port
    start 0 2 "${mlp[@]}" --world-secret "$DIR/$size"
    await listens $port
    check "proofs are HMAC-SHA256, $size" "${stranger[@]}" member $port "$DIR/$size"
    wait
    tells 0 1 'rank 1 of 2: the process has gone'
done
check 'believing everybody' together 2 "${mlp[@]}" --world-secret none

# Who has another secret, or none, is told so, and the others do not end by it: they wait for the right one.
for what in other none; do
    next_port
    start 0 2 "${with[@]}"
    if [ $what = other ]; then start 1 2 "${mlp[@]}" --world-secret "$DIR/other"; else start 1 2 "${mlp[@]}"; fi
    await ended 1
    if [ $what = other ]; then
        tells 1 1 'rank 0 of 2: the secrets (--world-secret) are not the same'
    else
        tells 1 1 'rank 0 of 2: rank 0 has a secret (--world-secret), rank 1 has none'
    fi
    start 1 2 "${with[@]}"
    wait
    check "rank 0 after $what" grep -qx 0 "$DIR/status-0"
    check "rank 1 after $what" grep -qx 0 "$DIR/status-1"
done
next_port
patience=2 start 0 2 "${mlp[@]}"
start 1 2 "${with[@]}"
wait
tells 1 1 'rank 0 of 2: rank 0 has no secret (--world-secret), rank 1 has one'
tells 0 1 'rank 1 did not; a process that said it was rank 1 has another --world-secret'

# What listens in rank 0's place.
next_port
"${stranger[@]}" server $port &
start 1 2 "${with[@]}"
wait
tells 1 1 "rank 1: the process that answers at 127.0.0.1:$port has another secret"

next_port
"${stranger[@]}" newer $port &
start 1 2 "${with[@]}"
wait
tells 1 1 "rank 0 speaks version 4 of the protocol between processes, this one version 3: start the same dpexec everywhere"
next_port
patience=3
start 0 2 "${with[@]}"
await listens $port
check 'an older dpexec is told so' "${stranger[@]}" older $port
wait
tells 0 1 'rank 1 did not; a process of another version came: start the same dpexec everywhere'

# ---- strangers ----

# A greeting is recorded, and said again: in its own world, after it and in another one.
next_port
behind=$port
next_port
"${stranger[@]}" record $port $behind "$DIR/greeting" &
recorder=$!
patience=20
port=$behind start 0 3 "${with[@]}" --out "$DIR/recorded"
await listens $behind
start 1 3 "${with[@]}"
greeted() { [ "$(stat -c %s "$DIR/greeting")" = 120 ]; }
await greeted
check 'said again while the world meets' "${stranger[@]}" replay $behind "$DIR/greeting"
check 'reflections' "${stranger[@]}" mirror $behind
check 'garbage' "${stranger[@]}" garbage $behind
check 'reflections after garbage' "${stranger[@]}" mirror $behind
port=$behind start 2 3 "${with[@]}"
await ended 0 1 2
for r in 0 1 2; do check "rank $r goes on" grep -qx 0 "$DIR/status-$r"; done
check 'nothing has changed' same_run "$DIR/alone" "$DIR/recorded"
kill $recorder 2>/dev/null
wait
next_port
start 0 2 "${with[@]}"
await listens $port
check 'said again in another world' "${stranger[@]}" replay $port "$DIR/greeting"
start 1 2 "${with[@]}"
wait
check 'rank 0 goes on' grep -qx 0 "$DIR/status-0"
check 'rank 1 goes on' grep -qx 0 "$DIR/status-1"

# 200 at a time that never say enough, coming again and again.
next_port
start 0 3 "${with[@]}" --out "$DIR/flooded"
await listens $port
"${stranger[@]}" flood $port 200 20 &
flood=$!
sleep 1.5
SECONDS=0
for r in 1 2; do start $r 3 "${with[@]}"; done
await ended 0 1 2
check 'a flood, in time' test $SECONDS -lt 15
check 'the flood was there' kill $flood
wait
for r in 0 1 2; do check "rank $r goes on" grep -qx 0 "$DIR/status-$r"; done
check 'nothing has changed' same_run "$DIR/alone" "$DIR/flooded"

# And with descriptors for few.
next_port
(ulimit -n 40; start 0 2 "${mlp[@]}"; wait) &
await listens $port
"${stranger[@]}" flood $port 100 20 &
flood=$!
sleep 1
start 1 2 "${mlp[@]}"
await ended 0 1
kill $flood
wait
for r in 0 1; do check "rank $r goes on" grep -qx 0 "$DIR/status-$r"; done

# While it trains nobody listens.
next_port
for r in 0 1; do start $r 2 "${with[@]/#12/100000000}" --out "$DIR/trains"; done
await test -s "$DIR/trains/metrics.jsonl"
check 'nobody listens' bash -c "! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null"
for r in 0 1; do
    ports=$(for fd in "/proc/$(cat "$DIR/pid-$r")/fd"/*; do readlink "$fd"; done | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
    check "rank $r has no listener" bash -c '! awk "\$4 == \"0A\" { print \$10 }" /proc/net/tcp /proc/net/tcp6 | grep -wF "$1"' - "$ports"
done
kill "$(cat "$DIR/pid-0")"
wait
check 'it trained' grep -qx 143 "$DIR/status-0"
finish
