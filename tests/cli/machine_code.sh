#!/bin/bash
# The machine code of row kernels: at most so many instructions an element, and no row in local memory.
#
# The instructions are those of the loop with the fewest for each load of 16 bytes, all its branches counted, divided by
# the elements that a thread has in one turn of it.  At 3 TB/s an H100 can issue 39 instructions for an element that
# moves 4 bytes.  Needs cuobjdump (CUDA toolkit, or PyPI's nvidia-cuda-cuobjdump) and machine code for sm_90.
. "$(dirname "$0")/lib.sh"
images=$build/gen/cuda
tool=$(command -v cuobjdump || ls /usr/local/cuda/bin/cuobjdump 2>/dev/null)
if [ -z "$tool" ] || [ ! -e "$images/softmax.90.cubin" ]; then
    skip 'instructions of row kernels' 'there is no cuobjdump, or no machine code for sm_90'
    pass
    finish
fi

# loop IMAGE KERNEL: prints how many instructions the loop has, and how many stores to local memory the kernel has.
loop() {
    "$tool" -sass -fun "$2" "$images/$1.90.cubin" | awk '
        /^[ \t]*\/\*[0-9a-f]+\*\// {
            at = $1; gsub(/[^0-9a-f]/, "", at); n++; index_of[at] = n
            loads[n] = loads[n - 1] + ($0 ~ /LDG\.E\.128|LDGSTS\.E\..*128/); spills += $0 ~ /STL/
            if ($0 ~ /BRA/ && match($0, /0x[0-9a-f]+/)) {
                to = substr($0, RSTART + 2, RLENGTH - 2)
                while (length(to) < length(at)) to = "0" to
                if (to in index_of && (l = loads[n] - loads[index_of[to] - 1]) && (!best || (n - index_of[to] + 1) / l < best)) {
                    length_of = n - index_of[to] + 1
                    best = length_of / l
                }
            }
        }
        END { print length_of + 0, spills + 0 }'
}

# bound IMAGE KERNEL ELEMENTS INSTRUCTIONS SPILLS: at most INSTRUCTIONS for each of ELEMENTS, and SPILLS in all.
bound() {
    local n spills
    read -r n spills < <(loop "$1" "$2")
    if [ "${n:-0}" -gt 0 ] && [ "$n" -le $(($3 * $4)) ] && [ "$spills" -le "$5" ]; then
        pass
    else
        fail "$2: $n instructions for $3 elements (at most $4 each), $spills stores to local memory (at most $5)"
    fi
}

# The loop over rows, or over a row's chunks: K chunks of 8 elements.
bound softmax softmax_whole4_bf16 32 13 0
bound softmax softmax_whole3_f16 24 14 0
bound softmax log_softmax_whole4_bf16 32 14 0
bound layernorm layernorm_whole3_bf16 24 25 0
bound layernorm layernorm_grad_whole3_bf16 24 34 0
bound layernorm layernorm_grad_whole4_bf16 32 36 0
bound cross_entropy cross_entropy_whole_bf16 32 12 0
bound batchnorm_stats norm_stats_last_v_bf16 32 8 0
bound batchnorm norm_sums_relu_last_v_bf16 32 14 0

# nvcc 13.0 has made a predicate that is always false of a condition that is not: an H100 then wrote wrong places of maxima.
for image in "$images"/*.90.cubin; do
    wrong=$("$tool" -sass "$image" | awk '/Function :/ { kernel = $3 } /PLOP3.LUT.*, 0x0, 0x0 ;/ { print kernel }' | sort -u)
    if [ -z "$wrong" ]; then
        pass
    else
        fail "$(basename "$image"): a predicate that is always false, in $wrong"
    fi
done
finish
