/* Fixing a value of an evaluation: it was computed, or given as a model's input. */
#include "graph/onnx/evaluate.h"

Status evaluate_fix(Importer *im, ValueId v, const Tensor *t)
{
    Value *x = value(im->g, v);
    bool *is_data = by_value(im, im->run->is_data, sizeof *is_data, &im->run->n_data);

    if (!is_data)
        return FAIL_NOMEM();
    im->run->is_data = is_data;
    im->run->is_data[v.i] = true;
    x->kind = V_CONST;
    x->producer = NULL;
    x->dtype = t->dtype;
    x->init = t;
    value_set_shape(im->g, x, &t->shape);
    return im->g->status;
}
