/* Status, arena, shapes and element types. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/arena.h"
#include "graph/base/foreign.h"
#include "graph/base/hash_table.h"
#include "graph/base/heap_array.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/tensor/dtype.h"
#include "graph/tensor/shape.h"
#include "tests/harness/test.h"

/* ---- status ---- */

static Status inner(void)
{
    return FAIL(E_SHAPE, "node '%s':\nexpected %d",
                "a\x01"
                "b",
                3);
}
static Status outer(void)
{
    TRY(inner());
    return ST_OK;
}

static void test_messages(void)
{
    status_clear();
    CHECK_STR("", status_message());
    CU_ASSERT_EQUAL(outer(), E_SHAPE);
    CHECK_STR("node 'a b': expected 3", status_message()); /* one line, no control characters */
    CU_ASSERT_PTR_NOT_NULL(strstr(status_trace(), "base.c:"));
    CU_ASSERT_PTR_NOT_NULL(strstr(status_trace(), " < base.c:"));
    CU_ASSERT_EQUAL(status_prefix(E_SHAPE, "file %s", "m.onnx"), E_SHAPE);
    CHECK_STR("file m.onnx: node 'a b': expected 3", status_message());
    CU_ASSERT_EQUAL(FAIL(E_MODEL, "again: %s", status_message()), E_MODEL); /* the old message may be an argument */
    CHECK_STR("again: file m.onnx: node 'a b': expected 3", status_message());
    CU_ASSERT_EQUAL(status_prefix(ST_OK, "no"), ST_OK);
    CHECK_STR("unknown status", status_name((Status)7));
    CHECK_STR("unknown status", status_name((Status)-99));
}

static void test_problems(void)
{
    Problems p = { 0 };

    CHECK_OK(problems_fail(&p, E_UNSUPPORTED, "none"));
    problems_add(&p, "first %d", 1);
    problems_add(&p, "second");
    CHECK_FAILS(E_UNSUPPORTED, "2 things: first 1; second", problems_fail(&p, E_UNSUPPORTED, "%d things", p.n));
    CU_ASSERT_EQUAL(p.n, 0);
    for (int i = 0; i < 100000; i++)
        problems_add(&p, "a problem of some length, number %d", i);
    CU_ASSERT_EQUAL(p.n, 100000);
    CHECK_FAILS(E_UNSUPPORTED, "number 0; ", problems_fail(&p, E_UNSUPPORTED, "many"));
}

/* ---- arena ---- */

static void test_arena(void)
{
    Arena *a = arena_create();
    char *all[300];
    size_t cap = 0, n = 0;
    int *list = NULL;

    for (size_t i = 0; i < 300; i++) {
        size_t size = i * i;

        all[i] = arena_alloc(a, size);
        CU_ASSERT_EQUAL((uintptr_t)all[i] % (size >= 256 ? 64 : 16), 0);
        for (size_t k = 0; k < size; k++)
            if (all[i][k])
                CU_FAIL_FATAL("not zeroed");
        memset(all[i], (int)i, size);
    }
    for (size_t i = 0; i < 300; i++) /* nobody wrote into a neighbour, nothing moved */
        for (size_t k = 0; k < i * i; k++)
            if (all[i][k] != (char)i)
                CU_FAIL_FATAL("overlap");
    CU_ASSERT_PTR_NULL(arena_array(a, 16, SIZE_MAX / 8));
    CU_ASSERT_PTR_NULL(arena_alloc(a, SIZE_MAX - 100));
    CHECK_STR("x=7", arena_printf(a, "x=%d", 7));
    for (n = 0; n < 1000; n++) {
        list = arena_grow(a, list, sizeof *list, n, &cap);
        list[n] = (int)n;
    }
    for (n = 0; n < 1000; n++)
        CU_ASSERT(list[n] == (int)n);
    arena_free(a);
    arena_free(NULL);
}

/* What was moved stays where it is, and counts against the budget until its new arena goes; what is small stays. */
static void test_arena_move(void)
{
    enum { BIG = 1 << 18 };
    MemoryBudget *b = memory_budget_create(1 << 20, "--test");
    Arena *from = arena_create_within(b), *to = arena_create_within(b), *other = arena_create();
    char *big = arena_alloc(from, BIG), *small = arena_alloc(from, 100), *next = arena_alloc(from, BIG);

    memset(big, 7, BIG);
    memset(next, 8, BIG);
    CU_ASSERT_FALSE(arena_move(to, from, small, 100));
    CU_ASSERT_FALSE(arena_move(other, from, big, BIG));
    CU_ASSERT_TRUE(arena_move(to, from, big, BIG));
    CU_ASSERT(arena_bytes(to) >= BIG && arena_bytes(from) >= BIG && arena_bytes(from) < 2 * BIG);
    CU_ASSERT(next[0] == 8 && next[BIG - 1] == 8);
    arena_free(from);
    CU_ASSERT(big[0] == 7 && big[BIG - 1] == 7);
    CU_ASSERT_FALSE(memory_budget_take(b, (1 << 20) - BIG + 1));
    arena_free(to);
    CU_ASSERT_TRUE(memory_budget_take(b, 1 << 20));
    arena_free(other);
    memory_budget_free(b);
}

/* What one arena lends of another outlives its owner, and goes with the last that needs it. */
static void test_arena_hold(void)
{
    MemoryBudget *b = memory_budget_create(1 << 20, "--test");
    Arena *lender = arena_create_within(b), *a = arena_create(), *last = arena_create();
    const char *text = arena_strdup(lender, "lent");

    CU_ASSERT(arena_hold(a, lender) && arena_hold(a, lender) && arena_hold(last, a));
    arena_free(lender);
    arena_free(a);
    CHECK_STR("lent", text);
    CU_ASSERT_FALSE(memory_budget_take(b, 1 << 20));
    arena_free(last);
    CU_ASSERT(memory_budget_take(b, 1 << 20));
    memory_budget_free(b);
}

/* A list that grows to a megabyte leaves nothing behind of its former places, and what lies between them stays. */
static void test_arena_grow(void)
{
    Arena *a = arena_create();
    int *list = NULL, *between[1 << 18 >> 12];
    size_t cap = 0, n, bytes;

    for (n = 0; n < 1 << 18; n++) {
        list = arena_grow(a, list, sizeof *list, n, &cap);
        list[n] = (int)n;
        if (!(n & 4095))
            *(between[n >> 12] = ARENA_NEW(a, int, 1)) = (int)n;
    }
    for (n = 0; n < 1 << 18; n++)
        CU_ASSERT_FATAL(list[n] == (int)n);
    for (n = 0; n < 1 << 18; n += 4096)
        CU_ASSERT(*between[n >> 12] == (int)n);
    bytes = arena_bytes(a);
    CU_ASSERT(bytes >= (1 << 20) && bytes < (1 << 20) + (1 << 18));
    arena_give_back(a, list, cap * sizeof *list);
    CU_ASSERT_EQUAL(arena_bytes(a), bytes - (1 << 20));
    arena_free(a);
}

/* ---- shapes ---- */

static void check_broadcast(Shape a, Shape b, const char *expected)
{
    char text[SHAPE_TEXT];
    Shape out, back;

    CHECK_OK(shape_broadcast(&out, &a, &b, "t"));
    CHECK_STR(expected, shape_text(&out, text));
    CHECK_OK(shape_broadcast(&back, &b, &a, "t"));
    CU_ASSERT(shape_eq(&out, &back));
}

static void test_broadcast(void)
{
    Shape a = SHAPE(2, 3), b = SHAPE(2, 4), z = SHAPE(0, 3), out;

    check_broadcast(SHAPE(2, 3), shape_scalar(), "[2,3]");
    check_broadcast(SHAPE(2, 1, 4), SHAPE(3, 1), "[2,3,4]");
    check_broadcast(SHAPE(1), SHAPE(0), "[0]");
    check_broadcast(SHAPE(5, 1), SHAPE(1, 0), "[5,0]");
    CHECK_FAILS(E_SHAPE, "n: shapes [2,3] and [2,4] do not broadcast", shape_broadcast(&out, &a, &b, "n"));
    CHECK_FAILS(E_SHAPE, "do not broadcast", shape_broadcast(&out, &a, &z, "n"));
}

static void test_shape_limits(void)
{
    Shape big = SHAPE(INT64_MAX / 4, 4), zero = SHAPE(0, INT64_MAX, 2), negative = SHAPE(3, -1),
          unknown = shape_unknown();
    Shape widest = SHAPE(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
    char text[SHAPE_TEXT];
    int axis;

    CHECK_FAILS(E_SHAPE, "overflows", shape_check(&big, 8));
    CHECK_FAILS(E_SHAPE, "overflows", shape_check(&zero, 1));
    CHECK_FAILS(E_SHAPE, "dimension 1 is -1", shape_check(&negative, 4));
    CU_ASSERT_EQUAL(shape_numel(&negative), -1);
    CU_ASSERT_EQUAL(shape_numel(&unknown), -1);
    CU_ASSERT(strlen(shape_text(&widest, text)) < SHAPE_TEXT);
    CHECK_STR("[3,?]", shape_text(&negative, text));
    CHECK_STR("?", shape_text(&unknown, text));
    CHECK_OK(shape_axis(&axis, -3, 3, "n"));
    CU_ASSERT_EQUAL(axis, 0);
    CHECK_FAILS(E_SHAPE, "n: axis 3 of rank 3", shape_axis(&axis, 3, 3, "n"));
    CHECK_FAILS(E_SHAPE, "axis -4", shape_axis(&axis, -4, 3, "n"));
    CHECK_FAILS(E_SHAPE, "axis", shape_axis(&axis, INT64_MIN, 0, "n"));
}

static void test_strides(void)
{
    Shape s = SHAPE(2, 3, 4), e = SHAPE(2, 0, 4);
    int64_t stride[MAX_RANK];

    shape_strides(&s, stride);
    CU_ASSERT(stride[0] == 12 && stride[1] == 4 && stride[2] == 1);
    CU_ASSERT_EQUAL(shape_count(&s, 1, 3), 12);
    CU_ASSERT_EQUAL(shape_count(&s, 3, 3), 1);
    CU_ASSERT_EQUAL(shape_numel(&e), 0);
}

static void test_dtypes(void)
{
    for (int t = 1; t < DT_COUNT; t++)
        CU_ASSERT_EQUAL(dtype_parse(dtype_name((DType)t)), (DType)t);
    CU_ASSERT_EQUAL(dtype_parse("float"), DT_NONE);
    CHECK_STR("unknown", dtype_name((DType)-1));
    CHECK_STR("unknown", dtype_name((DType)1000));
    CU_ASSERT_EQUAL(dtype_size((DType)1000), 0);
    CU_ASSERT(!dtype_is_float((DType)1000) && !dtype_is_int((DType)-5));
    CU_ASSERT(dtype_is_float(DT_BFLOAT16) && dtype_is_int(DT_UINT64) && !dtype_is_int(DT_BOOL));
}

/* ---- numbers as text ---- */

static void test_numbers(void)
{
    char text[NUMBER_TEXT];
    double d;
    float f;

    CHECK_STR("0.1", text_float32(text, 0.1f));
    CHECK_STR("0.1", text_float64(text, 0.1));
    CHECK_STR("0.10000000149011612", text_float64(text, 0.1f));
    CHECK_STR("0x1.8p+0", text_hex64(text, 1.5));
    CHECK_STR("Batch_N", ascii_casestr("my Batch_N", "bATCH"));
    CU_ASSERT(!ascii_casestr("bat", "batch") && !ascii_casestr("", "i") && ascii_casestr("TIME", "time"));
    CHECK_STR("1e-45", text_float32(text, 1e-45f));
    CU_ASSERT(text_to_float32(&f, "16777217", 8) && f == 16777216.0f);
    CU_ASSERT(text_to_float32(&f, "1.00000017881393432617187499", 28) &&
              f == 0x1.000002p0f); /* by way of double: 0x1.000004p0 */
    CU_ASSERT(text_to_float64(&d, "1e3", 3) && d == 1000);
    CU_ASSERT(!text_to_float64(&d, "1e3x", 4) && !text_to_float64(&d, "", 0) && !text_to_float64(&d, " 1", 2));
    CU_ASSERT(!text_to_float64(&d, "0x10", 4) && !text_to_float64(&d, "1,5", 3));
}

/* ---- numbers ---- */

/* Under any locale of the program (tests/run.sh: one with a comma), which keeps it. */
static void test_numbers_as_text(void)
{
    char text[64] = "", printed[64] = "";
    FILE *f = fmemopen(printed, sizeof printed, "w");
    Arena *a = arena_create();

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CHECK_STR("all-reduce, 452.4 KiB", arena_printf(a, "%s, %.1f KiB", "all-reduce", 452.4));
    CU_ASSERT_EQUAL(text_format(text, sizeof text, "%g", 0.25), 4);
    CHECK_STR("0.25", text);
    CHECK_STR("0 B", bytes_text(text, 0));
    CHECK_STR("1023 B", bytes_text(text, 1023));
    CHECK_STR("1.0 KiB", bytes_text(text, 1024));
    CHECK_STR("1.5 MiB", bytes_text(text, 3 << 19));
    CHECK_STR("16.0 TiB", bytes_text(text, (uint64_t)1 << 44));
    CHECK_STR("0", grouped_text(text, 0));
    CHECK_STR("999", grouped_text(text, 999));
    CHECK_STR("-999", grouped_text(text, -999));
    CHECK_STR("-1,000", grouped_text(text, -1000));
    CHECK_STR("9,223,372,036,854,775,807", grouped_text(text, INT64_MAX));
    CU_ASSERT_EQUAL(text_print(f, "%.3e", 1.5), 9);
    fclose(f);
    CHECK_STR("1.500e+00", printed);
    arena_free(a);
}

/* ---- foreign text ---- */

static void test_foreign(void)
{
    char text[] = "a\x1b[31mb\xc2\x9b"
                  "2J\xe2\x80\xae"
                  "c\xff\xc3\xa9\n\x7f";
    char shown[64] = "", *alone = malloc(3);
    FILE *f = fmemopen(shown, sizeof shown, "w");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    foreign_print(f, text);
    fclose(f);
    CHECK_STR("a?[31mb??2J???c?\xc3\xa9??", shown);
    foreign_clean(text);
    CHECK_STR("a [31mb  2J   c \xc3\xa9  ", text);
    CU_ASSERT(utf8_valid("\xf0\x9f\x98\x80") && !utf8_valid("\xed\xa0\x80") && !utf8_valid("\xc0\x80") &&
              !utf8_valid("\xe2\x80"));
    CU_ASSERT_EQUAL(utf8_code("\xe2\x80\xae"), 0x202e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(alone);
    CU_ASSERT_EQUAL(utf8_code(memcpy(alone, "\xe2\x80\xae", 3)),
                    0x202e); /* without a byte behind it, which ASan sees */
    free(alone);
}

/* ---- JSON and arrays ---- */

/* Layouts as CPython's json.dumps(..., indent=2) and json.dumps(..., separators=(",", ":")) give them, but for lists of
 * numbers, which stay on one line. */
static void write_sample(JsonWriter w, char text[512])
{
    w.to = fmemopen(text, 512, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(w.to);
    json_open(&w, NULL, '{');
    json_write_string(&w, "name", "a\"\\\n</b>\xff\xc3\xa9");
    json_open(&w, "list", '[');
    json_close(&w);
    json_open(&w, "rows", '[');
    for (int i = 0; i < 2; i++) {
        json_open(&w, NULL, '{');
        json_write_bool(&w, "first", !i);
        json_open(&w, "shape", '[');
        json_write_int(&w, NULL, INT64_MIN);
        json_write_string(&w, NULL, NULL);
        json_close(&w);
        json_close(&w);
    }
    json_close(&w);
    json_write_float(&w, "x", 0.1);
    json_write_float(&w, "inf", 1e308 * 10);
    json_close(&w);
    CU_ASSERT(!fclose(w.to));
}

static void test_json_writer(void)
{
    char text[512];

    write_sample((JsonWriter){ .lines = 2 }, text);
    CHECK_STR("{\n"
              "  \"name\": \"a\\\"\\\\\\u000a</b>\\ufffd\xc3\xa9\",\n"
              "  \"list\": [],\n"
              "  \"rows\": [\n"
              "    {\"first\": true, \"shape\": [-9223372036854775808, null]},\n"
              "    {\"first\": false, \"shape\": [-9223372036854775808, null]}\n"
              "  ],\n"
              "  \"x\": 0.1,\n"
              "  \"inf\": null\n"
              "}\n",
              text);
    write_sample((JsonWriter){ .compact = true, .html = true }, text);
    CHECK_STR("{\"name\":\"a\\\"\\\\\\u000a\\u003c/b\\u003e\\ufffd\xc3\xa9\",\"list\":[],\"rows\":["
              "{\"first\":true,\"shape\":[-9223372036854775808,null]},"
              "{\"first\":false,\"shape\":[-9223372036854775808,null]}],\"x\":0.1,\"inf\":null}\n",
              text);
}

static void test_heap_array(void)
{
    size_t room = 0;
    int *list = NULL, *grown;

    for (size_t i = 0; i < 100; i++) {
        grown = heap_reserve(list, sizeof *list, i + 1, &room);
        CU_ASSERT_PTR_NOT_NULL_FATAL(grown);
        CU_ASSERT(room > i);
        list = grown;
        list[i] = (int)i;
    }
    for (int i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(list[i], i);
    CU_ASSERT_EQUAL(room, 128);
    CU_ASSERT_PTR_NULL(heap_reserve(list, sizeof *list, SIZE_MAX / 2, &room)); /* and the array stays */
    CU_ASSERT_EQUAL(room, 128);
    CU_ASSERT_EQUAL(list[99], 99);
    free(list);
}

static bool same_number(const void *item, const void *key) { return *(const int *)item == *(const int *)key; }

/* Items are found by their hash and by what they equal, while the table grows; hashes may be the same. */
static void test_hash_table(void)
{
    enum { COUNT = 1000, HASHES = 300 };
    Arena *a = arena_create();
    HashTable t = { 0 };
    int number[COUNT];

    for (int i = 0; i < COUNT; i++) {
        number[i] = i;
        CU_ASSERT_TRUE(hash_table_reserve(&t, a));
        CU_ASSERT_PTR_NULL(hash_table_find(&t, (uint64_t)(i % HASHES), same_number, &i));
        hash_table_add(&t, (uint64_t)(i % HASHES), &number[i]);
    }
    CU_ASSERT_EQUAL(t.n, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CU_ASSERT_PTR_EQUAL(hash_table_find(&t, (uint64_t)(i % HASHES), same_number, &i), &number[i]);
        CU_ASSERT_PTR_NULL(hash_table_find(&t, HASHES, same_number, &i));
    }
    arena_free(a);
}

DEFINE_SUITE(base, { "numbers as text", test_numbers_as_text }, { "messages are one line with context", test_messages },
             { "problems are listed", test_problems }, { "arena", test_arena },
             { "an arena gives back", test_arena_grow }, { "an arena holds another", test_arena_hold },
             { "hash tables", test_hash_table }, { "what an arena gives to another", test_arena_move },
             { "broadcasting", test_broadcast }, { "limits of shapes", test_shape_limits }, { "strides", test_strides },
             { "element types", test_dtypes }, { "numbers read back", test_numbers }, { "JSON", test_json_writer },
             { "arrays on the heap", test_heap_array }, { "foreign text", test_foreign });
