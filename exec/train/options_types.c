/* The types that a run computes in, and the scale that the narrowest of them needs. */
#include "exec/train/options_types.h"

#include <string.h>

#include "exec/train/options_store.h"
#include "passes/options/backend.h"
#include "passes/options/collectives.h"
#include "passes/options/types.h"

Status options_set_dtype(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    DType t = dtype_parse(value);

    if (t != DT_FLOAT32 && t != DT_FLOAT64)
        return setting_bad(r, value, "float32 or float64");
    stored_types(o)->dtype = t;
    return ST_OK;
}

Status options_set_reduce_dtype(const Setting *r, void *to, const char *value)
{
    const bool bf16 = !strcmp(value, "bf16") || !strcmp(value, "bfloat16"),
               fp16 = !strcmp(value, "fp16") || !strcmp(value, "float16");
    Options *o = to;

    if (!bf16 && !fp16 && strcmp(value, "own"))
        return setting_bad(r, value, "own, bf16 (bfloat16) or fp16 (float16)");
    stored_collectives(o)->reduce = bf16 ? DT_BFLOAT16 : fp16 ? DT_FLOAT16 : DT_NONE;
    return ST_OK;
}

Status options_set_precision(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    static const struct {
        const char *name;
        DType type;
        bool tf32;
    } known[] = {
        { "float32", DT_NONE, false },  { "tf32", DT_NONE, true },        { "bfloat16", DT_BFLOAT16, false },
        { "bf16", DT_BFLOAT16, false }, { "float16", DT_FLOAT16, false }, { "fp16", DT_FLOAT16, false },
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, value)) {
            stored_types(o)->precision = known[i].type;
            stored_backend(o)->tf32 = known[i].tf32;
            if (!o->loss_scale_given)
                stored_types(o)->loss_scaling = known[i].type == DT_FLOAT16 ? SCALE_DYNAMIC : SCALE_NONE;
            return ST_OK;
        }
    return setting_bad(r, value, "float32, tf32, bfloat16 (bf16) or float16 (fp16)");
}

/* Behind "dynamic": up to four numbers, each behind a colon; the usual rule has the others. */
static Status read_scale_rule(LossScaleRule *out, const char *text)
{
    static const Setting number[] = {
        { .name = "loss-scale", .min = 0x1p-126, .max = 1e30 },
        { .name = "loss-scale", .min = 1, .above_min = true, .max = 1e6 },
        { .name = "loss-scale", .min = 0, .above_min = true, .max = 0.999999 },
        { .name = "loss-scale", .min = 1, .max = 1e15 },
    };
    LossScaleRule rule = loss_scale_rule(&(BuildOptions){ .mode = BUILD_TRAIN });
    double *to[] = { &rule.first, &rule.growth, &rule.backoff };
    size_t i = 0;

    for (; *text; i++) {
        const size_t len = strcspn(text + 1, ":");
        char one[64];

        if (*text != ':' || i == sizeof number / sizeof *number || len >= sizeof one)
            return FAIL(E_INVALID, "no rule");
        memcpy(one, text + 1, len);
        one[len] = '\0';
        TRY(i < 3 ? setting_read_real(to[i], &number[i], one) : setting_read_int(&rule.interval, &number[i], one));
        text += 1 + len;
    }
    *out = rule;
    return ST_OK;
}

Status options_set_loss_scale(const Setting *r, void *to, const char *value)
{
    Options *o = to;
    static const Setting number = { .name = "loss-scale", .min = 0, .above_min = true, .max = 1e30 };
    static const char word[] = "dynamic";
    const bool dynamic = !strncmp(value, word, strlen(word));

    if (dynamic ? read_scale_rule(&stored_types(o)->scale_rule, value + strlen(word))
                : setting_read_real(&stored_types(o)->loss_scale, &number, value))
        return setting_bad(
            r, value,
            "dynamic[:FIRST[:GROWTH[:BACKOFF[:INTERVAL]]]], FIRST above 0, GROWTH above 1, BACKOFF between 0 "
            "and 1, INTERVAL from 1, or a number above 0");
    stored_types(o)->loss_scaling = dynamic                                    ? SCALE_DYNAMIC
                                    : type_options(&o->build)->loss_scale == 1 ? SCALE_NONE
                                                                               : SCALE_FIXED;
    o->loss_scale_given = true;
    return ST_OK;
}
