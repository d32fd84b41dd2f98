/* Writes the preprocessing of images as nodes.  Images that are cut to T = [height, width] (fit=crop) are resized to
 *
 *     size = Max(s * width / s[1], s * height / s[0]), where s = Shape(bytes)[1:3]
 *
 * in whole numbers: one side is that of T, the other at least as long.  The part begins at (size - T) / 2, of which
 * Python's round() makes d / 2 + d % 4 / 3, in whole numbers, too.
 *
 * As in Pillow (tools/image/image_resize.c), each pass of Resize along an axis is rounded to 8 bits.  Three passes make
 * the order depend on the sizes, without a branch: height to `first`, width, height to its size.  `first` is that size
 * where the columns come first, else the height as it is, which changes nothing.
 *
 *     pass(x, axis, n) = Floor(Min(Max(Resize(x, axis, n), 0), 255) + 0.5)
 *     x = pass(pass(pass(Cast(Transpose(bytes), float), 2, first), 3, size[1]), 2, size[0])[start : start + T]
 *     y = Transpose(Cast((Cast(Transpose(x), double) / 255 - mean) / std)) */
#include "tools/feed/image_graph.h"

#include "tools/table/onnx_draft.h"

enum { OPSET = 18, ROOM = 80 };

#define TYPE(t) ONNX__TENSOR_PROTO__DATA_TYPE__##t
#define NODE(d, op, attribute, ...) \
    onnx_draft_node((d), (op), (const char *const[DRAFT_INPUTS]){ __VA_ARGS__ }, (attribute), NULL)

static const int64_t to_planes[] = { 0, 3, 1, 2 }, to_pixels[] = { 0, 2, 3, 1 }, plane_axes[] = { 2, 3 };

/* Side `axis`, or with -1 both sides, of images [N, height, width, C]. */
static char *draft_shape(OnnxDraft *d, const char *images, int axis)
{
    char *s = NODE(d, "Shape", onnx_draft_int_attribute(d, "start", axis < 0 ? 1 : axis), images);

    onnx_draft_give(d, onnx_draft_int_attribute(d, "end", axis < 0 ? 3 : axis + 1));
    return s;
}

/* The size [height, width] of which the centre is cut out: the shorter side is that of the target. */
static char *draft_size(OnnxDraft *d, const ImageGraph *of)
{
    char *s = draft_shape(d, of->input, -1), *by_width, *by_height;

    by_width = NODE(d, "Mul", NULL, s, onnx_draft_ints(d, &of->width, 1));
    by_width = NODE(d, "Div", NULL, by_width, draft_shape(d, of->input, 2));
    by_height = NODE(d, "Mul", NULL, s, onnx_draft_ints(d, &of->height, 1));
    by_height = NODE(d, "Div", NULL, by_height, draft_shape(d, of->input, 1));
    return NODE(d, "Max", NULL, by_width, by_height);
}

/* Cuts the centre out of planes of that size. */
static char *draft_crop(OnnxDraft *d, const ImageGraph *of, const char *planes, const char *size)
{
    const int64_t target[] = { of->height, of->width }, two = 2, three = 3, four = 4;
    const char *goal = onnx_draft_ints(d, target, 2);
    char *more = NODE(d, "Sub", NULL, size, goal), *start, *up;

    up = NODE(d, "Mod", NULL, more, onnx_draft_ints(d, &four, 1));
    up = NODE(d, "Div", NULL, up, onnx_draft_ints(d, &three, 1));
    start = NODE(d, "Div", NULL, more, onnx_draft_ints(d, &two, 1));
    start = NODE(d, "Add", NULL, start, up);
    return NODE(d, "Slice", NULL, planes, start, NODE(d, "Add", NULL, start, goal), onnx_draft_ints(d, plane_axes, 2));
}

/* Resizes planes along an axis, to whole numbers. */
static char *draft_pass(OnnxDraft *d, const ImageGraph *of, const char *planes, int64_t axis, const char *size)
{
    char *x =
        NODE(d, "Resize", onnx_draft_text_attribute(d, "mode", of->bicubic ? "cubic" : "linear"), planes, "", "", size);

    onnx_draft_give(d, onnx_draft_ints_attribute(d, "axes", &axis, 1));
    onnx_draft_give(d, onnx_draft_int_attribute(d, "antialias", 1));
    onnx_draft_give(d, onnx_draft_int_attribute(d, "exclude_outside", 1));
    if (of->bicubic)
        onnx_draft_give(d, onnx_draft_float_attribute(d, "cubic_coeff_a", -0.5f));
    x = NODE(d, "Max", NULL, x, onnx_draft_float(d, 0));
    x = NODE(d, "Min", NULL, x, onnx_draft_float(d, 255));
    return NODE(d, "Floor", NULL, NODE(d, "Add", NULL, x, onnx_draft_float(d, 0.5f)));
}

/* The height to which the columns are resized before the rows: `to` where the height shrinks by more than twice the
 * pixels of the width, else the height as it is. */
static char *draft_first(OnnxDraft *d, const ImageGraph *of, const char *to, const char *width)
{
    const int64_t two = 2;
    char *height = draft_shape(d, of->input, 1), *narrower = draft_shape(d, of->input, 2), *lower, *more;

    narrower = NODE(d, "Sub", NULL, narrower, width);
    narrower = NODE(d, "Mul", NULL, narrower, onnx_draft_ints(d, &two, 1));
    lower = NODE(d, "Sub", NULL, height, to);
    more = NODE(d, "Less", NULL, narrower, lower);
    lower = NODE(d, "Less", NULL, to, height);
    return NODE(d, "Where", NULL, NODE(d, "And", NULL, more, lower), to, height);
}

/* Resizes and crops the bytes; returns pixels [N, height, width, C] of whole numbers. */
static char *draft_fit(OnnxDraft *d, const ImageGraph *of)
{
    const int64_t target[] = { of->height, of->width }, zero = 0, one = 1;
    const char *size = of->stretch ? onnx_draft_ints(d, target, 2) : draft_size(d, of);
    char *to = NODE(d, "Gather", NULL, size, onnx_draft_ints(d, &zero, 1)),
         *width = NODE(d, "Gather", NULL, size, onnx_draft_ints(d, &one, 1)), *first = draft_first(d, of, to, width);
    char *x = NODE(d, "Transpose", onnx_draft_ints_attribute(d, "perm", to_planes, 4), of->input);

    x = NODE(d, "Cast", onnx_draft_int_attribute(d, "to", TYPE(FLOAT)), x);
    x = draft_pass(d, of, x, 2, first);
    x = draft_pass(d, of, x, 3, width);
    x = draft_pass(d, of, x, 2, to);
    if (!of->stretch)
        x = draft_crop(d, of, x, size);
    x = NODE(d, "Transpose", onnx_draft_ints_attribute(d, "perm", to_pixels, 4), x);
    return NODE(d, "Cast", onnx_draft_int_attribute(d, "to", TYPE(DOUBLE)), x);
}

static void draft(OnnxDraft *d, const ImageGraph *of)
{
    static const char *const open[] = { "N", "height", "width", NULL }, *const batch[] = { "N", NULL, NULL, NULL };
    const int64_t bytes[] = { -1, of->height, of->width, of->channels },
                  planes[] = { -1, of->channels, of->height, of->width };
    const double most = 255;
    char *x = draft_fit(d, of);

    d->graph.input[d->graph.n_input++] = onnx_draft_value(d, of->input, TYPE(UINT8), 4, bytes, open);
    d->graph.output[d->graph.n_output++] =
        onnx_draft_value(d, of->output, of->dtype, 4, of->nhwc ? bytes : planes, batch);
    x = NODE(d, "Div", NULL, x, onnx_draft_numbers(d, &most, 1));
    x = NODE(d, "Sub", NULL, x, onnx_draft_numbers(d, of->mean, (size_t)of->channels));
    x = NODE(d, "Div", NULL, x, onnx_draft_numbers(d, of->std, (size_t)of->channels));
    x = NODE(d, "Cast", onnx_draft_int_attribute(d, "to", of->dtype), x);
    (void)onnx_draft_node(d, of->nhwc ? "Identity" : "Transpose", (const char *const[DRAFT_INPUTS]){ x },
                          of->nhwc ? NULL : onnx_draft_ints_attribute(d, "perm", to_planes, 4), of->output);
}

Status image_graph_write(const ImageGraph *of, const char *path)
{
    OnnxDraft d = { 0 };
    Status st = onnx_draft_open(&d, ROOM);

    if (!st) {
        draft(&d, of);
        st = onnx_draft_write(&d, OPSET, path);
    }
    onnx_draft_close(&d);
    return st;
}
