/* Models from memory; models and checkpoints to and from functions: the bytes of files, and what is done with streams
 * that are cut off, forged or of something else. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/onnx/onnx.h"
#include "tests/api/api.h"

static const char *const adam[] = { "loss=cross-entropy", "optimizer=adam", "threads=1", NULL };

/* Bytes that a stream has given, or gives in pieces of `piece`. */
typedef struct {
    char *data;
    size_t n, at, piece;
    dpx_status fails; /* what the function returns from byte `fails_at` on */
    size_t fails_at;
} Bytes;

static dpx_status take(void *user, const void *bytes, size_t n)
{
    Bytes *b = user;

    if (b->fails && b->n + n > b->fails_at)
        return b->fails;
    b->data = realloc(b->data, b->n + n + 1);
    memcpy(b->data + b->n, bytes, n);
    b->n += n;
    return DPX_OK;
}

static dpx_status give(void *user, void *to, size_t room, size_t *n)
{
    Bytes *b = user;
    size_t left = b->n - b->at;

    if (b->fails && b->at >= b->fails_at)
        return b->fails;
    *n = left < room ? left : room;
    *n = b->piece && *n > b->piece ? b->piece : *n;
    memcpy(to, b->data + b->at, *n);
    b->at += *n;
    return DPX_OK;
}

static Bytes read_file(const char *path)
{
    Bytes b = { .data = NULL };
    char buffer[4096];
    FILE *f = fopen(path, "rb");

    for (size_t n; f && (n = fread(buffer, 1, sizeof buffer, f));)
        take(&b, buffer, n);
    if (f)
        fclose(f);
    else
        TEST_FAIL("cannot read %s", path);
    return b;
}

static void write_file(const char *path, const Bytes *b)
{
    FILE *f = fopen(path, "wb");

    CU_ASSERT_FATAL(f && fwrite(b->data, 1, b->n, f) == b->n);
    fclose(f);
}

static bool same_bytes(const Bytes *a, const Bytes *b)
{
    return a->n && a->n == b->n && !memcmp(a->data, b->data, a->n);
}

static double step(dpx_trainer *t, unsigned seed)
{
    dpx_result r = { .loss = -1 };
    Batch b;

    make_batch(&b, seed);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    return r.loss;
}

/* ---- export and save ---- */

static void test_export(void)
{
    dpx_trainer *t = make_trainer(adam);
    char folder[256], path[300];
    Bytes file, stream = { .data = NULL }, broken = { .fails = DPX_INTERRUPTED, .fails_at = 5000 };

    if (!t)
        return;
    make_folder(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    step(t, 1);
    CHECK_DPX(dpx_trainer_export(t, path));
    file = read_file(path);
    CHECK_DPX(dpx_trainer_export_to(t, take, &stream));
    CU_ASSERT(same_bytes(&file, &stream));
    CHECK_DPX_FAILS(DPX_INTERRUPTED, "dpx_trainer_export_to: the caller's function failed with status -9",
                    dpx_trainer_export_to(t, take, &broken));
    free(file.data);
    free(stream.data);
    free(broken.data);
    remove_folder(folder);
    dpx_trainer_free(t);
}

/* `tar` unpacks the stream to the files of a checkpoint in a folder. */
static void check_files(const char *folder, const Bytes *stream)
{
    static const char *const names[] = { "state.safetensors", "state.digests", "manifest.json" };
    char path[600], other[600], command[1400];

    snprintf(path, sizeof path, "%s/stream.tar", folder);
    write_file(path, stream);
    snprintf(command, sizeof command, "mkdir %s/out && tar -xf %s -C %s/out", folder, path, folder);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    for (int i = 0; i < 3; i++) {
        Bytes a, b;

        snprintf(path, sizeof path, "%s/step-000000002/%s", folder, names[i]);
        snprintf(other, sizeof other, "%s/out/step-000000002/%s", folder, names[i]);
        a = read_file(path);
        b = read_file(other);
        if (!same_bytes(&a, &b))
            TEST_FAIL("%s differs", names[i]);
        free(a.data);
        free(b.data);
    }
    snprintf(path, sizeof path, "%s/out", folder);
    CHECK_DPX(dpx_checkpoint_verify(path, 2));
}

/* GNU tar's own archive of the folder, in which the folder stands, too. */
static Bytes packed_again(const char *folder)
{
    char command[1400], path[600];

    snprintf(path, sizeof path, "%s/again.tar", folder);
    snprintf(command, sizeof command, "tar -cf %s -C %s step-000000002", path, folder);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    return read_file(path);
}

/* A trainer that has loaded the stream goes on as `t` does. */
static void check_loaded(const Bytes *stream, size_t piece, double loss)
{
    Bytes from = { .data = stream->data, .n = stream->n, .piece = piece };
    dpx_trainer *u = make_trainer(adam);
    char *note = NULL;

    if (u && CHECK_DPX(dpx_trainer_load_from(u, give, &from, &note))) {
        CU_ASSERT(!strcmp(note, "a note") && dpx_trainer_step_count(u) == 2);
        CU_ASSERT_EQUAL(step(u, 3), loss);
    }
    free(note);
    dpx_trainer_free(u);
}

static void test_save(void)
{
    dpx_trainer *t = make_trainer(adam);
    char folder[256];
    Bytes stream = { .data = NULL }, again, broken = { .fails = DPX_IO, .fails_at = 100000 },
          bad_note = { .data = NULL };
    double loss;

    if (!t)
        return;
    make_folder(folder);
    step(t, 1);
    step(t, 2);
    CHECK_DPX(dpx_trainer_save(t, folder, "a note"));
    CHECK_DPX(dpx_trainer_save_to(t, take, &stream, "a note"));
    CU_ASSERT(stream.n % 512 == 0);
    check_files(folder, &stream);
    again = packed_again(folder);
    CHECK_DPX_FAILS(DPX_IO, "failed with status -7", dpx_trainer_save_to(t, take, &broken, NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "not UTF-8", dpx_trainer_save_to(t, take, &bad_note, "\xff"));
    loss = step(t, 3);
    check_loaded(&stream, 0, loss);
    check_loaded(&stream, 7777, loss);
    check_loaded(&again, 0, loss);
    free(stream.data);
    free(again.data);
    free(broken.data);
    free(bad_note.data);
    remove_folder(folder);
    dpx_trainer_free(t);
}

/* ---- streams that are none ---- */

/* A status of the load; what it loads instead of an error must be the checkpoint. */
static dpx_status load(dpx_trainer *u, const Bytes *stream, size_t n)
{
    Bytes from = { .data = stream->data, .n = n };

    return dpx_trainer_load_from(u, give, &from, NULL);
}

static void test_damaged(void)
{
    static const char *const other[] = { "loss=cross-entropy", "dtype=float64", "batch-size=6", "threads=1", NULL };
    dpx_trainer *t = make_trainer(adam), *u = make_trainer(adam), *v = make_trainer(other);
    Bytes stream = { .data = NULL }, text = { .data = NULL }, broken;
    char more[512] = "x";
    double before;
    int kept = 0;

    if (!t || !u || !v)
        return;
    step(t, 1);
    step(u, 9);
    CHECK_DPX(dpx_trainer_save_to(t, take, &stream, NULL));
    for (size_t n = 0; n < stream.n - 512; n += n < 2048 ? 97 : 50021)
        CHECK_DPX_FAILS(DPX_IO, n ? "" : "ends at byte 0", load(u, &stream, n));
    CHECK_DPX_FAILS(DPX_IO, "within state.safetensors", load(u, &stream, 3000));
    for (size_t i = 0; i < stream.n; i += i < 1024 ? 5 : 40009) {
        dpx_status st;

        stream.data[i] ^= 0x10;
        st = load(u, &stream, stream.n);
        kept += st == DPX_OK; /* padding of a header or behind a file */
        if (st != DPX_OK && st != DPX_IO)
            TEST_FAIL("byte %zu: status %d, %s", i, st, dpx_error());
        stream.data[i] ^= 0x10;
    }
    CU_ASSERT(kept < 5);
    memcpy(more + 1, stream.data, sizeof more - 1);
    take(&stream, more, sizeof more);
    CHECK_DPX_FAILS(DPX_IO, "something follows", load(u, &stream, stream.n));
    take(&text, "{\"step\": 1}", 11);
    CHECK_DPX_FAILS(DPX_IO, "it ends at byte 11, within a header", load(u, &text, text.n));
    broken =
        (Bytes){ .data = stream.data, .n = stream.n - 512, .fails = DPX_INTERRUPTED, .fails_at = 4096, .piece = 64 };
    CHECK_DPX_FAILS(DPX_INTERRUPTED, "dpx_trainer_load_from: the caller's function",
                    dpx_trainer_load_from(u, give, &broken, NULL));
    CHECK_DPX_FAILS(DPX_IO, "dpx_trainer_load_from: the checkpoint is of another run",
                    load(v, &stream, stream.n - 512));
    dpx_trainer_free(v);
    before = step(t, 2);
    CHECK_DPX(load(u, &stream, stream.n - 512)); /* none of it has harmed the trainer */
    CU_ASSERT_EQUAL(step(u, 2), before);
    free(stream.data);
    free(text.data);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
}

/* A forged archive: names that lead elsewhere, and files that no checkpoint has. */
static void test_forged(void)
{
    static const char *const names[] = { "../state.safetensors",  "step-1/../../x",
                                         "/step-1/manifest.json", "step-1/evil",
                                         "step-/manifest.json",   "step-99999999999999999999/manifest.json" };
    dpx_trainer *u = make_trainer(adam);

    for (size_t i = 0; i < sizeof names / sizeof *names && u; i++) {
        unsigned char block[3 * 512] = { 0 };
        Bytes stream = { .data = (char *)block, .n = sizeof block };
        unsigned sum = 0;

        snprintf((char *)block, 100, "%s", names[i]);
        snprintf((char *)block + 124, 12, "%011o", 0);
        memset(block + 148, ' ', 8);
        block[156] = '0';
        memcpy(block + 257, "ustar", 6);
        for (int k = 0; k < 512; k++)
            sum += block[k];
        snprintf((char *)block + 148, 8, "%06o", sum);
        CHECK_DPX_FAILS(DPX_IO, "a stream: the archive has", load(u, &stream, stream.n));
    }
    dpx_trainer_free(u);
}

/* ---- models in memory ---- */

static void run_model(const dpx_model *m, float *logits)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    dpx_tensor y = { .data = NULL };
    Batch b;

    make_batch(&b, 1);
    CHECK_DPX(dpx_options_set(o, "threads", "1"));
    if (CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)) && CHECK_DPX(dpx_run(t, b.tensor, 1, &y, 1)))
        memcpy(logits, y.data, SAMPLES * CLASSES * sizeof *logits);
    dpx_trainer_free(t);
    dpx_options_free(o);
}

/* The folder of a model with its data file, and how often that was asked for. */
typedef struct {
    const char *folder;
    Bytes data;
    int calls;
    dpx_status fails;
} Weights;

static dpx_status read_weights(void *user, const char *location, uint64_t offset, size_t bytes, void *to)
{
    Weights *w = user;
    char path[600];

    snprintf(path, sizeof path, "%s/%s", w->folder, location);
    if (!w->calls++)
        w->data = read_file(path);
    if (w->fails || offset + bytes > w->data.n)
        return w->fails ? w->fails : DPX_INVALID;
    memcpy(to, w->data.data + offset, bytes);
    return DPX_OK;
}

static void test_memory(void)
{
    static float logits[2][SAMPLES * CLASSES];
    Bytes file = read_file(MLP);
    dpx_model *m = NULL, *whole = NULL;

    CHECK_DPX(dpx_model_load(&whole, MLP));
    if (CHECK_DPX(dpx_model_load_memory(&m, file.data, file.n, NULL, NULL, NULL, NULL)) && whole) {
        memset(file.data, 0, file.n); /* it was copied */
        run_model(m, logits[0]);
        run_model(whole, logits[1]);
        CU_ASSERT(!memcmp(logits[0], logits[1], sizeof *logits));
    }
    dpx_model_free(m);
    free(file.data);
    file = read_file(MLP);
    CHECK_DPX_FAILS(DPX_MODEL, "bytes of mine",
                    dpx_model_load_memory(&m, file.data, file.n / 2, "bytes of mine", NULL, NULL, NULL));
    CHECK_DPX_FAILS(DPX_MODEL, "the model in memory", dpx_model_load_memory(&m, "", 0, NULL, NULL, NULL, NULL));
    free(file.data);
    dpx_model_free(whole);
}

static void test_external(void)
{
    static float logits[2][SAMPLES * CLASSES];
    const ExportOptions how = { .plain = true, .most_bytes = 2000 };
    char folder[256], path[300];
    dpx_model *m = NULL, *whole = NULL;
    OnnxModel *onnx = NULL;
    Weights w = { .folder = folder };
    Graph *g = NULL;
    Bytes file;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    CU_ASSERT_FATAL(CHECK_OK(onnx_import_file(&g, &onnx, MLP, &(ImportOptions){ .eval = interp_node })));
    CHECK_OK(onnx_export_file(g, &how, path));
    file = read_file(path);
    CHECK_DPX(dpx_model_load(&whole, path));
    if (CHECK_DPX(dpx_model_load_memory(&m, file.data, file.n, "m", NULL, read_weights, &w)) && whole) {
        CU_ASSERT(w.calls > 0);
        run_model(m, logits[0]);
        run_model(whole, logits[1]);
        CU_ASSERT(!memcmp(logits[0], logits[1], sizeof *logits));
    }
    dpx_model_free(m);
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "external data needs",
                    dpx_model_load_memory(&m, file.data, file.n, "m", NULL, NULL, NULL));
    w.data.n /= 2;
    CHECK_DPX_FAILS(DPX_INVALID, "the caller's function failed with status -2",
                    dpx_model_load_memory(&m, file.data, file.n, "m", NULL, read_weights, &w));
    w.fails = (dpx_status)5;
    CHECK_DPX_FAILS(DPX_IO, "failed with status 5",
                    dpx_model_load_memory(&m, file.data, file.n, "m", NULL, read_weights, &w));
    dpx_model_free(whole);
    onnx_model_free(onnx);
    graph_free(g);
    free(file.data);
    free(w.data.data);
    remove_folder(folder);
}

DEFINE_SUITE(streams, { "exports", test_export }, { "checkpoints", test_save }, { "damaged", test_damaged },
             { "forged", test_forged }, { "models in memory", test_memory }, { "external data", test_external });
