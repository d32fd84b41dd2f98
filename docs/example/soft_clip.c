/* SoftClip: y = limit * tanh(x / limit), element by element, with a gradient that is nodes of the graph.
 *
 *     cc -shared -fPIC soft_clip.c $(pkg-config --cflags dpexec) -lm -o soft_clip.so
 */
#include <dpexec.h>
#include <math.h>

static dpx_status shape(void *user, dpx_node *n)
{
    dpx_tensor x;

    (void)user;
    return dpx_node_input(n, 0, &x) ? dpx_node_set_output(n, 0, x.dtype, x.rank, x.dim) : DPX_SHAPE;
}

static dpx_status apply(void *user, dpx_node *n)
{
    const double limit = dpx_node_float(n, "limit");
    dpx_tensor x, y;
    int64_t count = 1;

    (void)user;
    if (!dpx_node_input(n, 0, &x) || !dpx_node_output(n, 0, &y))
        return DPX_INTERNAL;
    for (int i = 0; i < x.rank; i++)
        count *= x.dim[i];
    for (int64_t i = 0; i < count; i++)
        if (x.dtype == DPX_FLOAT64)
            ((double *)y.data)[i] = limit * tanh(((const double *)x.data)[i] / limit);
        else
            ((float *)y.data)[i] = (float)(limit * tanh((double)((const float *)x.data)[i] / limit));
    return DPX_OK;
}

static dpx_value binary(dpx_node *n, const char *name, dpx_value a, dpx_value b)
{
    return dpx_graph_emit(n, "", name, (const dpx_value[]){ a, b }, 2, NULL, 0);
}

/* dx = dy * (1 - (y / limit)^2).  The last call returns any earlier failure, so nothing is checked in between. */
static dpx_status make_gradient(void *user, dpx_node *n)
{
    const dpx_value y = dpx_graph_output(n, 0), dy = dpx_graph_output_gradient(n, 0), one = dpx_graph_number(n, y, 1),
                    limit = dpx_graph_number(n, y, dpx_node_float(n, "limit")), ratio = binary(n, "Div", y, limit),
                    slope = binary(n, "Sub", one, binary(n, "Mul", ratio, ratio));

    (void)user;
    return dpx_graph_set_input_gradient(n, 0, binary(n, "Mul", dy, slope));
}

static dpx_status add(dpx_operators *set)
{
    static const dpx_kernels kernels = { .size = sizeof kernels, .apply = apply };
    static const dpx_attribute limit = { .size = sizeof limit, .name = "limit", .type = DPX_ATTRIBUTE_FLOAT, .f = 1 };
    static const dpx_operator soft_clip = { .size = sizeof soft_clip,
                                            .domain = "com.example",
                                            .name = "SoftClip",
                                            .min_inputs = 1,
                                            .max_inputs = 1,
                                            .min_outputs = 1,
                                            .max_outputs = 1,
                                            .attributes = &limit,
                                            .n_attributes = 1,
                                            .flags = DPX_OPERATOR_PER_SAMPLE,
                                            .shape = shape,
                                            .float32 = &kernels,
                                            .float64 = &kernels,
                                            .make_gradient = make_gradient };

    return dpx_operators_add(set, &soft_clip);
}

const dpx_library dpx_operator_library = { sizeof(dpx_library), DPX_LIBRARY_ABI, add };
