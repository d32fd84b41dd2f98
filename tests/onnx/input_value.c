/* Inputs that are constants of given numbers: of every type, to the bounds of what each holds. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/onnx/build.h"

/* Of the input "s" alone. */
static const char *text_of_s(void *user, const char *name) { return strcmp(name, "s") ? NULL : user; }

/* y = x, s as it is. */
static Status import(Graph **out, DType dtype, const char *dims, const char *text)
{
    const char *folder = test_folder("input_value");
    Built b = built_relu();
    char path[512];

    built_input(&b, "s", dtype, dims);
    built_node(&b, "Identity", "s", "t");
    built_output(&b, "t");
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    built_write(&b, folder);
    built_free(&b);
    return onnx_import_file(
        out, NULL, path,
        &(ImportOptions){ .eval = interp_node, .input_value = text_of_s, .input_value_user = (void *)(uintptr_t)text });
}

static void test_held(void)
{
    static const struct {
        DType dtype;
        const char *dims, *text;
        int rank;
        int64_t n;
        double first, last;
    } held[] = {
        { DT_INT64, "", "16000", 0, 1, 16000, 16000 },
        { DT_INT64, "", "-9223372036854775808", 0, 1, -0x1p63, -0x1p63 },
        { DT_UINT64, "", "18446744073709549568", 0, 1, 0x1p64 - 2048, 0x1p64 - 2048 },
        { DT_INT32, "2", "1e3,-4", 1, 2, 1000, -4 },
        { DT_UINT8, "1", "255", 1, 1, 255, 255 },
        { DT_INT8, "", "-128", 0, 1, -128, -128 },
        { DT_UINT16, "", "65535", 0, 1, 65535, 65535 },
        { DT_BOOL, "", "true", 0, 1, 1, 1 },
        { DT_BOOL, "2", "1,false", 1, 2, 1, 0 },
        { DT_FLOAT32, "", "0.1", 0, 1, 0.1F, 0.1F },
        { DT_FLOAT32, "", "-inf", 0, 1, -INFINITY, -INFINITY },
        { DT_FLOAT64, "2,2", "1,2,3,0.1", 2, 4, 1, 0.1 },
        { DT_FLOAT16, "", "65504", 0, 1, 65504, 65504 },
        { DT_BFLOAT16, "", "1e38", 0, 1, 0x1.2cp126, 0x1.2cp126 },
        { DT_FLOAT8E4M3FN, "", "448", 0, 1, 448, 448 },
        { DT_INT4, "", "-8", 0, 1, -8, -8 },
        { DT_INT64, "N", "5,6,7", 1, 3, 5, 7 },
        { DT_INT64, "N,2", "5,6,7,8", 2, 4, 5, 8 },
        { DT_INT64, "N,M", "5", 2, 1, 5, 5 },
    };

    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        Graph *g = NULL;
        const Tensor *t;

        if (!CHECK_OK(import(&g, held[i].dtype, held[i].dims, held[i].text)))
            continue;
        CU_ASSERT(g->n_input == 1 && !strcmp(value(g, g->input[0])->name, "x"));
        t = value_const(g, g->output[1].value);
        if (t && tensor_numel(t) == held[i].n) {
            CU_ASSERT(t->dtype == held[i].dtype && t->shape.rank == held[i].rank);
            CU_ASSERT(tensor_float(t, 0) == held[i].first && tensor_float(t, held[i].n - 1) == held[i].last);
            CU_ASSERT(value(g, g->output[1].value)->evidence == EVIDENCE_GIVEN);
        } else {
            CU_FAIL("another number of elements");
        }
        graph_free(g);
    }
}

static void test_not_held(void)
{
    static const struct {
        DType dtype;
        const char *dims, *text, *said;
    } wrong[] = {
        { DT_UINT8, "", "300", "input 's' is uint8[], which cannot hold 300" },
        { DT_UINT8, "", "-1", "input 's' is uint8[], which cannot hold -1" },
        { DT_UINT64, "", "-1", "input 's' is uint64[], which cannot hold -1" },
        { DT_UINT64, "", "18446744073709551616", "which cannot hold 18446744073709551616" },
        { DT_INT64, "", "0.5", "input 's' is int64[], which cannot hold 0.5" },
        { DT_INT64, "", "9223372036854775808", "which cannot hold 9223372036854775808" },
        { DT_INT64, "", "inf", "which cannot hold inf" },
        { DT_INT64, "", "nan", "which cannot hold nan" },
        { DT_INT64, "", "true", "which cannot hold true" },
        { DT_INT64, "2", "1,2.5", "input 's' is int64[2], which cannot hold 2.5" },
        { DT_BOOL, "", "2", "which cannot hold 2 (expected 0, 1, false or true)" },
        { DT_FLOAT16, "", "70000", "input 's' is float16[], which cannot hold 70000" },
        { DT_FLOAT32, "", "1e39", "which cannot hold 1e39" },
        { DT_FLOAT32, "", "1e-60", "which cannot hold 1e-60" },
        { DT_FLOAT32, "", "nan", "which cannot hold nan" },
        { DT_FLOAT8E4M3FN, "", "1000", "which cannot hold 1000" },
        { DT_INT4, "", "8", "which cannot hold 8" },
        { DT_INT64, "", "1,2", "input 's' is int64[], found 2 numbers" },
        { DT_INT64, "3", "1", "input 's' is int64[3], found 1 number" },
        { DT_INT64, "N,2", "1,2,3", "input 's' is int64[?,2], found 3 numbers" },
        { DT_INT64, "N,M", "1,2", "input 's' is int64[?,?], found 2 numbers" },
        { DT_INT64, "0", "1", "input 's' is int64[0], found 1 number" },
        { DT_STRING, "", "1", "input 's': " },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Graph *g = NULL;

        CHECK_FAILS(E_INVALID, wrong[i].said, import(&g, wrong[i].dtype, wrong[i].dims, wrong[i].text));
    }
}

DEFINE_SUITE(input_value, { "what an input holds", test_held }, { "what it cannot hold", test_not_held });
