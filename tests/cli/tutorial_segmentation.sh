#!/bin/bash
# The commands of docs/tutorial/segmentation.md with fewer images and epochs find the shapes.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
begin_tutorial segmentation
short=$(sed 's/segmentation\.py \./segmentation.py . 112/; s/--epochs 10/--epochs 4/' <<<"$commands")
check "the commands are shortened" grep -q -- '112.*' <<<"$short"
follow "$short"
# A network that takes all for background has 0.2.
check "mean IoU of the best epoch" awk '/^best epoch/ { found = 1; if ($6 + 0 < 0.35) exit 1 } END { if (!found) exit 1 }' <(sed 's/ ->.*//' log)
check "as many masks as images" test "$(find predicted -name '*.png' | wc -l)" = 20
check "the classes' names" grep -q 'triangle' log
finish
