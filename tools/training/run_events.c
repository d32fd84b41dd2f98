/* What a run writes for TensorBoard. */
#include <stdlib.h>
#include <string.h>

#include "tools/training/training.h"

/* The pass whose graph is shown: that of the file; and the one behind which shapes are known. */
#define GRAPH_STAGE "convert-dtype"
#define SHAPE_STAGE "infer-shapes"

Status run_events_scalar(void *user, int64_t step, const char *key, double x)
{
    const char *of = !strncmp(key, "train_", 6) ? "train/" : !strncmp(key, "eval_", 5) ? "eval/" : "";
    char tag[256];

    snprintf(tag, sizeof tag, "%s%s", *of ? of : !strcmp(key, "loss") ? "step/" : "", key + strlen(of));
    return events_scalar(user, step, tag, x);
}

/* Reads a parameter or its gradient into the tensor. */
typedef dpx_status ReadParameter(dpx_trainer *t, const char *name, const dpx_tensor *out);

/* With --shard no process has all of a parameter: all processes read it together, and a gradient as well. */
static bool is_sharded(const Run *r) { return strcmp(dpx_options_get(r->args->options, "shard"), "none") != 0; }

/* Logs the distribution of a parameter, or of its gradient if it has one; without an event file it is only read. */
static Status log_parameter(Run *r, const dpx_info *of, const char *prefix, ReadParameter *read)
{
    dpx_tensor t = { .name = of->name, .dtype = of->dtype, .rank = of->rank };
    size_t n = 1;
    char tag[256];
    Status st;

    memcpy(t.dim, of->dim, sizeof t.dim);
    for (int k = 0; k < of->rank; k++)
        n *= (size_t)of->dim[k];
    if (!(t.data = malloc(n * dpx_dtype_size(t.dtype) + 1)))
        return FAIL_NOMEM();
    snprintf(tag, sizeof tag, "%s/%.240s", prefix, of->name);
    st = (Status)read(r->trainer, of->name, &t);
    if (!st && r->events)
        st = events_histogram(r->events, r->step, tag, &t);
    free(t.data);
    return st == E_INVALID && read == dpx_trainer_gradient ? ST_OK : st; /* no loss reaches the parameter */
}

/* Logs each parameter of floats. */
static Status log_parameters(Run *r, const char *prefix, ReadParameter *read)
{
    for (int i = 0; i < dpx_trainer_state_count(r->trainer); i++) {
        dpx_info info;

        TRY((Status)dpx_trainer_state_info(r->trainer, i, &info));
        if (info.trainable && (info.dtype == DPX_FLOAT32 || info.dtype == DPX_FLOAT64))
            TRY(log_parameter(r, &info, prefix, read));
    }
    return ST_OK;
}

/* Logs the images among the worst samples of the newest evaluation. */
static Status log_images(Run *r)
{
    char path[4096], tag[64];
    json_t *found = json_load_file(run_dir_file(&r->dir, "evaluation.json", path), 0, NULL);
    const json_t *worst = json_object_get(found, "worst");
    Status st = ST_OK;

    if (json_integer_value(json_object_get(found, "step")) == r->step)
        for (size_t i = 0; i < json_array_size(worst) && !st; i++) {
            const char *png = json_string_value(json_object_get(json_array_get(worst, i), "png"));

            snprintf(tag, sizeof tag, "worst samples/%zu", i + 1);
            st = png ? events_image(r->events, r->step, tag, png) : ST_OK;
        }
    json_decref(found);
    return st;
}

/* A dpx_write_fn that reads the JSON; *user: NULL at first, and where it is none. */
static void read_json(void *user, const char *text, size_t bytes)
{
    *(json_t **)user = json_loadb(text, bytes, 0, NULL);
}

/* Reads the model's graph behind a pass; *out NULL: it is no JSON. */
static Status read_graph(json_t **out, const Run *r, const char *pass)
{
    *out = NULL;
    return (Status)dpx_transform(r->model, r->args->options, pass, "json", read_json, out);
}

/* Logs the model's graph, with the shapes of a step. */
static Status log_graph(const Run *r)
{
    json_t *graph, *shaped = NULL;
    Status st = read_graph(&graph, r, GRAPH_STAGE);

    st = st ? st : read_graph(&shaped, r, SHAPE_STAGE);
    if (!st)
        st = graph && shaped ? events_graph(r->events, graph, shaped)
                             : FAIL(E_INTERNAL, "the graph's JSON cannot be read");
    json_decref(graph);
    json_decref(shaped);
    return st;
}

Status run_events_open(Run *r)
{
    char path[4096];

    if (r->events || !args_has(r->args, "tensorboard"))
        return ST_OK;
    TRY(events_open(&r->events, run_dir_file(&r->dir, "tensorboard", path)));
    return log_graph(r);
}

Status run_events_keep(Run *r, bool due)
{
    if (!args_has(r->args, "tensorboard"))
        return ST_OK;
    r->gradients_of = due ? r->begun + 1 : 0;
    return (Status)dpx_trainer_keep(r->trainer, due ? DPX_KEEP_GRADIENTS : 0);
}

Status run_events_gradients(Run *r)
{
    if (!r->gradients_of || r->gradients_of != r->step)
        return ST_OK;
    if (r->has_dir)
        TRY(run_events_open(r));
    TRY(log_parameters(r, "gradients", dpx_trainer_gradient));
    return is_sharded(r) ? log_parameters(r, "weights", dpx_trainer_get_state) : ST_OK;
}

Status run_events_write(Run *r, bool end)
{
    if (!r->events)
        return ST_OK;
    if (r->logged != r->step && (end || r->eval_step == r->step)) {
        if (!is_sharded(r)) /* else run_events_gradients has */
            TRY(log_parameters(r, "weights", dpx_trainer_get_state));
        TRY(log_images(r));
        r->logged = r->step;
    }
    return events_flush(r->events);
}
