/* Values of an evaluation that are known: computed, or given with the model's inputs. */
#include "graph/onnx/evaluate.h"

/* Values below run->n_data are told by run->is_data. */
static Status evaluate_fix_make_room(Importer *im)
{
    bool *is_data = by_value(im, im->run->is_data, sizeof *is_data, &im->run->n_data);

    if (is_data)
        im->run->is_data = is_data;
    return is_data ? ST_OK : FAIL_NOMEM();
}

Status evaluate_fix(Importer *im, ValueId v, const Tensor *t)
{
    Value *x = value(im->g, v);

    TRY(evaluate_fix_make_room(im));
    im->run->is_data[v.i] = true;
    x->kind = V_CONST;
    x->producer = NULL;
    x->dtype = t->dtype;
    x->init = t;
    value_set_shape(im->g, x, &t->shape);
    return im->g->status;
}
