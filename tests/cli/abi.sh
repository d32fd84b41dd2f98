#!/bin/bash
# Programs compiled with an older or a newer dpexec.h work with this library: tests/member/caller.c is compiled with
# structs whose last members are cut off, and with structs that have one more.  And a change of the header that breaks
# programs is told from one that does not (tests/abi.py).
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
grown='dpx_(info|world_options|device|plan_memory_result|check_result|result|metric)'

# struct_without STRUCT MEMBER: the header's text from stdin without that member.
struct_without() {
    awk -v end="^} $1;" -v member="[ *]$2(\\\\[[0-9]*\\\\])?;" '
        /^typedef struct \{/ { start = NR } { line[NR] = $0 } $0 ~ end { last = start; stop = NR }
        END { for (i = 1; i <= NR; i++) if (!(i > last && i < stop && line[i] ~ member)) print line[i] }'
}

# caller FOLDER FLAG...: compiles the program with the headers in FOLDER, and runs it.
caller() {
    local folder=$1
    shift
    check "$folder: compiles" "$cc" -std=c11 -Wall -Wextra -Werror ${sanitize:+-fsanitize=$sanitize} "$@" -I "$DIR/$folder" \
        tests/member/caller.c -L "$build" -ldpexec -Wl,-rpath,"$build" -o "$DIR/$folder/caller"
    check "$folder: runs" bash -c "'$DIR/$folder/caller' models/mlp.onnx >'$DIR/$folder/said' 2>'$DIR/$folder/errors'"
    cat "$DIR/$folder/errors"
}

mkdir "$DIR/same" "$DIR/older" "$DIR/newer"
cp include/* "$DIR/same"
cp include/* "$DIR/older"
cp include/* "$DIR/newer"
for header in dpexec.h dpexec_world.h; do
    struct_without dpx_info rows <include/$header | struct_without dpx_world_options log_user | struct_without dpx_device memory |
        struct_without dpx_plan_memory_result accelerator | struct_without dpx_check_result text | struct_without dpx_result log |
        struct_without dpx_result n_log | struct_without dpx_metric samples | struct_without dpx_metric loss >"$DIR/older/$header"
    sed -E "s/^\} $grown;/    int64_t later;\n&/" include/$header >"$DIR/newer/$header"
done
check "nine members are cut off" test "$(diff -r include "$DIR/older" | grep -c '^<.*;')" = 9
check "seven structs have one more" test "$(cat "$DIR"/newer/*.h | grep -c 'int64_t later;')" = 7
caller same
caller older
caller newer -DLATER
check "the program says much" test "$(wc -l <"$DIR/same/said")" = 7
check "an older program says the same" cmp "$DIR/same/said" "$DIR/older/said"
check "a newer program says the same" cmp "$DIR/same/said" "$DIR/newer/said"

# What tests/abi.py says of changed headers.
changed() { # SED_SCRIPT TEXT: the header, so changed, gives a line with the text
    rm -rf "$DIR/tree"
    mkdir -p "$DIR/tree/tests" "$DIR/tree/cmake"
    cp -r include "$DIR/tree"
    cp tests/abi.py tests/abi.txt "$DIR/tree/tests"
    cp cmake/libdpexec.map "$DIR/tree/cmake"
    sed -i -E "$1" "$DIR/tree/include/dpexec.h"
    check "$2" bash -c "! python3 '$DIR/tree/tests/abi.py' >'$DIR/tree/said' && grep -q '$2' '$DIR/tree/said'"
}
changed 's/^(    double loss_sum), (loss_weight;)/    double loss_weight, loss_sum;/' 'dpx_result.loss_sum.*compiled programs break'
changed 's/^\} dpx_result;/    double more;\n&/' 'dpx_result.more is new: if it is meant'
changed 's/^(    int64_t from, to);/\1, step;/' 'member dpx_part.step is new: compiled programs break'
changed 's/^(DPX_API int dpx_option_count\(void\));/\1;\nDPX_API int dpx_option_more(void);/' 'dpx_option_more is new: if it is meant'
changed 's/^DPX_API int dpx_option_count\(void\);//' 'dpx_option_count is gone: compiled programs break'
changed 's/(dpx_trainer_set_lr\(dpx_trainer \*t, int group, )double/\1float/' 'dpx_trainer_set_lr.*compiled programs break'
changed 's/DPX_IO = -7/DPX_IO = -17/' 'constant DPX_IO.*compiled programs break'
finish
