/* Operators whose inputs say where in the batch something is: split like any other where that is their own sample,
 * gathered where it may be another. */
#include "graph/ir/op.h"
#include "graph/ops/collective.gen.h"
#include "tests/harness/graphs.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"

/* What a MaxPool chose goes back to where it was, of 9 by 7, which strides of 2 do not reach. */
static const char unpool[] = "graph \"unpool\" {\n"
                             "  input %x : float64[%B,1,9,7]\n"
                             "  input %t : float64[%B,2,9,7]\n"
                             "  state %a trainable : float64[3,1,3,3] = all 0\n"
                             "  state %b trainable : float64[3,3,3,3] = all 0\n"
                             "  state %c trainable : float64[2,3,3,3] = all 0\n"
                             "  const %size : int64[4] = {%B,3,9,7}\n"
                             "  %h = Conv(%x, %a) {pads=[1,1,1,1]}\n"
                             "  %m, %i = MaxPool(%h) {kernel_shape=[2,2], strides=[2,2]}\n"
                             "  %k = Conv(%m, %b) {pads=[1,1,1,1]}\n"
                             "  %u = MaxUnpool(%k, %i, %size) {kernel_shape=[2,2], strides=[2,2]}\n"
                             "  %y = Conv(%u, %c) {pads=[1,1,1,1]}\n"
                             "  %p = Mul(%y, %t)\n"
                             "  %loss = ReduceSum(%p) {keepdims=0}\n"
                             "  output \"loss\" = %loss\n"
                             "}\n";

/* Regions of any samples of the batch, as many as these; channels of them go through a layer. */
static const char regions[] = "graph \"regions\" {\n"
                              "  input %x : float64[%B,1,9,7]\n"
                              "  input %rois : float64[%B,4]\n"
                              "  input %of : int64[%B]\n"
                              "  input %t : float64[%B,2]\n"
                              "  state %a trainable : float64[3,1,3,3] = all 0\n"
                              "  state %b trainable : float64[12,2] = all 0\n"
                              "  const %flat : int64[2] = {%B,12}\n"
                              "  %h = Conv(%x, %a) {pads=[1,1,1,1]}\n"
                              "  %r = RoiAlign(%h, %rois, %of) {output_height=2, output_width=2, spatial_scale=3.0, "
                              "coordinate_transformation_mode=\"output_half_pixel\"}\n"
                              "  %f = Reshape(%r, %flat)\n"
                              "  %y = MatMul(%f, %b)\n"
                              "  %p = Mul(%y, %t)\n"
                              "  %loss = ReduceSum(%p) {keepdims=0}\n"
                              "  output \"loss\" = %loss\n"
                              "}\n";

/* Positions of images are picked where the batch stands behind the axes of space, as an image is resized by indices. */
static const char positions[] =
    "graph \"positions\" {\n"
    "  input %x : float64[%B,1,3,4]\n"
    "  input %t : float64[5,3,%B,2]\n"
    "  state %w trainable : float64[2,1,3,3] = all 0\n"
    "  const %at : int64[5,1] = {2,0,1,1,-1}\n"
    "  const %pairs : int64[5,3,2] = {0,0,0,1,0,2,1,2,1,0,2,1,2,0,2,2,2,3,1,0,1,1,1,2,0,3,1,3,2,3}\n"
    "  %h = Conv(%x, %w) {pads=[1,1,1,1]}\n"
    "  %r = Transpose(%h) {perm=[2,0,1,3]}\n"
    "  %g = GatherND(%r, %at)\n"
    "  %l = Transpose(%h) {perm=[2,3,0,1]}\n"
    "  %f = GatherND(%l, %pairs)\n"
    "  %s = ReduceSum(%g) {keepdims=0}\n"
    "  %p = Mul(%f, %t)\n"
    "  %q = Mul(%p, %f)\n"
    "  %u = ReduceSum(%q) {keepdims=0}\n"
    "  %loss = Add(%s, %u)\n"
    "  output \"loss\" = %loss\n"
    "}\n";

/* Rows of any samples, by constants and by the samples' own numbers. */
static const char rows[] = "graph \"rows\" {\n"
                           "  input %x : float64[%B,3]\n"
                           "  input %of : int64[%B]\n"
                           "  input %t : float64[%B,2]\n"
                           "  state %w trainable : float64[3,2] = all 0\n"
                           "  const %few : int64[4] = {0,-1,-1,0}\n"
                           "  %h = MatMul(%x, %w)\n"
                           "  %f = Gather(%h, %few) {axis=0}\n"
                           "  %o = Gather(%h, %of) {axis=0}\n"
                           "  %s = Mul(%f, %f)\n"
                           "  %a = ReduceSum(%s) {keepdims=0}\n"
                           "  %p = Mul(%o, %t)\n"
                           "  %b = ReduceSum(%p) {keepdims=0}\n"
                           "  %loss = Add(%a, %b)\n"
                           "  output \"loss\" = %loss\n"
                           "}\n";

static int gathers(const char *text)
{
    Graph *one = train_graph(text, 6), *many = NULL;
    int n = -1;

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 3, .devices = 3 }, NULL)))
        n = count_nodes(many, &op_AllGather);
    graph_free(one);
    graph_free(many);
    return n;
}

static void test_unpool(void)
{
    train_check_all(unpool);
    CU_ASSERT_EQUAL(gathers(unpool), 0);
}

/* The samples, forwards; their gradient is a sum of the replicas', each of which gets its part. */
static void test_regions(void)
{
    train_check_all(regions);
    CU_ASSERT_EQUAL(gathers(regions), 1);
}

static void test_rows(void)
{
    train_check_all(rows);
    CU_ASSERT_EQUAL(gathers(rows), 1); /* for both */
}

static void test_positions(void)
{
    train_check_all(positions);
    CU_ASSERT_EQUAL(gathers(positions), 0);
}

DEFINE_SUITE(indices, { "positions beside the batch", test_positions }, { "MaxPool and back", test_unpool },
             { "regions of any sample", test_regions }, { "rows of any sample", test_rows });
