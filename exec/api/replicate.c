/* The callback on replication, which is called for each copy of a node.  Nodes are those of the model as it was loaded.
 * A call of a function counts as a node, too: the names of its nodes begin with the call's name. */
#include <fnmatch.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "exec/operators/operators.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/partition/place.h"

typedef struct {
    const char *node; /* the model's */
    void *context;
} Context;

struct Contexts {
    void (*release)(void *context);
    Context *of; /* [n], in the order of the calls */
    int n;
    struct hsearch_data by_name;
};

void contexts_free(Contexts *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        if (c->of[i].context && c->release)
            c->release(c->of[i].context);
    hdestroy_r(&c->by_name);
    free(c->of);
    free(c);
}

/* Makes room for the contexts of all nodes and calls of the model. */
static Contexts *replicate_create(const dpx_model *m, void (*release)(void *context))
{
    const size_t most = m->graph->n_node + (m->onnx ? (size_t)m->onnx->n_call : 0) + 1;
    Contexts *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->release = release;
    if (!(c->of = calloc(most, sizeof *c->of)) || !hcreate_r(most + most / 2, &c->by_name)) {
        free(c->of);
        free(c);
        return NULL;
    }
    return c;
}

/* ---- which nodes ---- */

static void replicate_add(Contexts *c, const char *node)
{
    Context *next = &c->of[c->n];
    ENTRY *entry;

    if (!hsearch_r((ENTRY){ (char *)(uintptr_t)node, next }, ENTER, &entry, &c->by_name) || entry->data != next)
        return; /* it is there; the table has room for all */
    next->node = node;
    c->n++;
}

static bool is_own(const dpx_model *m, const Node *n)
{
    for (int i = 0; i < m->n_operators; i++)
        for (int k = 0; k < m->operators[i]->list.n; k++)
            if (m->operators[i]->list.op[k] == n->op)
                return true;
    return false;
}

/* Lists the nodes and calls that match; a call comes before its nodes. */
static void list_nodes(Contexts *c, const dpx_model *m, const char *pattern)
{
    FOR_NODES(m->graph, n) {
        for (int i = 0; pattern && m->onnx && i < m->onnx->n_call; i++) {
            const char *call = m->onnx->call[i];
            const size_t length = strlen(call);

            if (!strncmp(n->name, call, length) && n->name[length] == '/' && !fnmatch(pattern, call, 0))
                replicate_add(c, call);
        }
        if (is_own(m, n) || (pattern && !fnmatch(pattern, n->name, 0)))
            replicate_add(c, n->name);
    }
}

/* ---- calls ---- */

/* The replicas of this process are [*first, *last). */
static Status find_copies(const dpx_trainer *t, int *first, int *last)
{
    const World *w = trainer_world(t);
    const int devices = t->devices / world_size(w);
    int64_t offset[MAX_REPLICAS + 1];
    ReplicaOptions replicas = *replica_options(&t->options->build);

    replicas.devices = t->devices;
    replicas.replicas = t->replicas;
    return batch_offsets(offset, first, last, &(BuildOptions){ .replicas = &replicas }, t->replicas,
                         world_rank(w) * devices, devices);
}

static Status replicate_report(Contexts *c, int first, int last, dpx_replicate_fn *replicate, void *user)
{
    for (int copy = first; copy < last; copy++)
        for (int i = 0; i < c->n; i++) {
            const dpx_status st = replicate(user, c->of[i].node, copy, &c->of[i].context);

            if (st > DPX_OK || st < DPX_INTERRUPTED)
                return FAIL(E_INTERNAL,
                            "the callback on replication returned %d at node '%s', copy %d, which is no dpx_status",
                            (int)st, c->of[i].node, copy);
            if (st)
                return FAIL((Status)st, "the callback on replication failed at node '%s', copy %d", c->of[i].node,
                            copy);
        }
    return ST_OK;
}

Status trainer_replicate(dpx_trainer *t, const Replication *r)
{
    int first, last;
    Contexts *c;

    if (!r->replicate)
        return ST_OK;
    if (t->stepped || t->contexts)
        return FAIL(E_INVALID, "a callback on replication is given once, before the first step");
    if (!(c = replicate_create(t->model, r->release)))
        return FAIL_NOMEM();
    t->contexts = c;
    if (t->replicas < 2)
        return ST_OK;
    list_nodes(c, t->model, r->pattern);
    TRY(find_copies(t, &first, &last));
    return replicate_report(c, first, last, r->replicate, r->user);
}

dpx_status dpx_trainer_on_replicate(dpx_trainer *t, const char *pattern, dpx_replicate_fn *replicate,
                                    void (*release)(void *context), void *user)
{
    NEED(t, "trainer");
    NEED(replicate, "replicate");
    return (dpx_status)trainer_replicate(t, &(Replication){ pattern, replicate, release, user });
}

dpx_status dpx_options_on_replicate(dpx_options *o, const char *pattern, dpx_replicate_fn *replicate,
                                    void (*release)(void *context), void *user)
{
    NEED(o, "options");
    NEED(replicate, "replicate");
    return (dpx_status)options_set_replication((Options *)o, &(Replication){ pattern, replicate, release, user });
}

void *dpx_trainer_context(const dpx_trainer *t, const char *node)
{
    struct hsearch_data table;
    ENTRY *found;

    if (!t || !t->contexts || !node)
        return NULL;
    table = t->contexts->by_name;
    return hsearch_r((ENTRY){ .key = (char *)(uintptr_t)node }, FIND, &found, &table)
               ? ((const Context *)found->data)->context
               : NULL;
}
