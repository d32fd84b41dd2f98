/* Which replicas each device has, and how many samples of a batch each replica gets.  By weight a replica gets its
 * share rounded down, then those with the largest remainders get one more, the first replica first among equals.  So
 * the parts add up to the batch and depend on nothing but the weights.  Weight 0 gets no samples. */
#include <math.h>

#include "passes/options/replicas.h"
#include "passes/partition/place.h"

/* ---- which device has which replicas ---- */

Status partition_map(Partition *p, const BuildOptions *opt, Arena *a)
{
    const ReplicaOptions *replicas = replica_options(opt);
    int *device_of = ARENA_NEW(a, int, p->replicas), *first = ARENA_NEW(a, int, p->devices + 1);

    if (!device_of || !first)
        return FAIL_NOMEM();
    for (int r = 0; r < p->replicas; r++) {
        device_of[r] =
            replicas->device_of_replica ? replicas->device_of_replica[r] : (int)((int64_t)r * p->devices / p->replicas);
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

/* ---- parts ---- */

/* Sets each replica's weight; a device's weight is shared equally by its replicas. */
static Status weigh(double *weight, const Partition *p, const BuildOptions *opt)
{
    const ReplicaOptions *division = replica_options(opt);

    if (division->n_weight != p->replicas && division->n_weight != p->devices)
        return p->replicas == p->devices
                   ? FAIL(E_INVALID, "--split: expected a weight for each of %d devices, found %d", p->devices,
                          division->n_weight)
                   : FAIL(E_INVALID, "--split: expected a weight for each of %d devices or %d replicas, found %d",
                          p->devices, p->replicas, division->n_weight);
    for (int r = 0; r < p->replicas; r++) {
        const int d = p->device_of[r];

        weight[r] = division->n_weight == p->replicas
                        ? division->weight[r]
                        : division->weight[d] / (p->first_replica[d + 1] - p->first_replica[d]);
    }
    return ST_OK;
}

/* Divides n samples by largest remainder.  Few samples are left after rounding down, so the largest remainder is
 * searched again for each of them. */
static void divide_by_weight(int64_t *count, double *weight, int64_t n, int parts)
{
    int64_t left = n;
    double sum = 0;

    for (int r = 0; r < parts; r++)
        sum += weight[r];
    for (int r = 0; r < parts; r++) {
        const double due = (double)n * (weight[r] / sum);

        count[r] = (int64_t)floor(due);
        weight[r] = weight[r] > 0 ? due - floor(due) : -1;
        left -= count[r];
    }
    for (; left > 0; left--) {
        int most = 0;

        for (int r = 1; r < parts; r++)
            most = weight[r] > weight[most] ? r : most;
        count[most]++;
        weight[most] -= 1;
    }
}

static void divide_equally(int64_t *count, int64_t n, int parts, SplitMode mode)
{
    const int64_t chunk = (n + parts - 1) / parts;
    int64_t at = 0;

    for (int r = 0; r < parts; r++) {
        const int64_t want = mode == SPLIT_CHUNK ? chunk : n / parts + (r < n % parts);

        count[r] = want < n - at ? want : n - at;
        at += count[r];
    }
}

static Status divide_by_groups(int64_t *count, int64_t n, int parts, int64_t group)
{
    if (n > group * parts)
        return FAIL(E_INVALID, "%lld samples in groups of %lld: more groups than the %d replicas", (long long)n,
                    (long long)group, parts);
    for (int r = 0; r < parts; r++, n -= n < group ? n : group)
        count[r] = n < group ? n : group;
    return ST_OK;
}

Status batch_divide(int64_t *count, int64_t *offset, int64_t n, const Partition *p, const BuildOptions *opt, Arena *a)
{
    const ReplicaOptions *replicas = replica_options(opt);

    if (replicas->split == SPLIT_AUTO && p->replicas > 1 && !replicas->samples_each)
        return FAIL(E_INTERNAL, "--split auto: no device was measured");
    if (replicas->samples_each) {
        TRY(divide_by_groups(count, n, p->replicas, replicas->samples_each));
    } else if (replicas->split == SPLIT_WEIGHTS && p->replicas > 1) {
        double *weight = ARENA_NEW(a, double, p->replicas);

        if (!weight)
            return FAIL_NOMEM();
        TRY(weigh(weight, p, opt));
        divide_by_weight(count, weight, n, p->replicas);
    } else {
        divide_equally(count, n, p->replicas, replicas->split);
    }
    for (int r = 0; r < p->replicas; r++)
        offset[r] = r ? offset[r - 1] + count[r - 1] : 0;
    return ST_OK;
}

/* Fills a partition with only the devices and their replicas, by the options. */
static Status map_alone(Partition *out, const BuildOptions *opt, Arena *a)
{
    const ReplicaOptions *replicas = replica_options(opt);
    Partition p = { .devices = device_count(opt),
                    .replicas = replicas->replicas > 0 ? replicas->replicas : device_count(opt) };

    TRY(partition_map(&p, opt, a));
    *out = p;
    return ST_OK;
}

static Status find_offsets(int64_t *offset, int *first, int *last, const BuildOptions *opt, int64_t samples, int device,
                           int n, Arena *a)
{
    Partition p;
    int64_t *count;

    TRY(map_alone(&p, opt, a));
    if (!(count = ARENA_NEW(a, int64_t, p.replicas)))
        return FAIL_NOMEM();
    TRY(batch_divide(count, offset, samples, &p, opt, a));
    offset[p.replicas] = offset[p.replicas - 1] + count[p.replicas - 1];
    *first = p.first_replica[device];
    *last = p.first_replica[device + n];
    return ST_OK;
}

Status batch_offsets(int64_t *offset, int *first, int *last, const BuildOptions *opt, int64_t samples, int device,
                     int n)
{
    Arena *a = arena_create();
    Status st = a ? find_offsets(offset, first, last, opt, samples, device, n, a) : FAIL_NOMEM();

    arena_free(a);
    return st;
}

Status batch_part(int64_t *from, int64_t *to, const BuildOptions *opt, int64_t samples, int device, int n)
{
    int64_t offset[MAX_REPLICAS + 1];
    int first, last;

    TRY(batch_offsets(offset, &first, &last, opt, samples, device, n));
    *from = offset[first];
    *to = offset[last];
    return ST_OK;
}

Status batch_weights(double *weight, const BuildOptions *opt)
{
    Arena *a = arena_create();
    Partition p;
    Status st = a ? map_alone(&p, opt, a) : FAIL_NOMEM();

    if (!st)
        st = weigh(weight, &p, opt);
    arena_free(a);
    return st;
}
