#!/bin/bash
# The commands of docs/tutorial/cluster.md, as they stand there but for the port: two processes train the bytes of one, launched, started by
# hand with a secret, and by variables of the environment.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
begin_tutorial cluster
# commands_of N: the indented commands of section N, without its fenced blocks.
commands_of() { awk -v n="$1" '/^## / { on = $2 == n "." } /^```/ { fenced = !fenced } on && !fenced && /^    / { sub(/^    /, ""); print }' "$page"; }
follow "$commands"
check "the same in two processes" cmp alone/model.onnx pair/model.onnx
cp -r alone kept
follow "$(commands_of 1)"
check "more epochs in four processes" grep -q '"epoch":8' alone/metrics.jsonl
rm -r alone
mv kept alone
for section in 2:met 3:env; do
    next_port
    follow "$(commands_of "${section%:*}" | sed "s/29500/$port/")"
    check "the same as section ${section%:*}" cmp alone/model.onnx "${section#*:}/model.onnx"
done
finish
