/* Finds batch-norms in training that see one value per channel, whose variance does not exist, before the first step
 * and for an epoch's last batch too. */
#include "graph/ir/op.h"
#include "passes/options/batch.h"
#include "passes/options/step.h"
#include "passes/partition/place.h"
#include "passes/report.h"

typedef struct {
    const Graph *g;
    const BuildOptions *opt;
    const Partition *p;
    Arena *arena;
    const Node *n; /* merges statistics of replicas */
    int group;     /* replicas that have statistics in common */
    int64_t each;  /* values per channel of one sample */
} Layer;

/* The first replica whose statistics are of one value in a batch of so many samples; -1: none. */
static Status find_lonely(int *out, const Layer *l, int64_t samples)
{
    const int n = l->p->replicas;
    int64_t *count = ARENA_NEW(l->arena, int64_t, n), *offset = ARENA_NEW(l->arena, int64_t, n);

    *out = -1;
    if (!count || !offset)
        return FAIL_NOMEM();
    if (samples)
        TRY(batch_divide(count, offset, samples, l->p, l->opt, l->arena));
    for (int r = 0; r < n && *out < 0; r += l->group) {
        int64_t values = 0;

        for (int k = r; k < r + l->group && k < n; k++)
            values += count[k] * l->each;
        *out = values == 1 ? r : -1;
    }
    return ST_OK;
}

/* Has no replica statistics of one value, in a full batch and in the last one? */
static Status one_value_fits(bool *out, const Layer *l, int64_t batch)
{
    int full = -1, last = -1;

    *out = false;
    if (batch < 1)
        return ST_OK;
    TRY(find_lonely(&full, l, batch));
    TRY(find_lonely(&last, l, batch_options(l->opt)->samples % batch));
    *out = full < 0 && last < 0;
    return ST_OK;
}

/* Suggests the nearest fitting batch sizes below and above: "--batch-size 9 or 12". */
static Status suggest(char text[64], const Layer *l, int64_t batch)
{
    int64_t found[2] = { 0, 0 };
    bool good;

    for (int up = 0; up < 2; up++)
        for (int64_t d = 1; d <= batch && d < 64 && !found[up]; d++) {
            TRY(one_value_fits(&good, l, up ? batch + d : batch - d));
            found[up] = good ? (up ? batch + d : batch - d) : 0;
        }
    snprintf(text, 64, found[0] && found[1] ? "--batch-size %lld or %lld" : "a --batch-size such as %lld",
             (long long)(found[0] ? found[0] : found[1]), (long long)found[1]);
    return ST_OK;
}

/* E_SHAPE if the whole batch has no variance, as in other systems; otherwise a note names the replica ("replica 2
 * has"). */
static Status one_value_tell(const Layer *l, Report *report, int replica, const char *when, const char *way)
{
    const bool all = l->group >= l->p->replicas;
    char whose[48] = "the whole batch has";

    if (!all)
        snprintf(whose, sizeof whose, "replica %d has", replica);
    else if (*when)
        snprintf(whose, sizeof whose, "there is");
    if (all || step_options(l->opt)->in_force)
        return FAIL(E_SHAPE, "%s: %s%s one value per channel, whose variance does not exist%s", node_text(l->g, l->n),
                    when, whose, way);
    return report_note(report, NOTE_NUMBERS, l->n->name,
                       "%s%s one value per channel, whose variance is 0: the layer's output there is its bias alone%s; "
                       "--bn sync takes the values of all replicas",
                       when, whose, way);
}

static Status check_layer(const Layer *l, Report *report)
{
    const BatchOptions *given = batch_options(l->opt);
    const int64_t batch = l->p->batch.total, last = given->samples % batch;
    char when[64], way[160], sizes[64];
    int replica;

    TRY(find_lonely(&replica, l, batch));
    if (replica >= 0)
        return one_value_tell(l, report, replica, "",
                              l->group >= l->p->replicas ? "; use a larger --batch-size"
                                                         : "; use a larger --batch-size or fewer --replicas");
    if (batch != given->batch || given->samples <= batch || !last) /* there is no shorter last batch */
        return ST_OK;
    TRY(find_lonely(&replica, l, last));
    if (replica < 0)
        return ST_OK;
    TRY(suggest(sizes, l, batch));
    snprintf(when, sizeof when, "in the last batch of an epoch, of %lld sample%s, ", (long long)last,
             last > 1 ? "s" : "");
    snprintf(way, sizeof way, "; use --drop-last, or %s", sizes);
    return one_value_tell(l, report, replica, when, way);
}

Status check_statistics(const Graph *g, const Partition *p, const BuildOptions *opt, Report *report, Arena *a)
{
    FOR_NODES(g, n) {
        const bool merges = n->op->flags & OPF_STACKS_L && node_attr(n, "sync") && node_attr(n, "group");
        const Node *stats = merges ? in_value(g, n, 0)->producer : NULL;
        const Shape *x = stats && stats->n_in == 1 ? in_value(g, stats, 0)->shape : NULL;
        const int64_t batch = p->batch.total;

        if (!x || !shape_known(x) || x->rank < 2 || !batch || !x->dim[1] || shape_numel(x) / x->dim[1] % batch)
            continue;
        TRY(check_layer(&(Layer){ g, opt, p, a, n,
                                  node_int(n, "group")  ? (int)node_int(n, "group")
                                  : node_int(n, "sync") ? p->replicas
                                                        : 1,
                                  shape_numel(x) / x->dim[1] / batch },
                        report));
    }
    return ST_OK;
}
