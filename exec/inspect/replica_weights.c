/* Weights of --split auto: measured rates, rounded to three binary digits (to an eighth or less), so that equal devices
 * get equal parts. */
#include "exec/inspect/replica_weights.h"

#include <math.h>

#include "exec/inspect/measure.h"
#include "exec/world/world.h"
#include "graph/base/numtext.h"
#include "passes/build_options.h"
#include "passes/options/replicas.h"
#include "passes/partition/place.h"

/* Measures the devices of this process and gathers those of all: weight[MAX_REPLICAS], relative to the fastest. */
static Status measure_all(double *weight, const DeviceList *list)
{
    const int size = world_size(list->world), first = world_rank(list->world) * list->n;
    double most = 0;

    for (int i = 0; i < list->n; i++)
        TRY(measure_flops(&weight[first + i], &list->device[i], DT_FLOAT32));
    world_set_purpose(list->world, "--split auto: the rates of devices");
    for (int r = 0; r < size && size > 1; r++)
        TRY(world_share(list->world, r, weight + r * list->n, (size_t)list->n * sizeof *weight));
    for (int i = 0; i < size * list->n; i++)
        most = fmax(most, weight[i]);
    for (int i = 0; i < size * list->n; i++) {
        int exponent;
        const double digits = frexp(weight[i] / most, &exponent);

        weight[i] = ldexp(round(8 * digits), exponent - 3);
    }
    return ST_OK;
}

Status split_decide(ReplicaOptions *b, double weight[MAX_REPLICAS], const DeviceList *list)
{
    const int devices = list->n * world_size(list->world);
    double rate[MAX_REPLICAS];
    ReplicaOptions all = *b;

    if (b->split != SPLIT_AUTO && b->split != SPLIT_WEIGHTS)
        return ST_OK;
    if (devices > MAX_DEVICES)
        return ST_OK; /* device_set_open refuses so many */
    all.devices = devices;
    if (b->split == SPLIT_AUTO) {
        TRY(measure_all(rate, list));
        all.split = SPLIT_WEIGHTS;
        all.weight = rate;
        all.n_weight = devices;
    }
    TRY(batch_weights(weight, &(BuildOptions){ .replicas = &all }));
    b->split = SPLIT_WEIGHTS;
    b->weight = weight;
    b->n_weight = b->replicas > 0 ? b->replicas : devices;
    return ST_OK;
}

const char *split_text(const ReplicaOptions *b, Arena *a)
{
    const char *text = "";
    char number[NUMBER_TEXT];

    for (int i = 0; text && i < b->n_weight; i++)
        text = arena_printf(a, "%s%s%s", text, i ? "," : "", text_float64(number, b->weight[i]));
    return text;
}
