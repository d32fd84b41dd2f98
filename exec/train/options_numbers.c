/* Options that are a word, a file or numbers in a row. */
#include "exec/train/options_numbers.h"

#include <math.h>
#include <string.h>

#include "exec/train/options_store.h"
#include "graph/base/numtext.h"
#include "passes/options/collectives.h"
#include "passes/options/memory.h"
#include "passes/options/outputs.h"
#include "passes/options/replicas.h"
#include "passes/options/target.h"

/* A word, or "W1,W2,...". */
Status options_set_split(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    static const Setting words = { .name = "split", .choices = "balanced|chunk" };
    double *weight, sum = 0;
    const char *at = value;
    int n = 1, word = SPLIT_AUTO;

    if (!strcmp(value, "auto") || !setting_read_choice(&word, &words, value)) {
        stored_replicas(o)->split = (SplitMode)word;
        return ST_OK;
    }
    for (const char *s = value; (s = strchr(s, ',')); s++)
        n++;
    if (!(weight = ARENA_NEW(o->arena, double, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++, at += strcspn(at, ",") + 1) {
        if (!text_to_float64(&weight[i], at, strcspn(at, ",")) || !(weight[i] >= 0 && weight[i] <= SETTING_COUNT_MAX))
            return setting_bad(r, value, "balanced, chunk, auto or weights W1,W2,... from 0 to 1e+15");
        sum += weight[i];
    }
    if (!(sum > 0))
        return setting_bad(r, value, "a weight above 0");
    stored_replicas(o)->split = SPLIT_WEIGHTS;
    stored_replicas(o)->weight = weight;
    stored_replicas(o)->n_weight = n;
    return ST_OK;
}

/* "N,N,...": how many numbers the text is, of which v gets four; 0: it is something else. */
static int options_numbers_read_numbers(double v[4], const char *value)
{
    const char *at = value;
    double x;
    int n = 0;

    for (;; at++) {
        const size_t len = strcspn(at, ",");

        if (!text_to_float64(&x, at, len))
            return 0;
        if (n < 4)
            v[n] = x;
        n++;
        if (!*(at += len))
            return n;
    }
}

/* A file; or, of one that was read, what sums cost: "SECONDS,SECONDS_PER_BYTE,FLOPS,0 or 1". */
Status options_set_links(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    SumCost *cost = ARENA_NEW(o->arena, SumCost, 1);
    double v[4] = { 0 };
    const int n = options_numbers_read_numbers(v, value);
    const bool costs =
        n == 4 && v[0] >= 0 && v[1] >= 0 && v[2] > 0 && isfinite(v[0] + v[1] + v[2]) && (v[3] == 0 || v[3] == 1);

    if (!cost)
        return FAIL_NOMEM();
    if (!*value || (n && !costs))
        return setting_bad(r, value, "a file, auto, or SECONDS,SECONDS_PER_BYTE,FLOPS,0|1 as a checkpoint has it");
    *cost = (SumCost){ v[0], v[1], v[2], v[3] != 0 };
    stored_collectives(o)->sum_cost = costs ? cost : NULL;
    if (!costs && !(o->links = arena_strdup(o->arena, value)))
        return FAIL_NOMEM();
    return ST_OK;
}

Status options_set_bucket(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "bucket-mb", .min = 0, .above_min = true, .max = 1e6 };
    Options *o = to;
    double mib;

    if (setting_read_real(&mib, &number, value))
        return setting_bad(r, value, "a number above 0 and at most 1000000");
    stored_collectives(o)->bucket_bytes = mib * (1 << 20) < 1 ? 1 : (int64_t)(mib * (1 << 20));
    return ST_OK;
}

Status options_set_chunk_loss(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "chunk-loss", .min = 1, .max = SETTING_COUNT_MAX };
    Options *o = to;
    int64_t rows = 0;

    if (!strcmp(value, "auto"))
        rows = -1;
    else if (strcmp(value, "off") != 0 && setting_read_int(&rows, &number, value))
        return setting_bad(r, value, "auto, off, or a number of rows above 0");
    stored_memory(o)->chunk_rows = rows;
    return ST_OK;
}

/* --output-device: a device; the host, which gets outputs from the first device; each: outputs are not put together. */
Status options_set_output_device(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "output-device", .min = 0, .max = MAX_DEVICES - 1 };
    const bool host = !strcmp(value, "host") || !strcmp(value, "cpu") || !strcmp(value, "-1");
    const bool each = !strcmp(value, "each");
    Options *o = to;
    int64_t device = 0;

    if (!host && !each && setting_read_int(&device, &number, value))
        return setting_bad(r, value, "the number of a device, counted from 0, host, or each");
    stored_outputs(o)->output_device = (int)device;
    stored_outputs(o)->outputs_apart = each;
    return ST_OK;
}

Status options_set_output_axis(const Setting *r, void *to, const char *value)
{
    static const Setting number = { .name = "output-axis", .min = -MAX_RANK, .max = MAX_RANK - 1 };
    Options *o = to;
    int64_t axis = 0;

    if (!strcmp(value, "placed"))
        stored_outputs(o)->join = JOIN_PLACED;
    else if (!strcmp(value, "inputs"))
        stored_outputs(o)->join = JOIN_INPUTS;
    else if (setting_read_int(&axis, &number, value))
        return setting_bad(r, value, "placed, inputs, or the number of an axis");
    else
        stored_outputs(o)->join = JOIN_AXIS;
    stored_outputs(o)->join_axis = (int)axis;
    return ST_OK;
}

/* "sum", or an output's name; "output:sum" is the output of that name. */
Status options_set_loss_weight(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    const bool named = !strncmp(value, "output:", 7) && value[7];

    if (!*value)
        return setting_bad(r, value, "the name of an output, or sum");
    stored_target(o)->loss_is_sum = !strcmp(value, "sum");
    stored_target(o)->loss_weight = NULL;
    if (!target_options(&o->build)->loss_is_sum &&
        !(stored_target(o)->loss_weight = arena_strdup(o->arena, named ? value + 7 : value)))
        return FAIL_NOMEM();
    return ST_OK;
}

Status options_set_class_axis(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    int64_t axis;

    TRY(setting_read_int(&axis, r, value));
    if (!axis)
        return setting_bad(r, value, "an axis from 1 on, or -1 for the last");
    stored_target(o)->class_axis = (int)axis;
    return ST_OK;
}
