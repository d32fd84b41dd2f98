/* Tensors of strings, which dpx_interpret takes and gives, and nothing else.  The model is texts.py's. */
#include <stdbool.h>
#include <string.h>

#include "tests/api/api.h"

#define MODEL SOURCE_DIR "/tests/api/texts.onnx"
#define TEXT(s) (&(dpx_text){ sizeof(s) - 1, (s) })

static dpx_tensor strings(const char *name, int64_t n, const dpx_text **text)
{
    return (dpx_tensor){ .name = name, .dtype = DPX_STRING, .rank = 1, .dim = { n }, .data = text };
}

static bool is(const dpx_text *found, const char *bytes, size_t n)
{
    return found ? found->n == n && !memcmp(found->bytes, bytes, n) : !n;
}

/* What is given is copied, and what is returned lives by itself. */
static void test_interpret(void)
{
    char first[] = "caf\xc3\xa9";
    const dpx_text own = { 5, first };
    const dpx_tensor x = strings("x", 3, (const dpx_text *[]){ &own, NULL, TEXT("a\0b") }),
                     y = strings("y", 3, (const dpx_text *[]){ TEXT("!"), NULL, TEXT("a\0c") });
    dpx_options *o = dpx_options_create();
    dpx_data *part[2] = { NULL }, *map = NULL, *out = NULL;
    dpx_tensor both, same;

    CHECK_DPX(dpx_data_tensor(&part[0], &x));
    CHECK_DPX(dpx_data_tensor(&part[1], &y));
    memset(first, 'x', 5);
    CHECK_DPX(dpx_data_map(&map, (const char *const[]){ "x", "y" }, (const dpx_data *const *)part, 2));
    CHECK_DPX(dpx_interpret(&out, MODEL, o, map));
    dpx_data_free(map);
    dpx_data_free(part[0]);
    dpx_data_free(part[1]);
    CHECK_DPX(dpx_data_view(dpx_data_find(out, "both"), &both));
    CHECK_DPX(dpx_data_view(dpx_data_find(out, "same"), &same));
    CU_ASSERT(both.dtype == DPX_STRING && both.rank == 1 && both.dim[0] == 3 && same.dtype == DPX_BOOL);
    CU_ASSERT(is(((const dpx_text **)both.data)[0], "caf\xc3\xa9!", 6));
    CU_ASSERT(is(((const dpx_text **)both.data)[1], "", 0));
    CU_ASSERT(is(((const dpx_text **)both.data)[2], "a\0ba\0c", 6));
    CU_ASSERT(!memcmp(same.data, (const char[]){ 0, 1, 0 }, 3));
    dpx_data_free(out);
    dpx_options_free(o);
}

static void test_refused(void)
{
    const dpx_tensor wrong = strings("x", 2, (const dpx_text *[]){ TEXT("a"), TEXT("\xc3") }),
                     good = strings("x", 1, (const dpx_text *[]){ TEXT("a") });
    dpx_data *d = NULL, *batch = NULL;
    dpx_model *m = NULL;

    CHECK_DPX_FAILS(DPX_INVALID, "tensor 'x': string 1 is no UTF-8", dpx_data_tensor(&d, &wrong));
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "string tensors are supported only by the interpreter, without training",
                    dpx_model_load(&m, MODEL));
    CHECK_DPX(dpx_data_tensor(&d, &good));
    CHECK_DPX_FAILS(DPX_INVALID, "a tensor of strings", dpx_collate(&batch, (const dpx_data *const[]){ d, d }, 2, 1));
    CHECK_DPX_FAILS(DPX_INVALID, "a tensor of strings", dpx_scatter((dpx_data *[]){ NULL, NULL }, d, 2));
    dpx_data_free(d);
}

/* Where numbers are wanted. */
static void test_steps(void)
{
    const dpx_tensor x = strings("input", 1, (const dpx_text *[]){ TEXT("a") });
    dpx_options *o = dpx_options_create();

    CHECK_DPX_FAILS(DPX_INVALID, "strings are for dpx_interpret", dpx_options_set_class_weights(o, &x));
    dpx_options_free(o);
}

DEFINE_SUITE(texts, { "in and out", test_interpret }, { "refused", test_refused }, { "no weights", test_steps });
