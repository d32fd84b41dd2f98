/* metrics.jsonl is appended line by line; on resume what follows the checkpoint is cut off, so that its steps stand there once.
 * Other files appear whole or not at all. */
#include "tools/run_dir.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *run_dir_file(const RunDir *r, const char *name, char buf[4096])
{
    snprintf(buf, 4096, "%s/%s", r->path, name);
    return buf;
}

Status run_dir_open(RunDir *out, const char *path, bool resume)
{
    char file[4096];
    struct stat s;

    *out = (RunDir){ 0 };
    if (snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
        return FAIL(E_IO, "--out: the path is too long");
    if (mkdir(path, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    if (!resume && !stat(run_dir_file(out, "metrics.jsonl", file), &s) && s.st_size > 0)
        return FAIL(E_IO, "%s already holds a run: continue it with --resume, or choose another --out", path);
    if (!(out->metrics = fopen(run_dir_file(out, "metrics.jsonl", file), "a")))
        return FAIL(E_IO, "%s: cannot write: %s", file, strerror(errno));
    return ST_OK;
}

Status run_dir_check_names(const dpx_model *m)
{
    Problems wrong = { 0 };
    dpx_info info;

    for (int i = 0; i < dpx_model_count(m, DPX_STATE); i++) {
        json_t *name;

        TRY((Status)dpx_model_info(m, DPX_STATE, i, &info));
        if (!(name = json_string(info.name)))
            problems_add(&wrong, "'%s'", info.name);
        json_decref(name);
    }
    return problems_fail(&wrong, E_MODEL, "--out: a checkpoint cannot hold tensors whose names are not UTF-8");
}

void run_dir_close(RunDir *r)
{
    if (r->metrics)
        fclose(r->metrics);
    r->metrics = NULL;
}

static json_t *describe_args(const Args *a)
{
    json_t *root = json_object(), *options = json_object(), *given = json_array(), *positional = json_array();

    for (int i = 0; i < a->n_positional; i++)
        json_array_append_new(positional, json_string(a->positional[i]));
    for (int i = 0; i < a->n_given; i++)
        json_array_append_new(given, json_pack("[s, s]", a->given[i].name, a->given[i].value));
    for (int i = 0; i < dpx_option_count(); i++)
        json_object_set_new(options, dpx_option_at(i).name, json_string(dpx_options_get(a->options, dpx_option_at(i).name)));
    json_object_set_new(root, "version", json_string(dpx_version()));
    json_object_set_new(root, "arguments", positional);
    json_object_set_new(root, "given", given);
    json_object_set_new(root, "options", options);
    return root;
}

Status run_dir_write_args(const RunDir *r, const Args *a)
{
    char temporary[4096], final[4096];
    json_t *root = describe_args(a);
    bool good = !json_dump_file(root, run_dir_file(r, ".args.json.tmp", temporary), JSON_INDENT(2));

    json_decref(root);
    if (good && !rename(temporary, run_dir_file(r, "args.json", final)))
        return ST_OK;
    unlink(temporary);
    return FAIL(E_IO, "%s/args.json: cannot write: %s", r->path, strerror(errno));
}

/* ---- metrics ---- */

/* Lines up to the first of a later step; a damaged last line (a crash in mid-write) ends it too. */
static long bytes_up_to(FILE *f, int64_t step)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    long keep = 0;

    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *j = line[n - 1] == '\n' ? json_loads(line, 0, NULL) : NULL;
        bool earlier = json_is_integer(json_object_get(j, "step")) && json_integer_value(json_object_get(j, "step")) <= step;

        json_decref(j);
        if (!earlier)
            break;
        keep += n;
    }
    free(line);
    return keep;
}

Status run_dir_rewind(RunDir *r, int64_t step)
{
    char file[4096];
    FILE *f = fopen(run_dir_file(r, "metrics.jsonl", file), "r");
    long keep;

    if (!f)
        return FAIL(E_IO, "%s: cannot read: %s", file, strerror(errno));
    keep = bytes_up_to(f, step);
    fclose(f);
    if (truncate(file, keep))
        return FAIL(E_IO, "%s: cannot rewind: %s", file, strerror(errno));
    return ST_OK;
}

const char *json_number(double v, char buf[32])
{
    if (!isfinite(v))
        return "null";
    snprintf(buf, 32, "%.17g", v);
    return buf;
}

static Status flush(RunDir *r)
{
    if (fflush(r->metrics) || ferror(r->metrics))
        return FAIL(E_IO, "%s/metrics.jsonl: cannot write: %s", r->path, strerror(errno));
    return ST_OK;
}

Status run_dir_log_step(RunDir *r, const dpx_result *result, int64_t epoch, double ms)
{
    char loss[32], lr[32], norm[32], scale[32];

    if (!r->metrics)
        return ST_OK;
    fprintf(r->metrics, "{\"step\":%lld,\"epoch\":%lld,\"loss\":%s,\"lr\":%s,\"samples\":%lld,\"ms\":%.3f", (long long)result->step,
            (long long)epoch, json_number(result->loss, loss), json_number(result->lr, lr), (long long)result->samples, ms);
    if (!isnan(result->grad_norm))
        fprintf(r->metrics, ",\"grad_norm\":%s", json_number(result->grad_norm, norm));
    if (!isnan(result->loss_scale))
        fprintf(r->metrics, ",\"loss_scale\":%s,\"skipped\":%s", json_number(result->loss_scale, scale), result->skipped ? "true" : "false");
    fprintf(r->metrics, "}\n");
    return flush(r);
}

Status run_dir_log_eval(RunDir *r, int64_t step, double loss, double accuracy, bool has_accuracy)
{
    char text[32];

    if (!r->metrics)
        return ST_OK;
    fprintf(r->metrics, "{\"step\":%lld,\"eval_loss\":%s", (long long)step, json_number(loss, text));
    if (has_accuracy)
        fprintf(r->metrics, ",\"eval_accuracy\":%s", json_number(accuracy, text));
    fprintf(r->metrics, "}\n");
    return flush(r);
}
