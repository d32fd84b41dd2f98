/* The parts of dpexec.h that need no trainer: models, tensors, DLPack, options, devices, transformation. */
#include <dlpack/dlpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/api.h"
#include "exec/api/memory_text.h"
#include "exec/inspect/transform.h"
#include "graph/onnx/onnx.h"
#include "graph/text/parse.h"
#include "tests/api/api.h"

static void test_model(void)
{
    dpx_model *m = NULL;
    dpx_info info;

    if (!CHECK_DPX(dpx_model_load(&m, MLP)))
        return;
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_INPUT), 1);
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_OUTPUT), 1);
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_STATE), 6);
    CHECK_DPX(dpx_model_info(m, DPX_INPUT, 0, &info));
    CHECK_STR("x", info.name);
    CU_ASSERT(info.dtype == DPX_FLOAT32 && info.rank == 2 && info.dim[0] == -1 && info.dim[1] == 64);
    CU_ASSERT(info.dim_name[0] && !info.dim_name[1]);
    CHECK_DPX(dpx_model_info(m, DPX_OUTPUT, 0, &info));
    CHECK_STR("logits", info.name);
    CU_ASSERT(info.dtype == DPX_FLOAT32 && info.rank == 2 && info.dim[0] == -1 && info.dim[1] == 10); /* as declared */
    CHECK_STR("batch", info.dim_name[0]);
    for (int i = 0; i < 6; i++) {
        CHECK_DPX(dpx_model_info(m, DPX_STATE, i, &info));
        CU_ASSERT(info.trainable && (strstr(info.name, ".weight") || strstr(info.name, ".bias")));
    }
    CHECK_DPX_FAILS(DPX_INVALID, "6", dpx_model_info(m, DPX_STATE, 6, &info));
    CHECK_DPX_FAILS(DPX_INVALID, "-1", dpx_model_info(m, DPX_INPUT, -1, &info));
    dpx_model_free(m);
}

/* Rows of the table that integers select from; floats and labels select from none. */
static void test_rows(void)
{
    dpx_model *m;
    dpx_info info;

    if (CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/models/transformer.onnx"))) {
        CHECK_DPX(dpx_model_info(m, DPX_INPUT, 0, &info));
        CU_ASSERT(info.dtype == DPX_INT64 && info.rows == 256);
        dpx_model_free(m);
    }
    if (CHECK_DPX(dpx_model_load(&m, SOURCE_DIR "/models/mlp.onnx"))) {
        CHECK_DPX(dpx_model_info(m, DPX_INPUT, 0, &info));
        CU_ASSERT(!info.rows);
        dpx_model_free(m);
    }
}

static void test_bad_model(void)
{
    dpx_model *m = NULL;

    CHECK_DPX_FAILS(DPX_IO, "none.onnx", dpx_model_load(&m, "none.onnx"));
    CU_ASSERT(dpx_model_load(&m, SOURCE_DIR "/CMakeLists.txt") != DPX_OK && strstr(dpx_error(), "CMakeLists.txt"));
    CU_ASSERT(dpx_model_load(&m, SOURCE_DIR) != DPX_OK && !m);
    dpx_model_free(NULL);
}

static void test_dtypes(void)
{
    CU_ASSERT_EQUAL(dpx_dtype_size(DPX_FLOAT32), 4);
    CU_ASSERT_EQUAL(dpx_dtype_size(DPX_INT64), 8);
    CU_ASSERT_EQUAL(dpx_dtype_size(DPX_BFLOAT16), 2);
    CU_ASSERT_EQUAL(dpx_dtype_size((dpx_dtype)99), 0);
    CHECK_STR("float64", dpx_dtype_name(DPX_FLOAT64));
    CU_ASSERT(strchr(dpx_version(), '.') != NULL);
}

static void test_dlpack(void)
{
    float data[24];
    int64_t shape[3] = { 2, 3, 4 }, dense[3] = { 12, 4, 1 }, transposed[3] = { 1, 2, 6 };
    DLTensor t = { .data = data, .device = { kDLCPU, 0 }, .ndim = 3, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    dpx_tensor v;

    CHECK_DPX(dpx_tensor_from_dlpack(&v, "x", &t));
    CU_ASSERT(v.data == data && v.rank == 3 && v.dim[2] == 4 && v.dtype == DPX_FLOAT32 && !strcmp(v.name, "x"));
    t.strides = dense;
    t.byte_offset = 8;
    CHECK_DPX(dpx_tensor_from_dlpack(&v, "x", &t));
    CU_ASSERT(v.data == data + 2);
    t.strides = transposed;
    CHECK_DPX_FAILS(DPX_SHAPE, "dense", dpx_tensor_from_dlpack(&v, "x", &t));
    shape[1] = 0;
    t.data = NULL;
    CHECK_DPX(dpx_tensor_from_dlpack(&v, "x", &t)); /* steps between no elements mean nothing */
    CU_ASSERT(v.rank == 3 && v.dim[0] == 2 && v.dim[1] == 0 && v.dim[2] == 4);
    shape[1] = 3;
    t.data = data;
    t.strides = NULL;
    t.dtype.lanes = 4;
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "x", dpx_tensor_from_dlpack(&v, "x", &t));
    t.dtype = (DLDataType){ kDLComplex, 64, 1 };
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "x", dpx_tensor_from_dlpack(&v, "x", &t));
    t.dtype = (DLDataType){ kDLFloat, 32, 1 };
    t.ndim = 9;
    CHECK_DPX_FAILS(DPX_SHAPE, "rank", dpx_tensor_from_dlpack(&v, "x", &t));
    t.ndim = 3;
    t.device.device_type = kDLCUDA;
    CHECK_DPX_FAILS(DPX_DEVICE, "host", dpx_tensor_from_dlpack(&v, "x", &t));
}

static void test_options(void)
{
    dpx_options *o = dpx_options_create();
    float weights[3] = { 1, 2, 3 };
    dpx_tensor w = { .name = "w", .dtype = DPX_FLOAT32, .rank = 1, .dim = { 3 }, .data = weights };

    CHECK_DPX(dpx_options_set(o, "lr", "0.25"));
    CHECK_STR("0.25", dpx_options_get(o, "lr"));
    CHECK_DPX(dpx_options_set(o, "nesterov", "true"));
    CHECK_DPX(dpx_options_set(o, "freeze", "a*"));
    CHECK_DPX(dpx_options_set(o, "freeze", "b*"));
    CHECK_STR("a*;b*", dpx_options_get(o, "freeze"));
    CHECK_STR("", dpx_options_get(o, "replicas"));
    CU_ASSERT_PTR_NULL(dpx_options_get(o, "bogus"));
    CHECK_DPX_FAILS(DPX_INVALID, "--lr", dpx_options_set(o, "lr", "-1"));
    CHECK_STR("0.25", dpx_options_get(o, "lr"));
    CHECK_DPX_FAILS(DPX_INVALID, "bogus", dpx_options_set(o, "bogus", "1"));
    CHECK_DPX(dpx_options_set_class_weights(o, &w));
    w.rank = 2;
    w.dim[1] = 1;
    CU_ASSERT(dpx_options_set_class_weights(o, &w) != DPX_OK);
    for (int i = 0; i < dpx_option_count(); i++)
        CU_ASSERT(*dpx_option_at(i).name && *dpx_option_at(i).help && dpx_options_get(o, dpx_option_at(i).name));
    dpx_options_free(o);
    dpx_options_free(NULL);
}

static void test_devices(void)
{
    dpx_device d;
    int n = 0;

    setenv("DPEXEC_CUDA_PLUGIN", "/no/such/plugin.so", 1);
    CHECK_FAILS(E_DEVICE, "/no/such/plugin.so cannot be loaded", (Status)dpx_devices(NULL, 0, &n));
    CU_ASSERT_EQUAL(n, 1);
    CHECK_FAILS(E_DEVICE, "/no/such/plugin.so cannot be loaded", (Status)dpx_devices(&d, 1, &n));
    unsetenv("DPEXEC_CUDA_PLUGIN");
    CU_ASSERT_EQUAL(n, 1);
    CHECK_STR("cpu:0", d.name);
    CU_ASSERT(d.cores >= 1 && d.memory > 1 << 20 && !d.capability && !d.driver);
}

typedef struct {
    char text[200000];
    size_t n;
} Text;

static void add_text(void *user, const char *text, size_t bytes)
{
    Text *t = user;

    if (t->n + bytes < sizeof t->text)
        memcpy(t->text + t->n, text, bytes);
    t->n += bytes;
}

static void test_transform(void)
{
    static Text text;
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;

    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "batch-size", "8"));
    CHECK_DPX(dpx_options_set(o, "loss", "cross-entropy"));
    CHECK_DPX(dpx_options_set(o, "replicas", "2"));
    CHECK_DPX(dpx_options_set(o, "devices", "cpu*2"));
    CHECK_DPX(dpx_transform(m, o, NULL, "txt", add_text, &text));
    CU_ASSERT(text.n < sizeof text.text && strstr(text.text, "AllReduce"));
    memset(&text, 0, sizeof text);
    CHECK_DPX(dpx_transform(m, o, "autodiff", "txt", add_text, &text));
    CU_ASSERT(text.n && strstr(text.text, "Gemm") && !strstr(text.text, "AllReduce"));
    CHECK_DPX_FAILS(DPX_INVALID, "no-such-pass", dpx_transform(m, o, "no-such-pass", "txt", add_text, &text));
    CHECK_DPX_FAILS(DPX_INVALID, "pdf", dpx_transform(m, o, NULL, "pdf", add_text, &text));
    dpx_options_free(o);
    dpx_model_free(m);
}

/* dpx_transform writes the bytes of a file, and makes no file to do so. */
static void test_transform_onnx(void)
{
    static Text text;
    static char file[sizeof text.text];
    const char *tmp = getenv("TMPDIR");
    char folder[256], path[300], *before = tmp ? strdup(tmp) : NULL;
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    Graph *g = NULL;
    FILE *f;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/mlp.onnx", folder);
    CHECK_DPX(dpx_model_load(&m, MLP));
    CHECK_DPX(dpx_options_set(o, "batch-size", "8"));
    memset(&text, 0, sizeof text);
    setenv("TMPDIR", "/no/such/folder", 1);
    CHECK_DPX(dpx_transform(m, o, NULL, "onnx", add_text, &text));
    before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR");
    CHECK_OK(transform_run(&g, m->graph, (const Options *)o, NULL, NULL));
    CHECK_OK(transform_write(g, NULL, NULL, m->onnx, "onnx", path));
    CU_ASSERT_FATAL((f = fopen(path, "rb")) != NULL);
    CU_ASSERT(text.n > 1000 && fread(file, 1, sizeof file, f) == text.n && !memcmp(file, text.text, text.n));
    fclose(f);
    graph_free(g);
    free(before);
    remove_folder(folder);
    dpx_options_free(o);
    dpx_model_free(m);
}

/* A model of 100 bytes asks for a place for each of 2^31 products; none of it is taken. */
static void test_plan_memory(void)
{
    static const char *const products = "graph \"products\" {\n"
                                        "  input %x : float32[2147483648,1,1]\n"
                                        "  %y = MatMul(%x, %x)\n"
                                        "  output \"y\" = %y\n"
                                        "}\n";
    char folder[256], path[300];
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    Graph *g = NULL;
    static Text text;

    make_folder(folder);
    snprintf(path, sizeof path, "%s/products.onnx", folder);
    if (CHECK_OK(graph_parse(&g, products, strlen(products))))
        CHECK_OK(onnx_export_file(g, NULL, path));
    graph_free(g);
    CHECK_DPX(dpx_options_set(o, "plan-memory", "1G"));
    CHECK_DPX(dpx_model_load_within(&m, path, o));
    CHECK_DPX_FAILS(DPX_NOMEM, "planning needs more memory than --plan-memory allows: 1.000 GB",
                    dpx_plan(m, o, add_text, &text, NULL, NULL));
    CU_ASSERT(strstr(dpx_error(), "more needed") && strstr(dpx_error(), "MatMul"));
    dpx_model_free(m);
    m = NULL;
    CHECK_DPX(dpx_options_set(o, "plan-memory", "1k"));
    CHECK_DPX_FAILS(DPX_NOMEM, "planning needs more memory than --plan-memory allows: 1.000 kB",
                    dpx_model_load_within(&m, MLP, o));
    CU_ASSERT(!m && strstr(dpx_error(), "mlp.onnx"));
    dpx_options_free(o);
    remove_folder(folder);
}

/* 6 kB fit into a budget of 10, in a buffer of 8; 9 do not, and what was taken is given back. */
static void test_text_within(void)
{
    MemoryText t = { .budget = memory_budget_create(10000, "--plan-memory") };

    for (int lines = 600; lines <= 900; lines += 300) {
        FILE *f = memory_text_open(&t);

        for (int i = 0; f && i < lines; i++)
            fputs("123456789\n", f);
        if (lines == 600) {
            CU_ASSERT(f && !memory_text_close(f, ST_OK) && t.n == 6000 && !memcmp(t.data + 5990, "123456789\n", 10));
        } else {
            CHECK_FAILS(E_NOMEM, "than --plan-memory allows",
                        memory_budget_explain(t.budget, memory_text_close(f, ST_OK)));
        }
        memory_text_free(&t);
        CU_ASSERT(memory_budget_take(t.budget, 10000));
        memory_budget_give(t.budget, 10000);
    }
    memory_budget_free(t.budget);
}

/* Metadata of the model's file go with what its trainers export. */
static void test_metadata(void)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL, *again = NULL;
    dpx_trainer *t = NULL;
    char folder[256], path[300];

    make_folder(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    if (CHECK_DPX(dpx_model_load(&m, MLP))) {
        CU_ASSERT(!dpx_model_metadata(m, "task"));
        CHECK_DPX(dpx_model_set_metadata(m, "task", "guess"));
        CHECK_DPX(dpx_model_set_metadata(m, "classes", "[\"\303\205\"]"));
        CHECK_DPX(dpx_model_set_metadata(m, "task", "classification"));
        CHECK_DPX(dpx_model_set_metadata(m, "size", "8x8"));
        CHECK_DPX(dpx_model_set_metadata(m, "size", NULL));
        CHECK_DPX_FAILS(DPX_INVALID, "keys that begin with dpexec.", dpx_model_set_metadata(m, "dpexec.x", "y"));
        CHECK_DPX_FAILS(DPX_INVALID, "expected UTF-8", dpx_model_set_metadata(m, "x", "\377"));
        if (CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL)) && CHECK_DPX(dpx_trainer_export(t, path)) &&
            CHECK_DPX(dpx_model_load(&again, path))) {
            CHECK_STR("classification", dpx_model_metadata(again, "task"));
            CHECK_STR("[\"\303\205\"]", dpx_model_metadata(again, "classes"));
            CU_ASSERT(!dpx_model_metadata(again, "size") && !dpx_model_metadata(again, "x"));
        }
    }
    dpx_trainer_free(t);
    dpx_model_free(m);
    dpx_model_free(again);
    dpx_options_free(o);
    remove_folder(folder);
}

DEFINE_SUITE(model, { "load and inspect", test_model }, { "metadata", test_metadata }, { "rows of tables", test_rows },
             { "bad files", test_bad_model }, { "types", test_dtypes }, { "DLPack", test_dlpack },
             { "options", test_options }, { "devices", test_devices }, { "transform", test_transform },
             { "transform to ONNX", test_transform_onnx }, { "memory of planning", test_plan_memory },
             { "text within a budget", test_text_within });
