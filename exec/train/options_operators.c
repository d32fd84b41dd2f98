/* The operators that options were given: sets of an embedder, held as long as the options are. */
#include "exec/operators/operators.h"
#include "exec/train/options.h"

Status options_set_operators(Options *o, dpx_operators *set)
{
    dpx_operators **grown = ARENA_NEW(o->arena, dpx_operators *, o->n_operators + 1);

    for (int i = 0; i < o->n_operators; i++)
        for (int k = 0; k < set->list.n; k++)
            if (operator_find(&o->operators[i]->list, set->list.op[k]->domain, set->list.op[k]->name))
                return FAIL(E_INVALID, "operator %s of domain %s is in two sets", set->list.op[k]->name,
                            set->list.op[k]->domain);
    if (!grown)
        return FAIL_NOMEM();
    for (int i = 0; i < o->n_operators; i++)
        grown[i] = o->operators[i];
    set->given = true;
    operators_keep(set);
    grown[o->n_operators++] = set;
    o->operators = grown;
    return ST_OK;
}

Status options_operators(OperatorList *out, Arena *a, const Options *o)
{
    const OpDef **list;
    int n = 0;

    for (int i = 0; i < o->n_operators; i++)
        n += o->operators[i]->list.n;
    if (!(list = ARENA_NEW(a, const OpDef *, n)))
        return FAIL_NOMEM();
    *out = (OperatorList){ list, 0 };
    for (int i = 0; i < o->n_operators; i++)
        for (int k = 0; k < o->operators[i]->list.n; k++)
            list[out->n++] = o->operators[i]->list.op[k];
    return ST_OK;
}
