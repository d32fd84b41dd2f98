#!/bin/sh
# Prints the subjects of commits that are not `scope: imperative` of at most 70 characters: those since this file came, but merges.
cd "$(dirname "$0")/.." || exit 1
since=$(git log --diff-filter=A --format=%H -- tests/subjects.sh 2>/dev/null | tail -1)
[ -z "$since" ] || git log --no-merges --format='%h %s' "$since..HEAD" |
    awk '{ subject = substr($0, index($0, " ") + 1) } length(subject) > 70 || subject !~ /^[A-Za-z0-9_.\/, *+-]+: [a-z0-9]/ { print }'
