#!/bin/sh
# Includes flow one way: graph/base -> graph -> graph/recipes -> passes; graph -> kernels; all of these -> exec -> tools.
# Fails with every line that breaks the rule.  Operators are named where they are defined, computed or fused; elsewhere the
# number of their names only falls.
cd "$(dirname "$0")/.." || exit 1

# forbid WHERE PATTERN WHY: no file under WHERE includes a path that matches PATTERN (extended, within the quotes).
bad=0
forbid() {
    found=$(grep -rnE --include='*.[ch]' "^#include \"($2)" $1 | grep -vE "${4:-^$}")
    if [ -n "$found" ]; then
        printf '%s\n' "$found" | sed "s|\$|    ($3)|"
        bad=1
    fi
}

forbid graph/base   '(graph/[a-z0-9_]+\.h|graph/ops|graph/onnx|passes|kernels|exec|tools|tests)' 'graph/base knows nothing above it'
forbid "$(find graph -name '*.[ch]' ! -path 'graph/recipes/*')" '(graph/recipes|passes|kernels|exec|tools|tests)/' 'graph knows nothing above it'
forbid graph/recipes '(passes|kernels|exec|tools|tests)/'    'recipes know the graph alone'
forbid passes       '(kernels|exec|tools|tests)/'           'passes know the graph and recipes'
forbid kernels      '(graph/recipes|passes|exec|tools|tests)/'         'kernels know the graph alone'
forbid exec         '(tools|tests)/'                        'exec knows no tool'
forbid exec/world   '(graph/|passes/|kernels/|exec/)'       'exec/world knows what memory it sends, not what is in it' '"(graph/base|exec/world)/'
forbid exec/gpu     'exec/'                                 'exec/gpu runs what is prepared; programs and sessions stand above it' \
    '"exec/((gpu|world)/|(describe|device|memory|memory_report|prepared|trace)\.h)'
forbid "exec/gpu/accelerator.* exec/gpu/collective.* exec/gpu/group.* exec/gpu/late.* exec/gpu/plugin.* exec/gpu/wait.*" \
    'exec/(gpu/(part|program|progress|issue|run)|prepared)\.h' 'the group of devices knows its users by callbacks'
forbid 'exec/gpu/part.h exec/gpu/progress.* exec/gpu/issue.*' 'exec/gpu/run\.h' 'a step is run by those above'
forbid "$(find exec -maxdepth 1 -name '*.[ch]')" 'exec/api/' 'exec/api stands above all of exec'
forbid include      '.*'                                    'the public header stands alone'
forbid tools        '(graph|passes|kernels|exec|tests)/'    'tools use include/dpexec.h; graph-transform also passes/ and exec/' \
    '("graph/base/|^tools/graph_transform\.c:[0-9]+:#include "(graph|passes|exec)/)'

# What an operator is to others is said by its OpDef, or by graph/collective.h; a pass that is about an operator may name it.
most=238
names=$(grep -roE --include='*.[ch]' '&op_[A-Za-z0-9]+' graph passes exec tools | grep -vE '^(graph/ops/|passes/fuse_)')
count=$(printf '%s\n' "$names" | wc -l)
if [ "$count" -gt $most ]; then
    printf '%s\n' "$names" | cut -d: -f1 | sort | uniq -c | sort -rn
    echo "    ($count names of operators outside of graph/ops, kernels and passes/fuse_*, at most $most are left)"
    bad=1
elif [ "$count" -lt $most ]; then
    echo "only $count names of operators are left outside of graph/ops, kernels and passes/fuse_*: write $count for $most in tests/layering.sh"
fi

[ $bad = 0 ] && echo "layering: 1 passed, 0 failed"
exit $bad
