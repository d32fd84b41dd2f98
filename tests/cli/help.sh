#!/bin/bash
# -h is one screen of the most used flags, --help has all in groups and wrapped, --help GROUP and --help FLAG a part of it.
. "$(dirname "$0")/lib.sh"

# flags FILE: the flags that the rows of a help text begin with, one a line.
flags() { sed -n 's/^  \(--\?[a-z][a-z0-9-]*\).*/\1/p' "$1"; }
longest() { awk 'length > n { n = length } END { print n }' "$1"; }

"$dpexec" train -h >"$DIR/short"
check "the most used flags" test "$(flags "$DIR/short" | wc -l)" = 25
check "one screen" test "$(wc -l <"$DIR/short")" -le 40 -a "$(longest "$DIR/short")" -le 80
check "a line each" test "$(grep -c '^      ' "$DIR/short")" = 0
"$dpexec" train --help >"$DIR/long"
check "all of them are in --help" test -z "$(comm -23 <(flags "$DIR/short" | sort) <(flags "$DIR/long" | sort))"
check "no flag is in two groups" test -z "$(flags "$DIR/long" | sort | uniq -d)"
check "each is in one" test -z "$(grep -x 'This command' "$DIR/long")"
says "--map INPUT=ARRAY..." "$dpexec" train --help
says "--freeze PATTERN..." "$dpexec" train --help
says "Flags whose value ends with ... may be repeated." "$dpexec" train --help
check "no line is wider than 80" test "$(longest "$DIR/long")" -le 80

groups=$("$dpexec" train --help | tr '\n' ' ' | sed 's/.*Groups: \(.*\)\. *$/\1/; s/,//g')
check "there are groups" test "$(wc -w <<<"$groups")" -ge 10
for group in $groups; do
    "$dpexec" train --help $group >"$DIR/group"
    check "--help $group" test -s "$DIR/group"
    cat "$DIR/group" >>"$DIR/groups"
    check "--help=$group" cmp "$DIR/group" <("$dpexec" train --help=$group)
    check "help train $group" cmp "$DIR/group" <("$dpexec" help train $group)
done
check "together they are all" diff <(flags "$DIR/long") <(flags "$DIR/groups")
for width in 50 100 200; do
    COLUMNS=$width "$dpexec" train --help >"$DIR/wrapped"
    check "the flags at $width columns" diff <(flags "$DIR/long") <(flags "$DIR/wrapped")
    check "lines at $width columns" test -z "$(awk -v n=$width 'length > n && NF > 1' "$DIR/wrapped")"
    check "the words at $width columns" cmp <(tr -s ' \n' '\n' <"$DIR/long") <(tr -s ' \n' '\n' <"$DIR/wrapped")
done

# A flag alone, with what it chooses from.
check "--help FLAG" test "$("$dpexec" train --help lr-schedule | grep -c '^      [a-z]')" -ge 9
says "--predictions DIR" "$dpexec" eval --help predictions
check "not those that the command lacks" test -z "$("$dpexec" eval --help loss | grep lr)"
refused 2 "--help shedule: there is no such flag or group; groups: data, sources" "$dpexec" train --help shedule
refused 2 "--help lr: there is no such flag or group; groups: data, sources" "$dpexec" eval --help lr
refused 2 "--help lr: there is no such flag or group" "$dpexec" export --help lr
says "usage: dpexec train" "$dpexec" train --help model.onnx --loss mse
check "no colour in a pipe" test -z "$("$dpexec" train --help | grep -a $'\033')"
# Groups name no flags that no command has.
{ for command in train eval run check; do "$dpexec" $command --help; done; "$graph_transform" --help; } >"$DIR/every"
sed -n '/^const HelpGroup/,/^};/p' tools/help_groups.c | tr -d '\n' | sed 's/" *"//g' | grep -oE '"[^"]*" }' | tr -d '"}' | tr -s ' ' '\n' | grep . | sort >"$DIR/named"
check "groups name flags" test "$(wc -l <"$DIR/named")" -ge 100
check "each is there" test -z "$(comm -23 "$DIR/named" <(flags "$DIR/every" | sed 's/^--*//' | sort -u))"
finish
