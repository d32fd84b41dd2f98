/* Which parameters are scales and biases, for --no-decay: by the operators that read them, and by the formulas of norms
 * that they are a part of. */
#include "passes/model/parameters.h"
#include "passes/options/update.h"

enum { KIND_OTHER = 4 }; /* beside KIND_NORM and KIND_BIAS: an operator reads the parameter as a weight */

/* The kind of a parameter that node n reads at input i.  An operator has its bias at input 2, or at 3: a recurrent
 * cell, behind two matrices, and DeformConv, behind the offsets. */
static unsigned kind_of_input(const Node *n, int i)
{
    const bool takes = i < 8 && n->op->param_in >> i & 1 && !(n->op->flags & OPF_PARAM_MAYBE);
    const bool bias = i == (n->op->param_in >> 3 & 1 ? 3 : 2);

    if (!takes)
        return 0;
    if (n->op->flags & OPF_NORM)
        return KIND_NORM | (bias ? KIND_BIAS : 0);
    return bias ? KIND_BIAS : KIND_OTHER;
}

Status parameter_kinds(unsigned char **out, const Reach *r, Arena *a)
{
    const Graph *g = r->g;
    unsigned char *kind = ARENA_NEW(a, unsigned char, g->n_value);

    if (!kind)
        return FAIL_NOMEM();
    TRY(norm_formula_find(kind, r, a));
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        unsigned of_outputs = 0;
        bool through = false; /* a constant computed from constants gives them its kind */

        for (int k = 0; n->op && r->live[i] && k < n->n_out; k++)
            if (has_value(n->out[k])) {
                through |= r->constant[n->out[k].i];
                of_outputs |= kind[n->out[k].i];
            }
        for (int k = 0; n->op && r->live[i] && k < n->n_in; k++)
            if (has_value(n->in[k]) && r->constant[n->in[k].i])
                kind[n->in[k].i] |= (unsigned char)(through ? of_outputs : kind_of_input(n, k));
    }
    for (uint32_t i = 1; i < g->n_value; i++) {
        if (r->reach[i] & REACH_BIAS && !(r->reach[i] & REACH_WEIGHT))
            kind[i] |= KIND_BIAS;
        if (r->rescales[i])
            kind[i] |= KIND_NORM;
        if (kind[i] & KIND_OTHER)
            kind[i] = 0;
    }
    *out = kind;
    return ST_OK;
}
