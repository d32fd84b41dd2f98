/* Finds batch-norms in training that see one value per channel, whose variance does not exist, before the first step
 * and for an epoch's last batch too. */
#include "graph/ir/op.h"
#include "passes/options/batch.h"
#include "passes/options/step.h"
#include "passes/partition/place.h"
#include "passes/report.h"

/* *out: the first replica whose statistics are of one value per channel in a batch of so many samples; -1: none.
 * Statistics are merged over `group` replicas; each sample has `each` values per channel. */
static Status find_lonely(int *out, int64_t samples, int group, int64_t each, const Partition *p,
                          const BuildOptions *opt, Arena *a)
{
    const int n = p->replicas;
    int64_t *count = ARENA_NEW(a, int64_t, n), *offset = ARENA_NEW(a, int64_t, n);

    *out = -1;
    if (!count || !offset)
        return FAIL_NOMEM();
    if (samples)
        TRY(batch_divide(count, offset, samples, p, opt, a));
    for (int r = 0; r < n && *out < 0; r += group) {
        int64_t values = 0;

        for (int k = r; k < r + group && k < n; k++)
            values += count[k] * each;
        *out = values == 1 ? r : -1;
    }
    return ST_OK;
}

/* Suggests the nearest batch sizes below and above for which no replica has statistics of one value, in a full batch
 * and in the last one: "--batch-size 9 or 12". */
static Status suggest(char text[64], int64_t batch, int group, int64_t each, const Partition *p,
                      const BuildOptions *opt, Arena *a)
{
    int64_t found[2] = { 0, 0 };
    int full, last;

    for (int step = -1; step <= 1; step += 2)
        for (int64_t d = 1; d <= batch && d < 64 && !found[step > 0]; d++) {
            const int64_t size = batch + step * d;

            if (size < 1)
                continue;
            TRY(find_lonely(&full, size, group, each, p, opt, a));
            TRY(find_lonely(&last, batch_options(opt)->samples % size, group, each, p, opt, a));
            found[step > 0] = full < 0 && last < 0 ? size : 0;
        }
    snprintf(text, 64, found[0] && found[1] ? "--batch-size %lld or %lld" : "a --batch-size such as %lld",
             (long long)(found[0] ? found[0] : found[1]), (long long)found[1]);
    return ST_OK;
}

/* Checks node n, which merges the statistics of `group` replicas, in the full batch and in an epoch's shorter last one.
 * E_SHAPE if the whole batch has no variance, as in other systems; otherwise a note names the replica ("replica 2
 * has"). */
static Status check_layer(const Graph *g, const Node *n, int group, int64_t each, const Partition *p,
                          const BuildOptions *opt, Report *report, Arena *a)
{
    const BatchOptions *given = batch_options(opt);
    const int64_t batch = p->batch.total, rest = given->samples % batch;
    const bool all = group >= p->replicas, has_rest = batch == given->batch && given->samples > batch && rest;
    char when[64] = "", way[160], sizes[64], whose[48] = "the whole batch has";
    int replica;

    TRY(find_lonely(&replica, batch, group, each, p, opt, a));
    snprintf(way, sizeof way, "; use a larger --batch-size%s", all ? "" : " or fewer --replicas");
    if (replica < 0 && has_rest) {
        TRY(find_lonely(&replica, rest, group, each, p, opt, a));
        if (replica >= 0)
            TRY(suggest(sizes, batch, group, each, p, opt, a));
        snprintf(when, sizeof when, "in the last batch of an epoch, of %lld sample%s, ", (long long)rest,
                 rest > 1 ? "s" : "");
        snprintf(whose, sizeof whose, "there is");
        snprintf(way, sizeof way, "; use --drop-last, or %s", replica >= 0 ? sizes : "");
    }
    if (replica < 0)
        return ST_OK;
    if (!all)
        snprintf(whose, sizeof whose, "replica %d has", replica);
    if (all || step_options(opt)->in_force)
        return FAIL(E_SHAPE, "%s: %s%s one value per channel, whose variance does not exist%s", node_text(g, n), when,
                    whose, way);
    return report_note(report, NOTE_NUMBERS, n->name,
                       "%s%s one value per channel, whose variance is 0: the layer's output there is its bias alone%s; "
                       "--bn sync takes the values of all replicas",
                       when, whose, way);
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
        TRY(check_layer(g, n,
                        node_int(n, "group")  ? (int)node_int(n, "group")
                        : node_int(n, "sync") ? p->replicas
                                              : 1,
                        shape_numel(x) / x->dim[1] / batch, p, opt, report, a));
    }
    return ST_OK;
}
