#!/bin/sh
# Includes flow one way: graph -> passes; graph -> kernels; all of these -> exec -> tools; within graph,
# passes and exec from the room above to those below.
# Fails with every line that breaks the rule.  Operators are named where they are defined, computed, made or found as a formula;
# elsewhere the number of their names only falls.
cd "$(dirname "$0")/.." || exit 1

# forbid WHERE PATTERN WHY: no file under WHERE includes a path that matches PATTERN (extended, within the quotes).
bad=0
forbid() {
    found=$(grep -rnE --include='*.[ch]' --include='*.inc' "^#(include|define BODY) \"($2)" $1 | grep -vE "${4:-^$}")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" | sed "s|\$|    ($3)|"
        bad=1
    fi
}

forbid graph        '(passes|kernels|exec|tools|tests)/'    'graph knows nothing above it'
forbid passes       '(kernels|exec|tools|tests)/'           'passes know the graph and recipes'
forbid kernels      '(graph/recipes|passes|exec|tools|tests)/'         'kernels know the graph alone'
forbid exec         '(tools|tests)/'                        'exec knows no tool'
forbid exec/world   '(graph/|passes/|kernels/|exec/)'       'exec/world knows what memory it sends, not what is in it' '"(graph/base|exec/world)/'
forbid "exec/device/accelerator.* exec/device/group.* exec/device/hang_report.* exec/device/plugin.* exec/device/wait_device.* exec/gpu/collective.*" \
    'exec/(gpu/(part|program|progress|issue|run)|plan/prepared)\.h' 'the group of devices knows its users by callbacks'
forbid 'exec/gpu/part.h exec/gpu/progress.* exec/gpu/issue.*' 'exec/gpu/run\.h' 'a step is run by those above'

# rooms FOLDER ROOM...: the rooms of a folder, lowest first; each includes itself and those before it, and names operators
# (graph/ops/FAMILY.gen.h declares them) where it writes a formula.  Every file is in a room but
# those that $shared names.
rooms() {
    folder=$1 above=$(printf '%s|' "$@")
    above=${above#*|}
    shift
    for room; do
        above=${above#*|}
        [ -z "$above" ] || forbid "$folder/$room" "$folder/(${above%|})/" "the rooms above $folder/$room are: $(echo "${above%|}" | tr "|" " ")" 'ops/[a-z_0-9]+\.gen\.h"$'
    done
    stray=$(find "$folder" -type f | grep -vE "^$folder/($(echo "$@" | tr ' ' '|'))/[a-z_0-9]+\.[ch]$" | grep -vxE "$folder/($shared)")
    if [ -n "$stray" ]; then
        printf '%s    (is in no room of %s)\n' "$stray" "$folder"
        bad=1
    fi
}

shared='recipes/[a-z]+/[a-z0-9_]+\.c'
rooms graph base tensor ir text ops onnx recipes networks

# Passes that do not shape a graph together do not know each other: what is between them is the graph.  The order of all is
# in pipeline.c, the sums over what they left in report.c.
shared='(pass|build_options|build_parts|division|report|batch_axis|names|update_groups)\.h|options/[a-z_]+\.h|(build_options|pipeline|report|report_print|report_step|batch_axis|names|update_groups)\.c'
rooms passes simplify model generate train partition fuse plan
forbid 'passes/pass.h passes/report.h passes/report_print.c passes/report_step.c passes/batch_axis.* passes/update_groups.* passes/names.*' 'passes/[a-z]+/' \
    'what the passes share knows none of them' '"passes/options/'
shared='world/mpi/plugin\.c|inspect/picture\.(js|css)'      # the first is built with the compilers of MPI libraries
rooms exec world device state plan gpu run operators train inspect api
forbid include      '.*'                                    'the public header stands alone, with its parts' \
    '#include "dpexec_(operators|world|data|sized)\.h"'
forbid tools        '(graph|passes|kernels|exec|tests)/'    'tools use include/dpexec.h; graph-transform also passes/ and exec/, new the list of networks' \
    '("graph/base/|^tools/new\.c:[0-9]+:#include "graph/networks/network\.h|^tools/graph_transform\.c:[0-9]+:#include "(graph|passes|exec)/)'
forbid tools/image  'tools/(data|feed)/|tools/[a-z_]+\.h'    'images in memory know neither data sets nor the command line'
forbid tools/data   'tools/(feed/|[a-z_]+\.h)'              'sources of data know neither the model nor the command line'

# What an operator is to others is said by its OpDef, or by graph/ir/collective.h, and asked there.  Two kinds of names ask nothing:
# that of a node which is made (EMIT, emit, draft_begin ...), for so a formula is written; and those in a file whose subject is a
# formula of several operators, which its first comment shows: it finds that one and is named after it.  What else there is only falls.
makes='(emit|emit_multi|net_multi|net_node|emit_untyped|emit_copies|import_emit|graph_add_node|draft_begin|to_devices|to_parts)\([^&]*&op_|->op = &op_'
about='graph/onnx/embedding_bag                # for (i = 0; i < n; i++) keep(reduce(rows[bounds[i]:bounds[i + 1]]))
passes/fuse/fuse_[a-z_]*          # what one kernel computes at once
passes/fuse/group_casts                  # Cast, Cast ... to CastAll
passes/fuse/group_updates                # Update(w, g * s), Update ... to Update
passes/simplify/fold_transpose           # MatMul(A, Transpose(B))
passes/train/join_biases                 # p, q = Split(X W); p + b, q + c
passes/partition/narrow_sums             # AllReduce(g) / w
passes/plan/chunk_loss                   # CrossEntropySum(X W), its gradient D, D W and D X
passes/partition/part_replicas                   # part, part ... = Split(batch); Concat(part, part ...)
passes/model/stochastic_depth            # x * mask / keep, with the ways to write a mask
passes/model/loss_weights                # weights * terms, by way of sums, means and ratios
passes/model/head                        # Gemm(x, W, b); MatMul(x, W) + b; Conv(x, W, b) with a kernel of 1
passes/model/rebatch_counts              # sum(x) / N and mean(x) * N / (N - 1), where N is a number
passes/model/lost_detach                 # p + (q - p), (p + q) - p, p - (p - q)
passes/model/hidden_matrices            # W in x W, as products, convolutions and recurrent cells write it
passes/generate/causal_scores            # softmax(S + M), softmax(where(C, S, -inf))
passes/generate/cache_keys               # softmax(Q K^T + M) V with K and V of earlier tokens
passes/model/norm_formula                # (x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2) + eps) * scale + bias
passes/model/batch_norm_formula          # (x - mean) * (scale / sqrt(variance + eps)) + bias'
most=2
names=$(grep -rnE --include='*.[ch]' '&op_[A-Za-z0-9]+' graph passes exec tools |
    grep -vE "^(graph/ops/|graph/ir/node_draft.h|($(echo "$about" | sed 's/ *#.*//' | paste -sd'|'))\.c)" | sed -E "s/$makes//g" | grep -E '&op_')
count=$(printf '%s\n' "$names" | grep -oE '&op_' | wc -l)
if [ "$count" -gt $most ]; then
    printf '%s\n' "$names"
    echo "    ($count names of operators that ask something of them, at most $most are left)"
    bad=1
elif [ "$count" -lt $most ]; then
    echo "only $count names of operators that ask something of them are left: write $count for $most in tests/layering.sh"
fi
for name in $(echo "$about" | sed 's/ *#.*//; s/\[a-z_\]\*/attention/'); do
    [ -f "$name.c" ] || { echo "$name.c    (a file that tests/layering.sh excepts is not there)"; bad=1; }
done

[ $bad = 0 ] && echo "layering: 1 passed, 0 failed"
exit $bad
