/* --batch-size auto[:SHARE]: the largest power of two of samples whose planned step needs at most SHARE of the free
 * memory, and no more samples than the data has.  All processes take the smallest size that one of them finds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/training/training.h"

static const double SHARE = 0.5;                 /* the rest is for data, evaluation and other programs */
static const int64_t LARGEST = INT64_C(1) << 29; /* below the 1e9 of --batch-size */

bool batch_is_auto(const Args *a)
{
    const char *given = args_value(a, "batch-size");

    return given && args_is_auto("batch-size", given);
}

/* Reads SHARE of auto:SHARE. */
static Status read_share(double *out, const Args *a)
{
    const char *text = args_value(a, "batch-size") + strlen("auto");

    *out = SHARE;
    return *text && (*text != ':' || !text_to_float64(out, text + 1, strlen(text + 1)) || !(*out > 0 && *out <= 1))
               ? FAIL(E_INVALID, "--batch-size auto%s: expected auto or auto:SHARE with SHARE above 0 and at most 1",
                      text)
               : ST_OK;
}

Status batch_check_auto(const Args *a)
{
    double share;

    if (!batch_is_auto(a))
        return ST_OK;
    TRY(read_share(&share, a));
    if (args_has(a, "dry-run"))
        return FAIL(E_INVALID, "--batch-size auto needs the data, which --dry-run does not read: give a number");
    return strpbrk(dpx_options_get(a->options, "split"), "0123456789")
               ? FAIL(E_INVALID, "--batch-size auto: --split by weights goes with a number")
               : ST_OK;
}

/* Options for this process's part of a batch, as if it were alone. */
static Status alone(dpx_options **out, const Run *r, int64_t batch)
{
    const int64_t replicas = strtoll(dpx_options_get(r->args->options, "replicas"), NULL, 10), n = r->world.size;
    char number[32];
    Status st;

    TRY((Status)dpx_options_copy(out, r->args->options));
    dpx_options_set_world(*out, NULL);
    snprintf(number, sizeof number, "%" PRId64, (batch + n - 1) / n);
    st = (Status)dpx_options_set(*out, "batch-size", number);
    snprintf(number, sizeof number, "%" PRId64, (replicas + n - 1) / n);
    if (!st && replicas && n > 1)
        st = (Status)dpx_options_set(*out, "replicas", number);
    if (st)
        dpx_options_free(*out);
    return st;
}

/* Whether a step of so many samples needs at most `share` of the free memory of each device. */
static Status fits(bool *out, Run *r, int64_t batch, double share)
{
    dpx_plan_memory_result needs = { 0 };
    Args as = *r->args;
    const int64_t part = (batch + r->world.size - 1) / r->world.size;
    Status st;

    TRY(alone(&as.options, r, batch));
    st = feed_target_shape(&as, &r->train, part);
    if (!st)
        st = feed_input_shapes(&as, &r->train, part);
    if (!st)
        st = (Status)dpx_plan_memory(&needs, r->model, as.options);
    dpx_options_free(as.options);
    *out = needs.accelerator <= share && needs.host * dpx_world_neighbours(r->world.world) <= share;
    return st;
}

/* Takes the number from the checkpoint that the run resumes from; 0: there is none. */
static int64_t stored_batch(const Args *a)
{
    char *text = args_has(a, "resume") ? note_find(args_value(a, "resume"), "batch_size") : NULL;
    const int64_t n = text ? strtoll(text, NULL, 10) : 0;

    free(text);
    return n;
}

/* The exponent of the largest power of two that fits; the smallest has a sample for each replica. */
static Status search(int *out, Run *r)
{
    const int64_t replicas = strtoll(dpx_options_get(r->args->options, "replicas"), NULL, 10),
                  least = replicas > r->world.size ? replicas : r->world.size, samples = r->train.data->samples;
    double share;
    bool fit;
    int k = 0;

    TRY(read_share(&share, r->args));
    while ((INT64_C(1) << k) < least)
        k++;
    TRY(fits(&fit, r, INT64_C(1) << k, share));
    if (!fit)
        return FAIL(E_NOMEM, "--batch-size auto: a step of %" PRId64 " samples needs more than %g of the free memory",
                    INT64_C(1) << k, share);
    for (*out = k; (INT64_C(2) << k) <= LARGEST && (INT64_C(2) << k) <= samples; *out = ++k) {
        TRY(fits(&fit, r, INT64_C(2) << k, share));
        if (!fit)
            break;
    }
    return ST_OK;
}

Status batch_choose(Run *r, Progress *log)
{
    const Args *a = r->args;
    int64_t batch = stored_batch(a);
    int k = 0;
    char *number;

    if (!batch) {
        TRY(search(&k, r));
        tool_set_purpose(&r->world, "the batch size that fits all processes");
        k = -k;
        TRY(world_most(&k, &r->world, k));
        batch = INT64_C(1) << -k;
    }
    if (asprintf(&number, "%" PRId64, batch) < 0)
        return FAIL_NOMEM();
    r->batch_text = number; /* args.json has it */
    args_replace(a, "batch-size", number);
    TRY((Status)dpx_options_set(a->options, "batch-size", number));
    if (log)
        progress_line(log, "batch-size auto: %" PRId64, batch);
    return ST_OK;
}
