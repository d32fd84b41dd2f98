#!/bin/bash
# The commands of docs/tutorial/nothing.md, with 90 steps instead of 1000, end with a validation loss that shows learning, and with text: a
# network that knows no more than the frequencies of bytes has a loss above 3.1 (tests/cli/tutorial_text.sh).
. "$(dirname "$0")/lib.sh"
begin_tutorial nothing
short=${commands/--steps 1000/--steps 90}
short=${short/--warmup-steps 100/--warmup-steps 10}
short=${short/--lr 0.001/--lr 0.003}
short=${short/--sample-every 250/--sample-every 45}
check "the short form" test "$short" != "$commands"
follow "$short"
check "1.2 MB" test "$(stat -c %s code.txt)" = 1200000
check "validation loss" awk '/eval loss/ { sub(/.*eval loss /, ""); loss = $1 + 0 } END { exit !(loss > 1 && loss < 3.1) }' log
check "two texts while it learns" test "$(grep -c 'the model writes' log)" = 2
check "a text at the end" grep -q 'def read(self, n):' log
check "its page" test -s run/report.html
finish
