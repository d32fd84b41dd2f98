/* Which inputs carry the batch, and how many samples each replica gets.
 *
 * An input carries the batch along the axis the user named; when none was named, along the axis that has the batch's
 * name (passes/batch_axis.h); when there is none such either, along axis 0 if that has the batch size.  The target,
 * which no exporter named, carries it where the scores do, as the criterion says, else follows the last rule.  Only
 * such inputs are split: a table or a mask without a batch axis goes to every device in full. */
#include <string.h>

#include "passes/batch_axis.h"
#include "passes/partition/place.h"
#include "passes/report.h"

static int given_axis(const Value *v, const BuildOptions *opt, const char *symbol)
{
    return opt->n_batch_input ? named_batch_axis(opt, v->name) : symbol_axis(v->dim_param, v->shape->rank, symbol);
}

static bool is_target(const Value *v, const BuildOptions *opt)
{
    return !strcmp(v->name, opt->target ? opt->target : "target");
}

static Status check_named(const Graph *g, const BuildOptions *opt)
{
    for (int i = 0; i < opt->n_batch_input; i++) {
        ValueId v = graph_find(g, opt->batch_input[i].name);
        int rank, axis = opt->batch_input[i].axis;

        if (!has_value(v) || value(g, v)->kind != V_INPUT)
            return FAIL(E_INVALID, "batch input '%s': the model has no such input", opt->batch_input[i].name);
        rank = value(g, v)->shape->rank;
        if (axis < 0 || axis >= rank)
            return FAIL(E_INVALID, "batch input '%s': axis %d of rank %d", opt->batch_input[i].name, axis, rank);
    }
    return ST_OK;
}

/* The batch size: of the first input that is known to carry it, else axis 0 of the first input that has axes. */
static Status find_batch(int64_t *batch, bool *known, const Graph *g, const BuildOptions *opt, const char *symbol)
{
    char text[SHAPE_TEXT];

    *known = false;
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        int axis = given_axis(v, opt, symbol);

        if (axis < 0)
            continue;
        if (*known && v->shape->dim[axis] != *batch)
            return FAIL(E_INVALID, "input '%s' has shape %s: its axis %d was expected to have the batch size %lld",
                        v->name, shape_text(v->shape, text), axis, (long long)*batch);
        *batch = v->shape->dim[axis];
        *known = true;
    }
    for (int i = 0; i < g->n_input && !*known; i++) {
        const Value *v = value(g, g->input[i]);

        if (v->shape->rank < 1 || (opt->batch && v->shape->dim[0] != opt->batch))
            continue;
        *batch = v->shape->dim[0];
        *known = true;
    }
    return ST_OK;
}

static Status choose_axes(int *batch_axis, int64_t *batch, const Graph *g, const BuildOptions *opt, Report *report)
{
    const char *symbol = opt->n_batch_input ? NULL : find_batch_dim(g, opt).symbol;
    bool known, by_size = !opt->n_batch_input && !symbol;

    *batch = 0;
    TRY(check_named(g, opt));
    TRY(find_batch(batch, &known, g, opt, symbol));
    for (uint32_t i = 0; i < g->n_value; i++)
        batch_axis[i] = -1;
    for (int i = 0; i < g->n_input && known; i++) {
        const Value *v = value(g, g->input[i]);
        int axis = given_axis(v, opt, symbol);

        if (axis < 0 && is_target(v, opt) && (axis = marked_batch_axis(g, opt, v)) >= 0 &&
            v->shape->dim[axis] != *batch)
            axis = -1;
        if (axis < 0 && (by_size || is_target(v, opt)) && v->shape->rank > 0 && v->shape->dim[0] == *batch)
            axis = 0;
        batch_axis[g->input[i].i] = axis;
        if (axis >= 0)
            TRY(report_note(report, NOTE_INPUT, v->name, "split along axis %d (%s)", axis,
                            opt->n_batch_input                          ? "as told"
                            : symbol && given_axis(v, opt, symbol) >= 0 ? symbol
                                                                        : "it has the batch size"));
        else
            TRY(report_note(report, NOTE_INPUT, v->name, "given to every device in full"));
    }
    return ST_OK;
}

static void share(int64_t *count, int64_t *offset, int64_t n, int parts, SplitMode mode)
{
    int64_t chunk = (n + parts - 1) / parts, at = 0;

    for (int r = 0; r < parts; r++) {
        int64_t want = mode == SPLIT_CHUNK ? chunk : n / parts + (r < n % parts);

        offset[r] = at;
        count[r] = want < n - at ? want : n - at;
        at += count[r];
    }
}

static Status map_devices(Partition *p, const BuildOptions *opt, Arena *a)
{
    int *device_of = ARENA_NEW(a, int, p->replicas), *first = ARENA_NEW(a, int, p->devices + 1);

    if (!device_of || !first)
        return FAIL_NOMEM();
    for (int r = 0; r < p->replicas; r++) {
        device_of[r] =
            opt->device_of_replica ? opt->device_of_replica[r] : (int)((int64_t)r * p->devices / p->replicas);
        if (device_of[r] < (r ? device_of[r - 1] : 0) || device_of[r] >= p->devices)
            return FAIL(E_INVALID, "replica %d is on device %d: expected non-decreasing numbers below %d", r,
                        device_of[r], p->devices);
        first[device_of[r] + 1] = r + 1;
    }
    for (int d = 1; d <= p->devices; d++) {
        if (first[d] <= first[d - 1])
            return FAIL(E_INVALID, "device %d has no replica", d - 1);
    }
    p->device_of = device_of;
    p->first_replica = first;
    return ST_OK;
}

/* Are the parts of the replicas of devices a and b as large, one by one? */
static bool alike(const Partition *p, int a, int b)
{
    const int n = p->first_replica[a + 1] - p->first_replica[a];

    return n == p->first_replica[b + 1] - p->first_replica[b] &&
           !memcmp(p->batch.count + p->first_replica[a], p->batch.count + p->first_replica[b],
                   (size_t)n * sizeof *p->batch.count);
}

/* The devices that stand for all: the first, which also holds what one device has for all, and the first of each class
 * of devices that compute as much.  Which sums over its own replicas a device makes goes by the tree over all
 * replicas: equal devices make equal ones when each has the same power of two of replicas. */
static Status choose_shown(Partition *p, const BuildOptions *opt, Arena *a)
{
    const int n = p->devices, each = p->replicas / n;
    int *like = ARENA_NEW(a, int, n), *shown = ARENA_NEW(a, int, n + 1), list[REPRESENTATIVES + 1] = { 0 };

    if (!like || !shown)
        return FAIL_NOMEM();
    if (opt->world && (p->replicas % n || each & (each - 1) || opt->device_of_replica))
        return FAIL(E_INVALID,
                    "%d replicas on %d devices: expected 1, 2, 4, 8 ... on each where one device stands for "
                    "many",
                    p->replicas, n);
    for (int d = 0; d < n; d++) {
        int i = d > 0;

        while (opt->world && i < shown[d] && !alike(p, list[i], d))
            i++;
        like[d] = opt->world && i < shown[d] ? list[i] : d;
        shown[d + 1] = shown[d] + (like[d] == d);
        if (opt->world && shown[d + 1] > REPRESENTATIVES)
            return FAIL(E_INTERNAL, "more than %d kinds of devices", REPRESENTATIVES);
        if (opt->world && like[d] == d)
            list[shown[d]] = d;
    }
    p->like = like;
    p->shown = shown;
    return ST_OK;
}

Status partition_decide(Partition *out, const Graph *g, const BuildOptions *opt, Arena *a, Report *report)
{
    Partition p = { .devices = opt->world ? opt->world : device_count(opt) };
    int *axis = ARENA_NEW(a, int, g->n_value);
    int64_t *count, *offset;

    p.replicas = opt->replicas > 0 ? opt->replicas : p.devices;
    if (p.replicas < p.devices)
        return FAIL(E_INVALID, "%d replicas on %d devices: every device needs one", p.replicas, p.devices);
    count = ARENA_NEW(a, int64_t, p.replicas);
    offset = ARENA_NEW(a, int64_t, p.replicas);
    if (!axis || !count || !offset)
        return FAIL_NOMEM();
    TRY(choose_axes(axis, &p.batch.total, g, opt, report));
    share(count, offset, p.batch.total, p.replicas, opt->split);
    p.batch_axis = axis;
    p.batch.n = p.replicas;
    p.batch.count = count;
    p.batch.offset = offset;
    TRY(map_devices(&p, opt, a));
    TRY(choose_shown(&p, opt, a));
    TRY(shard_states(&p, g, opt, a, report));
    *out = p;
    return report_division(report, p.replicas, p.batch.count, p.batch.total);
}

Status batch_part(int64_t *from, int64_t *to, const BuildOptions *opt, int64_t samples, int first, int n)
{
    Partition p = { .devices = device_count(opt), .replicas = opt->replicas > 0 ? opt->replicas : device_count(opt) };
    Arena *a = arena_create();
    int64_t *count = a ? ARENA_NEW(a, int64_t, p.replicas) : NULL,
            *offset = a ? ARENA_NEW(a, int64_t, p.replicas) : NULL;
    Status st = count && offset ? map_devices(&p, opt, a) : FAIL_NOMEM();

    if (!st) {
        share(count, offset, samples, p.replicas, opt->split);
        *from = offset[p.first_replica[first]];
        *to = offset[p.first_replica[first + n] - 1] + count[p.first_replica[first + n] - 1];
    }
    if (a)
        arena_free(a);
    return st;
}
