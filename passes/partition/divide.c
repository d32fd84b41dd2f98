/* Which inputs carry the batch, and how many samples each replica gets.
 *
 * An input carries the batch along the axis the user named; if none was named, along the axis that has the batch's name
 * (passes/batch_axis.h); without such a name, along axis 0 if that has the batch size.  The target, which no exporter
 * named, carries it along the scores' axis if the criterion marked that, or else follows the last rule.  Only such
 * inputs are split: a table or a mask without a batch axis goes to every device in full. */
#include <string.h>

#include "passes/batch_axis.h"
#include "passes/options/batch.h"
#include "passes/options/collectives.h"
#include "passes/options/outputs.h"
#include "passes/options/replicas.h"
#include "passes/options/target.h"
#include "passes/partition/place.h"
#include "passes/report.h"

static int given_axis(const Graph *g, const Value *v, const BuildOptions *opt, const char *symbol)
{
    unsigned axes;

    return known_batch_axes(&axes, g, opt, v) ? only_axis(axes) : symbol_axis(v->dim_param, v->shape->rank, symbol);
}

static bool is_target(const Value *v, const BuildOptions *opt) { return !strcmp(v->name, target_name(opt)); }

static Status check_named(const Graph *g, const BuildOptions *opt)
{
    const BatchOptions *given = batch_options(opt);

    for (int i = 0; i < given->n_batch_input; i++) {
        const BatchInput *b = &given->batch_input[i];
        bool any = false;

        for (int k = 0; k < g->n_input; k++) {
            const Value *v = value(g, g->input[k]);

            if (!batch_input_names(b, v))
                continue;
            any = true;
            if (axis_of_rank(b->axis, v->shape->rank) < 0 && (v->shape->rank || !strcmp(b->name, v->name)))
                return FAIL(E_INVALID, "--batch-input %s:%d: the input has rank %d", v->name, b->axis, v->shape->rank);
        }
        if (!any)
            return FAIL(E_INVALID, "--batch-input %s: the model has no such input", b->name);
    }
    return ST_OK;
}

/* The batch size: that of the first input known to carry the batch, or axis 0 of the first input that has axes. */
static Status find_batch(int64_t *batch, bool *known, const Graph *g, const BuildOptions *opt, const char *symbol)
{
    const BatchOptions *given = batch_options(opt);
    char text[SHAPE_TEXT];

    *known = false;
    for (int i = 0; i < g->n_input; i++) {
        const Value *v = value(g, g->input[i]);
        int axis = given_axis(g, v, opt, symbol);

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

        if (v->shape->rank < 1 || (given->batch && v->shape->dim[0] != given->batch))
            continue;
        *batch = v->shape->dim[0];
        *known = true;
    }
    return ST_OK;
}

static Status choose_axes(int *batch_axis, int64_t *batch, const Graph *g, const BuildOptions *opt, Report *report)
{
    const BatchOptions *o = batch_options(opt);
    const char *symbol = o->n_batch_input ? NULL : find_batch_dim(g, opt).symbol;
    bool known, by_size = !o->n_batch_input && !symbol && g->batch_found != BATCH_FOUND;

    *batch = 0;
    TRY(check_named(g, opt));
    TRY(find_batch(batch, &known, g, opt, symbol));
    for (uint32_t i = 0; i < g->n_value; i++)
        batch_axis[i] = -1;
    for (int i = 0; i < g->n_input && known; i++) {
        const Value *v = value(g, g->input[i]);
        int axis = given_axis(g, v, opt, symbol);

        if (axis < 0 && is_target(v, opt) && (axis = marked_batch_axis(g, opt, v)) >= 0 &&
            v->shape->dim[axis] != *batch)
            axis = -1;
        if (axis < 0 && (by_size || is_target(v, opt)) && v->shape->rank > 0 && v->shape->dim[0] == *batch)
            axis = 0;
        batch_axis[g->input[i].i] = axis;
        if (axis >= 0)
            TRY(report_note(report, NOTE_INPUT, v->name, "split along axis %d (%s)", axis,
                            o->n_batch_input                     ? "by --batch-input"
                            : v->dim_param && v->dim_param[axis] ? v->dim_param[axis]
                            : given_axis(g, v, opt, symbol) >= 0 ? "found in the model"
                                                                 : "it has the batch size"));
        else
            TRY(report_note(report, NOTE_INPUT, v->name, "replicated: every device gets all of it"));
    }
    return ST_OK;
}

/* Are the parts of the replicas of devices a and b equally large, one by one? */
static bool same_parts(const Partition *p, int a, int b)
{
    const int n = p->first_replica[a + 1] - p->first_replica[a];

    return n == p->first_replica[b + 1] - p->first_replica[b] &&
           !memcmp(p->batch.count + p->first_replica[a], p->batch.count + p->first_replica[b],
                   (size_t)n * sizeof *p->batch.count);
}

/* Chooses the devices that stand for all: the first, which also holds values that only one device has, and the first of
 * each class of devices with equal parts.  The tree over all replicas decides which sums over its own replicas a device
 * makes: equal devices make equal sums if each has the same power of two of replicas. */
static Status choose_shown(Partition *p, const BuildOptions *opt, Arena *a)
{
    const ReplicaOptions *division = replica_options(opt);
    const int n = p->devices, each = p->replicas / n;
    int *like = ARENA_NEW(a, int, n), *shown = ARENA_NEW(a, int, n + 1), list[REPRESENTATIVES + 1] = { 0 };

    if (!like || !shown)
        return FAIL_NOMEM();
    if (division->world && (p->replicas % n || each & (each - 1) || division->device_of_replica))
        return FAIL(E_INVALID,
                    "%d replicas on %d devices: expected 1, 2, 4, 8 ... replicas on each device, where one device "
                    "stands for many",
                    p->replicas, n);
    for (int d = 0; d < n; d++) {
        int i = d > 0;

        while (division->world && i < shown[d] && !same_parts(p, list[i], d))
            i++;
        like[d] = division->world && i < shown[d] ? list[i] : d;
        shown[d + 1] = shown[d] + (like[d] == d);
        if (division->world && shown[d + 1] > REPRESENTATIVES)
            return FAIL(E_INTERNAL, "more than %d kinds of devices", REPRESENTATIVES);
        if (division->world && like[d] == d)
            list[shown[d]] = d;
    }
    p->like = like;
    p->shown = shown;
    return ST_OK;
}

Status partition_decide(Partition *out, const Graph *g, const BuildOptions *opt, Arena *a, Report *report)
{
    const OutputOptions *o = output_options(opt);
    const CollectiveOptions *collectives = collective_options(opt);
    const ReplicaOptions *replicas = replica_options(opt);
    Partition p = { .devices = replicas->world ? replicas->world : device_count(opt) };
    int *axis = ARENA_NEW(a, int, g->n_value);
    int64_t *count, *offset;

    p.replicas = replicas->replicas > 0 ? replicas->replicas : p.devices;
    if (p.replicas < p.devices)
        return FAIL(E_INVALID, "%d replica%s on %d devices: every device needs one", p.replicas,
                    p.replicas == 1 ? "" : "s", p.devices);
    count = ARENA_NEW(a, int64_t, p.replicas);
    offset = ARENA_NEW(a, int64_t, p.replicas);
    if (!axis || !count || !offset)
        return FAIL_NOMEM();
    TRY(choose_axes(axis, &p.batch.total, g, opt, report));
    TRY(partition_map(&p, opt, a));
    TRY(batch_divide(count, offset, p.batch.total, &p, opt, a));
    p.batch_axis = axis;
    p.batch.n = p.replicas;
    p.batch.count = count;
    p.batch.offset = offset;
    if (o->output_device >= p.devices)
        return FAIL(E_INVALID, "--output-device %d: expected one of %d device%s, counted from 0, or host",
                    o->output_device, p.devices, p.devices == 1 ? "" : "s");
    p.output_device = o->output_device;
    p.loss_device =
        o->loss_gathered && !target_options(opt)->mean_of_means && build_mode(opt) >= BUILD_EVAL ? p.output_device : -1;
    p.outputs_apart = o->outputs_apart && build_mode(opt) < BUILD_TRAIN;
    p.mix = p.outputs_apart || (collectives->mix == MIX_AUTO && build_target(opt)->accelerator) ? MIX_GATHER
                                                                                                : collectives->mix;
    TRY(choose_shown(&p, opt, a));
    TRY(shard_states(&p, g, opt, a, report));
    if (o->loss_gathered && build_target(opt)->accelerator)
        return FAIL(E_INVALID, "--loss-at outputs is for CPU devices, found accelerators");
    *out = p;
    return report_division(report, p.replicas, p.batch.count, p.batch.total);
}
