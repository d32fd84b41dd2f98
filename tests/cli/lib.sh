# Shared by the tests of the command line.  A test sources it, says `check NAME COMMAND...` or the helpers below, and ends with
# `finish`, which prints "N passed, N failed".  Usage of each test: tests/cli/NAME.sh [BUILD_DIR]
#
# DIR is an empty folder for the test's files, removed at the end; $dpexec and $graph_transform are the programs under test.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
cd "$root" || exit 1
dpexec=$build/dpexec
graph_transform=$build/graph-transform
export DPEXEC_RUNS=none            # runs without --out write nothing
export OMP_NUM_THREADS=1 ASAN_OPTIONS=${ASAN_OPTIONS:-exitcode=99} UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:exitcode=99}
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
n_passed=0
n_failed=0

pass() { n_passed=$((n_passed + 1)); }
fail() { n_failed=$((n_failed + 1)); echo "FAILED: $*"; }

# skip WHAT WHY: what cannot be tested here, which is said and counts as nothing.
skip() { echo "SKIPPED: $1: $2"; }

# check NAME COMMAND...: passes when the command succeeds.
check() {
    local name=$1
    shift
    if "$@" >"$DIR/check.log" 2>&1; then pass; else fail "$name: $*"; tail -5 "$DIR/check.log"; fi
}

# refused STATUS TEXT COMMAND...: the command must exit with STATUS and say TEXT in at most a few short lines, none from a
# sanitizer.
refused() {
    local status=$1 text=$2 found
    shift 2
    timeout 60 "$@" >"$DIR/refused.out" 2>"$DIR/refused.err"
    found=$?
    if [ "$found" != "$status" ]; then
        fail "exit $found, expected $status: $*"
        head -3 "$DIR/refused.err"
    elif ! grep -qF -- "$text" "$DIR/refused.err"; then
        fail "expected '$text': $*"
        head -3 "$DIR/refused.err"
    elif [ "$(grep -c '' "$DIR/refused.err")" -gt 12 ]; then
        fail "$(grep -c '' "$DIR/refused.err") lines of error: $*"
    else
        pass
    fi
}

# says TEXT COMMAND...: succeeds and prints TEXT.
says() {
    local text=$1
    shift
    if "$@" >"$DIR/says.log" 2>&1 && grep -qF -- "$text" "$DIR/says.log"; then
        pass
    else
        fail "expected '$text': $*"
        head -5 "$DIR/says.log"
    fi
}

# metrics.jsonl without times, what was read, and texts that a language model wrote, which may differ between runs.
untimed() { grep -v '"sample":' "$1/metrics.jsonl" | sed -E 's/,"ms":[0-9.]+//; s/,"(read|padding)":\{[^}]*\}//g'; }

# same_run A B: the models are the same bytes and the metrics the same but for the times.
same_run() { cmp "$1/model.onnx" "$2/model.onnx" && diff <(untimed "$1") <(untimed "$2"); }

# differ A B: two files, and not the same bytes.
differ() { cmp "$1" "$2"; [ $? = 1 ]; }

# serve_python: starts one Python interpreter, in which `py SCRIPT ARG...` and `py -c CODE ARG...` run from here on, because importing
# numpy and onnx takes longer than most checks.  The scripts must not read standard input, nor the environment.
serve_python() {
    mkfifo "$DIR/py.asked" "$DIR/py.answered"
    ("${PYTHON:-/usr/bin/python3}" tests/cli/serve.py <"$DIR/py.asked" >"$DIR/py.answered" &)    # no job that `wait` would wait for
    exec {py_asked}>"$DIR/py.asked" {py_answered}<"$DIR/py.answered"
}
py() {
    local status text
    printf '%s\0' $# "$@" >&"$py_asked"
    IFS= read -r -d '' status <&"$py_answered" && IFS= read -r -d '' text <&"$py_answered" || return 125
    printf '%s' "$text"
    return "$status"
}

finish() {
    echo "$n_passed passed, $n_failed failed"
    [ "$n_failed" = 0 ] && [ "$n_passed" -gt 0 ]
    exit
}

# ---- what a run's losses are, for tests that compare them with PyTorch's ($here/torch.txt: NAME, evaluation, losses of the steps) ----
# near A B [PART]: lists of as many numbers, each within this part (1e-12) of the other's.
near() {
    awk -v a="$1" -v b="$2" -v part="${3:-1e-12}" 'BEGIN { n = split(a, x, " "); m = split(b, y, " "); if (n != m || !n) exit 1
        for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d < 0) d = -d; if (!(d <= part * (y[i] < 0 ? -y[i] : y[i]))) exit 1 } }'
}
expected() { grep "^$1 " "$here/torch.txt" | cut -d' ' -f"$2"; }
losses() { grep -o '"loss":[^,]*' "$1/metrics.jsonl" | cut -d: -f2 | tr '\n' ' '; }
evaluated() { "$dpexec" eval "$@" --quiet | grep -o '"eval_loss":[^,}]*' | cut -d: -f2; }

# ---- tutorials ----
# begin_tutorial NAME: enters DIR, where the commands of docs/tutorial/NAME.md can run as they stand there; $commands is the first block of
# the page, lines that begin with four spaces, up to the first other line.
begin_tutorial() {
    python=${PYTHON:-/usr/bin/python3}
    page=$root/docs/tutorial/$1.md
    mkdir -p "$DIR/docs"
    ln -s "$root/docs/tutorial" "$DIR/docs/tutorial"
    cd "$DIR" || exit 1
    python() { "$python" "$@"; }
    dpexec() { "$dpexec" "$@"; }
    commands=$(awk '/^    / { sub(/^    /, ""); print; on = 1; next } on { exit }' "$page")
    check "the page begins with commands" grep -q '^dpexec train' <<<"$commands"
}

# follow COMMANDS: what they print goes to `log`.
follow() { if eval "$1" >log 2>&1; then pass; else fail "the commands of $page"; tail -5 log; fi; }

# ---- waiting for other processes ----
# await COMMAND...: until it succeeds; after two minutes the test has failed and ends.
await() {
    local end=$((SECONDS + 120))
    until "$@" 2>/dev/null; do
        [ "$SECONDS" -lt $end ] || { fail "waited for two minutes: $*"; finish; }
        sleep 0.05
    done
}
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1"); }
ended() { local r; for r in "$@"; do [ -s "$DIR/status-$r" ] || return 1; done; }        # the ranks

# ---- several processes, each started by hand ----
port=$((20000 + $$ % 10000))

# A port where nobody listens.
next_port() {
    port=$((port + 1))
    while listens "$port" 2>/dev/null; do port=$((port + 1)); done
}

# start RANK SIZE ARGS...: in the background; its error text goes to $DIR/rank-RANK, its status to $DIR/status-RANK.
start() {
    local rank=$1 size=$2
    shift 2
    rm -f "$DIR/status-$rank"
    (
        exec 2>"$DIR/rank-$rank"
        "$dpexec" "$@" --world "$size" --rank "$rank" --rendezvous "127.0.0.1:$port" --world-timeout "${patience:-60}" >"$DIR/out-$rank" &
        echo $! >"$DIR/pid-$rank"
        wait $! 2>/dev/null
        echo $? >"$DIR/status-$rank"
    ) &
}

# together SIZE ARGS...: all ranks of a world with these arguments; succeeds when all do.
together() {
    local size=$1 r
    shift
    next_port
    for ((r = 0; r < size; r++)); do start $r "$size" "$@"; done
    wait
    for ((r = 0; r < size; r++)); do
        [ "$(cat "$DIR/status-$r")" = 0 ] || { echo "rank $r: status $(cat "$DIR/status-$r")"; head -3 "$DIR/rank-$r"; return 1; }
    done
}

# tells RANK STATUS TEXT: how a rank that was started has ended; in one line.
tells() {
    if [ "$(cat "$DIR/status-$1")" = "$2" ] && grep -qF -- "$3" "$DIR/rank-$1" && [ "$(grep -c '' "$DIR/rank-$1")" -le 2 ]; then
        pass
    else
        fail "rank $1: expected status $2 and '$3', found status $(cat "$DIR/status-$1") and:"
        head -3 "$DIR/rank-$1"
    fi
}
