# Rows of the table of worlds: a training run on one mapping each.  Sourced by tests/cli/worlds.sh (a pairwise cover) and
# tests/worlds/table.sh (all), after tests/cli/lib.sh.  A row must give
# - the bytes of the same replicas on one device without shards: states after one step and after three, losses, checkpoint,
#   exported model;
# - after one step, what one replica gives, to 1e-5 of each tensor's norm, in float64 1e-12: which the run on one device is held to,
#   whose bytes the row's are;
# - in float64 what the unpartitioned graph gives, to the limit of graph-transform --verify.
# All rows of as many processes over the same transport run in one world, one after another (tests/member/world_rows.c).
python=${PYTHON:-/usr/bin/python3}
for variable in $(compgen -e | grep -E '^(OMPI_|PMI_|PMIX_|SLURM_|HYDI_)'); do unset "$variable"; done

# The transports that can be tested here.
transports() {
    echo launch
    echo tcp
    for library in openmpi mpich; do [ ! -e "$build/libdpexec_$library.so" ] || echo "$library"; done
}

# many FILE COMMAND...: the rows of FILE, shared out to $slices processes "COMMAND ROWS [$references]" that need no other; prints
# what they print, and that the rows behind the end of a process have failed.
many() {
    local file=$1 part
    shift
    split -n "r/${slices:-1}" "$file" "$file.part-"
    for part in "$file".part-??; do
        mkdir -p "$part.scratch"
        ROWS_SCRATCH=$part.scratch "$build/world_rows" "$@" "$part" ${references:+"$references"} >"$part.out" 2>"$part.err" &
    done
    wait
    for part in "$file".part-??; do
        cat "$part.out"
        tail -n +$(($(grep -c '' "$part.out") + 1)) "$part" | sed 's/$/: not run, its process has ended/'
    done
    cat "$file".part-??.err >&2
}

# world FILE COMMAND...: the rows of FILE in one world "COMMAND ROWS $references".  Where it ends before its time the row that is
# missing has failed, and another world goes on behind it.
world() {
    local left=$1 all had why attempt
    shift
    export ROWS_SCRATCH=$left.scratch
    for attempt in {1..20}; do
        all=$(grep -c '' "$left")
        rm -rf "$ROWS_SCRATCH" && mkdir "$ROWS_SCRATCH"
        timeout $((120 + all)) "$@" "$left" "$references" </dev/null 2>"$left.err" |
            grep -E '^[a-z]+( [a-z0-9.]+){9}: ' >"$left.out"        # not what a launcher says
        cat "$left.out"
        had=$(grep -c '' "$left.out")
        [ "$had" -lt "$all" ] || break
        why=$(head -1 "$left.err")
        echo "$(sed -n $((had + 1))p "$left"): ${why:-the world has ended}"
        tail -n +$((had + 2)) "$left" >"$left.next"
        mv "$left.next" "$left"
        [ -s "$left" ] || break
    done
    [ "$attempt" != 20 ] || sed 's/$/: was not run, as 20 before it have ended their worlds/' "$left"
    cat "$left.err" >&2
}

# of TRANSPORT PROCESSES FILE
of() {
    case $1 in
    alone) many "$3" alone ;;
    launch | tcp) world "$3" "$build/world_rows" "$1:$2" ;;
    openmpi) world "$3" mpirun.openmpi --allow-run-as-root --oversubscribe -n "$2" "$build/world_rows" openmpi ;;
    mpich) world "$3" mpirun.mpich -n "$2" "$build/world_rows" mpich ;;
    esac
}

# outcomes ROWS: for each row of the file (tests/worlds/cover.py) a line "ROW TRANSPORT: ok", or what is wrong, and for what rows
# have in common lines of "reference" and "verify".  Details go to standard error.
outcomes() {
    local dir processes transport
    dir=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
    awk '{ print $1, 1, 1, $4, $5, $6, $7, $8, "none", $10 }' "$1" | sort -u >"$dir/references"
    awk '{ print $1, 1, $2 * $3, $4, 1, $6, $7, $8, $9, "float32" }' "$1" | sort -u >"$dir/verify"
    references='' many "$dir/references" references >"$dir/found"
    sed -E 's/^/reference /; s/: [0-9a-f]{16} .*/: ok/' "$dir/found"
    references='' many "$dir/verify" verify | sed 's/^/verify /'
    export references=$dir/found
    while read -r processes transport; do
        awk -v p="$processes" -v t="$transport" '$2 == p && $11 == t { sub(" " t "$", ""); print }' "$1" >"$dir/rows"
        of "$transport" "$processes" "$dir/rows" | sed "s/:/ $transport:/"
    done < <(awk '{ print $2, $11 }' "$1" | sort -u)
    rm -rf "$dir"
}
