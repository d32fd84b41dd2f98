/* Sequences of calls of the C API: bytes choose the functions, the handles and the tensors, which lie in blocks of just
 * their size.  Handles of any age are used in any order; what a call refuses has a message and is no fault of ours. */
#include <math.h>

#include "include/dpexec.h"
#include "tests/fuzz/common/fuzz.h"

enum { SLOTS = 3, MOST_CALLS = 24, MOST_TENSORS = 4, MOST_PARTS = 3, MOST_BYTES = 1 << 12 };

typedef struct {
    const uint8_t *at, *end;
    dpx_options *options[SLOTS];
    dpx_model *model[SLOTS];
    dpx_trainer *trainer[SLOTS];
    dpx_data *data[SLOTS];
    dpx_tensor tensor[MOST_TENSORS];
    int trained; /* programs cost more than all else */
} Calls;

static unsigned next(Calls *c) { return c->at < c->end ? *c->at++ : 0; }
static int slot(Calls *c) { return (int)(next(c) % SLOTS); }

static void told(dpx_status st)
{
    if (!st)
        return;
    fuzz_refused((Status)st);
    MUST(st != DPX_INTERNAL, "a mistake of ours");
}

/* ---- what is given ---- */

static const char *const names[] = {
    NULL, "x", "t", "target", "y", "w", "b", "v", "nothing", "", "x.0", "learning_rate"
};
static const char *const models[] = { "mlp", "loss", "conv", "embedding", "attention", "sequence", "step", "nothing" };
static const struct {
    const char *name, *value;
} settings[] = {
    { "loss", "cross-entropy" },
    { "loss", "mse" },
    { "loss", "output:y" },
    { "loss", "none" },
    { "metric", "accuracy" },
    { "metric", "f1:macro" },
    { "batch-size", "2" },
    { "devices", "cpu*2" },
    { "replicas", "3" },
    { "shard", "optimizer" },
    { "optimizer", "adam" },
    { "lr", "0.1" },
    { "accumulate", "2" },
    { "split", "chunk" },
    { "dtype", "float64" },
    { "clip-norm", "1" },
    { "output-device", "each" },
    { "lr-schedule", "plateau" },
    { "freeze", "w*" },
    { "evaluation", "true" },
    { "lr-schedule", "step:2" },
    { "bn", "local" },
    { "seed", "3" },
    { "train", "*" },
    { "input-shape", "x=2,4" },
    { "batch-input", "x" },
    { "loss", "" },
    { "nothing", "1" },
};

static const char *name(Calls *c) { return names[next(c) % (sizeof names / sizeof *names)]; }

/* The block of its data, or NULL. */
static void make_tensor(Calls *c, dpx_tensor *t)
{
    static const dpx_dtype types[] = { DPX_FLOAT32, DPX_INT64, DPX_FLOAT64, DPX_BOOL, DPX_INT4, DPX_STRING, 0, 99 };
    const unsigned how = next(c);
    size_t bytes;

    free(t->data);
    *t = (dpx_tensor){ .name = name(c), .dtype = types[how & 7 & (how >> 5 ? 1 : 7)], .rank = (int)(how >> 3 & 3) };
    bytes = dpx_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        t->dim[i] = (int64_t)(next(c) % 8) - (how == 255);
        bytes *= t->dim[i] > 0 ? (size_t)t->dim[i] : 0;
    }
    if (how == 254)
        t->rank = DPX_MAX_RANK + 1;
    if (how == 253 || bytes > MOST_BYTES || !(t->data = malloc(bytes)))
        return;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)t->data)[i] = t->dtype == DPX_FLOAT32 && i % 4 == 3 ? 0x3e : i % 8 ? 0 : (uint8_t)(next(c) % 4);
    if (t->dtype == DPX_STRING)
        memset(t->data, 0, bytes);
}

/* As many as the model has inputs and targets, or another number. */
static int make_batch(Calls *c)
{
    const int n = (int)(next(c) % (MOST_TENSORS + 1));

    for (int i = 0; i < n; i++)
        make_tensor(c, &c->tensor[i]);
    return n;
}

static const char *model_path(Calls *c)
{
    static char path[256];

    snprintf(path, sizeof path, "tests/fuzz/corpus/import/%s.onnx", models[next(c) % (sizeof models / sizeof *models)]);
    return path;
}

/* ---- calls ---- */

static void set_option(Calls *c)
{
    const unsigned which = next(c) % (sizeof settings / sizeof *settings);
    dpx_options **o = &c->options[slot(c)];

    *o = *o ? *o : dpx_options_create();
    told(dpx_options_set(*o, settings[which].name, settings[which].value));
    MUST(dpx_options_get(*o, settings[which].name) || which + 1 == sizeof settings / sizeof *settings, "an option");
}

static void load_model(Calls *c)
{
    const int i = slot(c);

    dpx_model_free(c->model[i]);
    c->model[i] = NULL;
    told(dpx_model_load(&c->model[i], model_path(c)));
}

static void ask_model(Calls *c)
{
    const dpx_model *m = c->model[slot(c)];
    const dpx_options *o = c->options[slot(c)];
    dpx_info info;

    for (dpx_kind kind = DPX_INPUT; kind <= DPX_STATE; kind++) {
        const int n = dpx_model_count(m, kind), i = (int)(next(c) % 6) - 1;
        const dpx_status st = dpx_model_info(m, kind, i, &info);

        MUST(m && i >= 0 && i < n ? !st : st == DPX_INVALID, "%d of %d", i, n);
        told(st);
    }
    (void)dpx_batch_axis(m, o, name(c));
    (void)dpx_batch_splits(m, o, name(c));
    (void)dpx_model_is_step(m);
}

static void create_trainer(Calls *c)
{
    const int i = slot(c), model = slot(c), options = slot(c);

    dpx_trainer_free(c->trainer[i]);
    c->trainer[i] = NULL;
    told(dpx_trainer_create(&c->trainer[i], c->model[model], c->options[options], NULL, NULL));
}

static void check_result(const dpx_result *r)
{
    MUST(r->samples >= 0 && r->step >= 0 && r->n_outputs >= 0, "samples %lld", (long long)r->samples);
    for (int i = 0; i < r->n_outputs; i++)
        MUST(r->outputs[i].name && dpx_dtype_size(r->outputs[i].dtype), "output %d", i);
}

static void step(Calls *c)
{
    static dpx_status (*const call[])(dpx_trainer *, const dpx_tensor *, int,
                                      dpx_result *) = { dpx_train_step, dpx_val_step, dpx_test_step,
                                                        dpx_train_backward };
    dpx_trainer *t = c->trainer[slot(c)];
    const unsigned which = next(c) % 4;
    const int n = make_batch(c);
    dpx_result r;
    dpx_status st;

    if (c->trained++ > 6)
        return;
    st = call[which](t, c->tensor, n, &r);
    told(st);
    if (!st)
        check_result(&r);
}

static void run(Calls *c)
{
    dpx_trainer *t = c->trainer[slot(c)];
    const int n = make_batch(c), n_out = (int)(next(c) % 3);
    dpx_tensor out[2] = { { .name = name(c) }, { .name = name(c) } };

    if (c->trained++ <= 6)
        told(dpx_run(t, c->tensor, n, out, n_out));
}

static void tell_trainer(Calls *c)
{
    dpx_trainer *t = c->trainer[slot(c)];
    dpx_result r;
    dpx_metric m;
    dpx_part part;

    switch (next(c) % 16) {
    case 10: told(dpx_train_update(t, &r)); break;
    case 11: told(dpx_train_reset(t)); break;
    case 12: told(dpx_trainer_set_lr(t, (int)(next(c) % 3), next(c) & 1 ? NAN : 0.5)); break;
    case 14: told(dpx_trainer_profile(t, next(c) & 1)); break;
    case 15: told(dpx_trainer_profile_step(t, next(c) & 1 ? NAN : 0.5, 0.25)); break;
    case 13: told(dpx_trainer_keep(t, next(c) % 5)); break;
    case 0: told(dpx_train_flush(t, &r)); break;
    case 1: told(dpx_train_result(t, &r)); break;
    case 2: told(dpx_trainer_close_group(t)); break;
    case 3: told(dpx_trainer_end_epoch(t)); break;
    case 4: told(dpx_trainer_observe(t, next(c) & 1 ? NAN : 0.5, next(c))); break;
    case 5: told(dpx_trainer_metric(t, &m)); break;
    case 6: told(dpx_trainer_train_metric(t, &m)); break;
    case 7: told(dpx_trainer_part(t, (int64_t)next(c) - 8, &part)); break;
    case 8: dpx_trainer_restart_metric(t), dpx_trainer_restart_train_metric(t); break;
    default: told(dpx_trainer_trace(t, next(c)));
    }
}

static void move_state(Calls *c)
{
    dpx_trainer *t = c->trainer[slot(c)];
    const unsigned set = next(c) & 1;
    dpx_info info;

    make_tensor(c, &c->tensor[0]);
    if (next(c) & 1 && dpx_trainer_state_count(t) && !dpx_trainer_state_info(t, 0, &info)) { /* one that fits */
        size_t bytes = dpx_dtype_size(info.dtype);

        for (int i = 0; i < info.rank; i++)
            bytes *= (size_t)info.dim[i];
        free(c->tensor[0].data);
        c->tensor[0] =
            (dpx_tensor){ .name = info.name, .dtype = info.dtype, .rank = info.rank, .data = calloc(1, bytes) };
        memcpy(c->tensor[0].dim, info.dim, sizeof info.dim);
        told(set           ? dpx_trainer_set_state(t, info.name, &c->tensor[0])
             : next(c) & 1 ? dpx_trainer_gradient(t, info.name, &c->tensor[0])
                           : dpx_trainer_get_state(t, info.name, &c->tensor[0]));
        c->tensor[0].name = NULL;
        return;
    }
    told(set ? dpx_trainer_set_state(t, name(c), &c->tensor[0]) : dpx_trainer_get_state(t, name(c), &c->tensor[0]));
}

static void keep(Calls *c)
{
    dpx_trainer *t = c->trainer[slot(c)];
    char *note = NULL;

    switch (next(c) % 4) {
    case 0: told(dpx_trainer_save(t, fuzz_path("checkpoints"), "note")); break;
    case 1:
        told(dpx_trainer_resume(t, fuzz_path("checkpoints"), &note));
        free(note);
        break;
    case 2: told(dpx_trainer_export(t, fuzz_path("model.onnx"))); break;
    default: told(dpx_trainer_write_trace(t, fuzz_path("trace.json")));
    }
}

static dpx_status put(void *file, const void *bytes, size_t n)
{
    return fwrite(bytes, 1, n, file) == n ? DPX_OK : DPX_IO;
}

static dpx_status get(void *file, void *to, size_t room, size_t *n)
{
    *n = fread(to, 1, room, file);
    return DPX_OK;
}

/* Reads a model from the bytes of a stream, in a block of just their size. */
static void load_bytes(Calls *c, FILE *f)
{
    const int i = slot(c);
    const long n = ftell(f);
    char *bytes = malloc((size_t)n + !n);

    MUST(bytes, "memory");
    rewind(f);
    MUST(fread(bytes, 1, (size_t)n, f) == (size_t)n, "%ld bytes", n);
    dpx_model_free(c->model[i]);
    c->model[i] = NULL;
    told(dpx_model_load_memory(&c->model[i], bytes, (size_t)n, "stream", c->options[slot(c)], NULL, NULL));
    free(bytes);
}

static void stream(Calls *c)
{
    dpx_trainer *from = c->trainer[slot(c)], *to = c->trainer[slot(c)];
    FILE *f = fopen(fuzz_path("stream"), "wb+");

    MUST(f, "%s", fuzz_path("stream"));
    if (next(c) & 1) {
        told(dpx_trainer_export_to(from, put, f));
        load_bytes(c, f);
    } else {
        told(dpx_trainer_save_to(from, put, f, "note"));
        rewind(f);
        told(dpx_trainer_load_from(to, get, f, NULL));
    }
    fclose(f);
}

static void predict(Calls *c)
{
    const dpx_model *m = c->model[slot(c)];
    dpx_trainer *first = c->trainer[slot(c)], *then = c->trainer[slot(c)];
    const dpx_options *o = c->options[slot(c)];
    const unsigned given = next(c); /* bits: model, trainer, options */
    const int n = make_batch(c);
    dpx_predictor *p = NULL;
    dpx_data *out = NULL;

    if (c->trained++ > 6)
        return;
    told(dpx_predictor_create(&p, given & 1 ? m : NULL, given & 2 ? first : NULL, given & 4 ? o : NULL));
    told(dpx_predict(p, c->tensor, n, &out));
    told(dpx_predictor_take(p, then));
    told(dpx_predictor_warm(p, (int)(next(c) % 3), c->tensor, n));
    dpx_data_free(out);
    dpx_predictor_free(p);
}

static void make_data(Calls *c)
{
    const int i = slot(c);
    const dpx_data *member[2] = { c->data[slot(c)], c->data[slot(c)] };
    const char *key[2] = { name(c), name(c) };
    dpx_data *made = NULL, *part[MOST_PARTS] = { NULL };

    make_tensor(c, &c->tensor[0]);
    switch (next(c) % 5) {
    case 0: told(dpx_data_list(&made, member, (int)(next(c) % 3))); break;
    case 1: told(dpx_data_map(&made, key, member, (int)(next(c) % 3))); break;
    case 2: told(dpx_collate(&made, member, (int)(next(c) % 3), 1)); break;
    case 3:
        told(dpx_scatter(part, member[0], (int)(next(c) % (MOST_PARTS + 1)) - 1));
        made = part[0];
        for (int k = 1; k < MOST_PARTS; k++)
            dpx_data_free(part[k]);
        break;
    default: told(dpx_data_tensor(&made, &c->tensor[0]));
    }
    dpx_data_free(c->data[i]);
    c->data[i] = made;
}

static void use_data(Calls *c)
{
    const dpx_data *d = c->data[slot(c)];
    dpx_trainer *t = c->trainer[slot(c)];
    dpx_data *out = NULL;
    dpx_result r;

    for (int i = -1; i <= dpx_data_count(d); i++)
        (void)dpx_data_at(d, i), (void)dpx_data_key(d, i);
    (void)dpx_data_find(d, name(c));
    told(dpx_data_view(d, &(dpx_tensor){ 0 }));
    if (c->trained++ > 6)
        return;
    switch (next(c) % 3) {
    case 0: told(dpx_interpret(&out, model_path(c), c->options[slot(c)], d)); break;
    case 1: told(dpx_train_data(t, d, &r)); break;
    default: told(dpx_val_data(t, d, &r));
    }
    dpx_data_free(out);
}

static void forget(Calls *c)
{
    const int i = slot(c);

    switch (next(c) % 3) { /* trainers live on without their model and options */
    case 0: dpx_model_free(c->model[i]), c->model[i] = NULL; break;
    case 1: dpx_options_free(c->options[i]), c->options[i] = NULL; break;
    default: dpx_trainer_free(c->trainer[i]), c->trainer[i] = NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(Calls *) = { set_option, load_model,   ask_model,  create_trainer, step,
                                              run,        tell_trainer, move_state, keep,           make_data,
                                              use_data,   forget,       stream,     predict };
    Calls c = { .at = data, .end = data + size };

    for (int i = 0; i < MOST_CALLS && c.at < c.end; i++)
        calls[next(&c) % (sizeof calls / sizeof *calls)](&c);
    for (int i = 0; i < SLOTS; i++) {
        dpx_trainer_free(c.trainer[i]);
        dpx_model_free(c.model[i]);
        dpx_options_free(c.options[i]);
        dpx_data_free(c.data[i]);
    }
    for (int i = 0; i < MOST_TENSORS; i++)
        free(c.tensor[i].data);
    return 0;
}
