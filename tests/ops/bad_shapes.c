/* Operators refuse impossible shapes, axes and numbers by name, without computing with them. */
#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"

static const struct {
    const char *node, *text;
} bad[] = {
    { "Pad(%x, %p) {mode=\"wrap\"}", "pads" },
    { "Pad(%x, %p) {mode=\"reflect\"}", "pads" },
    { "Pad(%x, %far)", "pads" },
    { "Pad(%x, %p) {mode=\"odd\"}", "mode 'odd'" },
    { "Reshape(%x, %two)", "cannot become" },
    { "Reshape(%x, %minus)", "-1" },
    { "Reshape(%x, %far)", "" },
    { "Expand(%x, %far)", "" },
    { "Tile(%x, %far)", "repeats" },
    { "Transpose(%x) {perm=[0,0]}", "permutation" },
    { "Concat(%x, %p) {axis=0}", "" },
    { "Concat(%x) {axis=2}", "axis 2" },
    { "Split(%x, %two) {axis=1}", "at most 1" },
    { "Slice(%x, %two, %two, %two)", "axis" },
    { "Squeeze(%x, %zero)", "is not 1" },
    { "Unsqueeze(%x, %minus)", "twice" },
    { "Gather(%x, %x)", "indices" },
    { "Gather(%x, %two) {axis=-3}", "axis -3" },
    { "DepthToSpace(%x) {blocksize=2}", "rank 2" },
    { "TopK(%x, %zero) {axis=5}", "axis 5" },
    { "ConstantOfShape(%far)", "" },
    { "LpPool(%line) {kernel_shape=[2], p=0}", "p 0, expected 1" },
    { "LpPool(%line) {kernel_shape=[4]}", "does not fit" },
    { "LpPool(%x) {kernel_shape=[2]}", "kernel_shape has 1 entries" },
    { "GlobalLpPool(%x)", "rank 2" },
    { "MaxUnpool(%line, %line) {kernel_shape=[2]}", "int64 indices" },
    { "MaxUnpool(%line, %places) {kernel_shape=[2,2]}", "kernel_shape has 2 entries" },
    { "MaxUnpool(%line, %places) {kernel_shape=[2], pads=[9,9]}", "exceed" },
    { "MaxUnpool(%line, %places, %two) {kernel_shape=[2]}", "output_shape has 2 entries" },
    { "MaxUnpool(%line, %places, %threes) {kernel_shape=[2]}", "output_shape[0] is 3" },
    { "MaxUnpool(%line, %places, %huge) {kernel_shape=[2]}", "" },
    { "MaxUnpool(%line, %places) {kernel_shape=[2147483647], strides=[2147483648]}", "strides" },
    { "Col2Im(%x, %two, %two)", "expected [batch" },
    { "Col2Im(%line, %places1, %zero)", "block_shape[0] is 0" },
    { "Col2Im(%line, %two, %places1)", "image_shape has 2 entries" },
    { "Col2Im(%line, %places1, %places1)", "expected a multiple of 2" },
    { "Col2Im(%line, %places1, %places1) {pads=[1,1,1]}", "pads" },
    { "Col2Im(%line, %places1, %places1) {strides=[1,1]}", "strides has 2 entries" },
    { "Col2Im(%line, %places1, %places1) {dilations=[9]}", "does not fit" },
    { "Col2Im(%line, %wide, %wide)", "elements of the image are more" },
    { "Conv(%line, %none)", "kernel size 0 along axis 2" },
    { "Conv(%line, %double)", "input 1 is float64, expected float32" },
    { "ConvTranspose(%line, %line) {spatial=[4]}", "made for another size" },
    { "DeformConv(%x, %x, %x)", "input [3,2]" },
    { "DeformConv(%line, %line, %line)", "the offset is" },
    { "DeformConv(%line, %line, %line) {group=2}", "2 groups" },
    { "DeformConv(%line, %line, %line) {group=0}", "group 0" },
    { "DeformConv(%line, %line, %line) {offset_group=3}", "3 groups of offsets" },
    { "DeformConv(%line, %line, %line) {offset_group=2147483647}", "groups of offsets" },
    { "DeformConv(%line, %line, %line) {kernel_shape=[3]}", "kernel_shape" },
    { "DeformConv(%line, %line, %line) {dilations=[2]}", "does not fit" },
    { "DeformConv(%line, %line, %twice, %line)", "bias" },
    { "DeformConv(%line, %line, %twice, _, %line)", "the mask is" },
    { "RoiAlign(%x, %x, %two)", "expected [batch" },
    { "RoiAlign(%plane, %x, %two)", "expected [regions, 4]" },
    { "RoiAlign(%plane, %plane2, %two)", "int64[1]" },
    { "RoiAlign(%plane, %plane2, %zero) {sampling_ratio=4097}", "at most 4096" },
    { "RoiAlign(%plane, %plane2, %zero) {sampling_ratio=-1}", "sampling_ratio" },
    { "RoiAlign(%plane, %plane2, %zero) {output_height=0}", "output_height" },
    { "RoiAlign(%plane, %plane2, %zero) {output_height=2147483647, output_width=2147483647}", "overflows" },
    { "RoiAlign(%plane, %plane2, %zero) {mode=\"sum\"}", "mode 'sum'" },
    { "MaxRoiPool(%plane, %plane2) {pooled_shape=[1,1]}", "expected [regions, 5]" },
    { "MaxRoiPool(%plane, %five) {pooled_shape=[1]}", "pooled_shape has 1" },
    { "MaxRoiPool(%plane, %five) {pooled_shape=[1,0]}", "pooled_shape" },
    { "LinearAttention(%line, %line, %line) {q_num_heads=1, kv_num_heads=1}", "decay is missing" },
    { "LinearAttention(%line, %line, %line, _, %line) {q_num_heads=1, kv_num_heads=1, update_rule=\"linear\"}",
      "decay is given" },
    { "LinearAttention(%line, %line, %line) {q_num_heads=1, kv_num_heads=2, update_rule=\"linear\"}", "no multiple" },
    { "LinearAttention(%x, %line, %line) {q_num_heads=1, kv_num_heads=1, update_rule=\"linear\"}", "query is" },
    { "LinearAttention(%line, %line, %line, %line) {q_num_heads=1, kv_num_heads=1, update_rule=\"linear\"}",
      "past_state is" },
    { "LinearAttention(%line, %line, %line) {q_num_heads=1, kv_num_heads=1, update_rule=\"wide\"}", "update_rule" },
    { "MelWeightMatrix(%two, %two, %two, %x, %x)", "must be one number" },
    { "ReverseSequence(%x, %two) {time_axis=1}", "time_axis 1 and batch_axis 1" },
    { "ReverseSequence(%one, %two)", "rank 0" },
    { "ReverseSequence(%x, %threes)", "input 1 is int64[3], expected int64[2]" },
    { "TensorScatter(%x, %x) {axis=0}", "axis 0 is the batch, expected another" },
    { "TensorScatter(%line, %x)", "does not fit into the cache [1,1,2]" },
    { "TensorScatter(%line, %line, %two) {axis=2}", "input 2 is int64[2], expected int64[1]" },
    { "TensorScatter(%line, %line) {mode=\"ring\"}", "mode" },
    { "CausalConvWithState(%line, %x)", "expected [batch, channels, length]" },
    { "CausalConvWithState(%line, %line, %line)", "the bias is" },
    { "CausalConvWithState(%line, %line, _, %line)", "past_state is [1,1,2], expected [1,1,1]" },
    { "CausalConvWithState(%line, %line) {activation=\"relu\"}", "activation" },
    { "DFT(%x, %huge)", "dft_length must be one number" },
    { "DFT(%line) {onesided=1}", "expected a last axis of 1" },
    { "DFT(%places, %zero)", "" },
    { "DFT(%line, %zero)", "dft_length 0" },
    { "DFT(%line, %most)", "dft_length 9223372036854775807" },
    { "DFT(%line, _, %places1)", "axis 2" },
    { "STFT(%line, %zero, _, %count)", "frames of 1 every 0" },
    { "STFT(%line, %count)", "neither window nor frame_length" },
    { "STFT(%line, %count, _, %most)", "frames of 9223372036854775807" },
    { "STFT(%line, %count, _, %count)", "no onesided" },
    { "STFT(%plane, %count, _, %count)", "or [batch, length] of reals" },
    { "dpexec.NllSum(%x, %two)", "target" },
    { "dpexec.Fused(%x) {program=graph(%x0) { %y0 = Neg(%x0) return %y0, %t0 }, sum=1}", "%t0 is not defined" },
    { "dpexec.Fused(%x) {program=graph(%x0) { %t0 = Neg(%x0) return %x0 }, sum=1}", "%x0 is not computed" },
    { "dpexec.Fused(%x) {program=graph(%x0) { %t0 = Neg(%x0) return %t0 }, sum=1, axes=[7]}", "axis 7" },
    { "dpexec.Product(%x, %x)", "do not multiply" },
    { "dpexec.Product(%x, %minus) {transB=1}", "" },
    { "dpexec.Product(%x, %one)", "expected rank 2" },
    { "dpexec.Product(%x, %x, %x) {transB=1}", "input 2 is float32[3,2]" },
    { "dpexec.Product(%x, %x) {transB=1, activation=\"elu\"}", "activation has unknown value" },
    { "dpexec.Product(%x, %x) {transB=1, activation=\"relu\", gradient=1}", "an activation's aux" },
    { "dpexec.Product(%x, %x, _, %x) {transB=1}", "only a gradient" },
    { "dpexec.Product(%x, %x, _, %x) {transB=1, activation=\"relu\", gradient=1}", "expected uint8 of 3 rows of 16" },
    { "dpexec.Product(%x, %x) {transB=1, bias_grad=\"a\"}", "do not go together" },
    { "LSTM(%x, %x, %x)", "expected three axes" },
    { "LSTM(%line, %line, %line)", "R is [1,1,2], expected [1,8,2]" },
    { "RNN(%line, %line, %line)", "R is [1,1,2], expected [1,2,2]" },
    { "RNN(%line, %line, %line) {activations=[\"Sin\"]}", "unknown activation 'Sin'" },
    { "RNN(%line, %line, %line) {activations=[\"Tanh\", \"Relu\"]}", "2 activations, expected 1" },
    { "RNN(%line, %line, %line) {activations=[\"ScaledTanh\"]}", "ScaledTanh needs" },
    { "RNN(%line, %line, %line) {activation_alpha=[1.0]}", "more numbers in activation_alpha" },
    { "RNN(%line, %line, %line) {clip=-1.0}", "clip is -1" },
    { "RNN(%line, %line, %line) {direction=\"both\"}", "direction" },
    { "dpexec.ConvRelu(%x, %x)", "rank 2 and 2" },
    { "dpexec.ConvRelu(%line, %line, _, %line)", "the addend is [1,1,2], expected [1,1,1]" },
    { "dpexec.CastAll(%x) {to=11}", "expected float16 or bfloat16" },
    { "dpexec.CastAll(_, %x) {to=10}", "input 0 is absent" },
    { "dpexec.CastAll(%x, %x) {to=10}", "2 inputs and 1 outputs" },
    { "dpexec.Update(%x, _) {formula=graph(%w, %g) { %v = Sub(%w, %g) return %v }}", "input 1 is absent" },
    { "dpexec.Update(%x, %x) {count=2, formula=graph(%w, %g) { %v = Sub(%w, %g) return %v }}", "for 2 parameters" },
    { "dpexec.Update(%x, %x) {count=0, formula=graph(%w, %g) { %v = Sub(%w, %g) return %v }}", "count" },
    { "dpexec.Update(%x, %one) {formula=graph(%w, %g) { %v = Sub(%w, %g) return %v }}", "input 1 is" },
    { "dpexec.Update(%x, %x, %x) {formula=graph(%w, %g, %c) { %v = Sub(%w, %g) return %v }}", "input 2 is" },
    { "dpexec.Update(%x, %x) {formula=graph(%w, %g) { return %g }}", "state 0 is not computed" },
    { "dpexec.Update(%x, %x) {formula=graph(%w) { %v = Neg(%w) return %v }}", "inputs" },
    { "dpexec.Update(%x, %x) {formula=graph(%w, %g) { %v = Sub(%w, %g) return %v, %v }}", "returns 2 values" },
    { "dpexec.Update(%x, %x) {formula=graph(%w, %g) { %v = Softmax(%w) return %v }}", "not elementwise" },
    { "dpexec.GlobalNorm(%x) {max_norm=1.0, scaled=1}", "scalar" },
    { "dpexec.GlobalNorm(%x, _, %x) {max_norm=1.0}", "input 1 is absent" },
    { "dpexec.AllFinite(%x, _, %x)", "input 1 is absent" },
    { "dpexec.AllFinite(%x, %two)", "" },
    { "dpexec.LossScaleUpdate(%x, %zero, %x)", "all scalars" },
    { "dpexec.LossScaleUpdate(%one, %count, %one)", "expected bool[]" },
};

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool two = strstr(bad[i].node, "TopK") || strstr(bad[i].node, "NllSum") || strstr(bad[i].node, "GlobalNorm") ||
                   strstr(bad[i].node, "LossScale") || strstr(bad[i].node, "CastAll(_");
        char text[2048];
        Graph *g = NULL;
        Status st;

        snprintf(
            text, sizeof text,
            "graph \"g\" {\n  input %%x : float32[3,2]\n  input %%none : float32[1,1,0]\n  const %%p : int64[4] = "
            "{-3,0,4,0}\n  const %%zero : int64[1] "
            "= {0}\n"
            "  const %%far : int64[2] = {-9223372036854775807,9223372036854775807}\n  const %%two : int64[2] = {3,3}\n"
            "  const %%minus : int64[2] = {-1,-1}\n  const %%one : float32[] = {1}\n  const %%count : int64[] = {1}\n"
            "  const %%line : float32[1,1,2] = all 1\n  const %%places : int64[1,1,2] = {0,1}\n"
            "  const %%places1 : int64[1] = {2}\n  const %%wide : int64[4] = "
            "{2147483647,2147483647,2147483647,2147483647}\n"
            "  const %%twice : float32[1,2,1] = all 1\n  const %%double : float64[1,1,2] = all 1\n"
            "  const %%plane : float32[1,1,2,2] = all 1\n  const %%plane2 : float32[1,4] = all 1\n  const %%five : "
            "float32[1,5] = all 0\n"
            "  const %%most : int64[] = {9223372036854775807}\n"
            "  const %%threes : int64[3] = {3,3,3}\n  const %%huge : int64[3] = {1,1,9223372036854775807}\n  %%y%s = "
            "%s\n  output \"y\" = %%y\n}\n",
            two ? ", %z" : "", bad[i].node);
        st = graph_parse(&g, text, strlen(text));
        if (!st || st == E_INTERNAL || !strstr(status_message(), bad[i].text))
            TEST_FAIL("%s: %s", bad[i].node, st ? status_message() : "accepted");
        graph_free(g);
    }
}

DEFINE_SUITE(bad_shapes, { "impossible shapes are refused", test_refused });
