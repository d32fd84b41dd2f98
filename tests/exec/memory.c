/* What a step needs of a device's memory: the numbers and the table, and the error when it cannot be had. */
#include <string.h>

#include "exec/plan/memory_report.h"
#include "exec/train/session.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"

typedef struct {
    char text[4096];
    int warnings;
} Lines;

static void add_line(void *user, const char *line)
{
    Lines *l = user;

    strncat(l->text, line, sizeof l->text - strlen(l->text) - 2);
    strcat(l->text, "\n");
}

static void add_log(void *user, LineLevel level, const char *line)
{
    Lines *l = user;

    l->warnings += level == LINE_WARNING;
    add_line(user, line);
}

/* Arithmetic by hand: float32[256,256] is 256 KiB, [256,1024] 1 MiB.  %a is an output, so it lives to the end; %wide is
 * read last by the second MatMul, whose result %b begins there. */
static void test_table(void)
{
    static const char source[] = "graph \"g\" {\n"
                                 "  input %x : float32[256,256]\n"
                                 "  state %w : float32[256,1024] = all 0\n"
                                 "  state %u : float32[1024,256] = all 0\n"
                                 "  const %k : float32[1024] = all 2\n"
                                 "  %a : float32[256,256] = MatMul(%x, %x)\n"
                                 "  %wide : float32[256,1024] = MatMul(%a, %w)\n"
                                 "  %more : float32[256,1024] = Add(%wide, %k)\n"
                                 "  %b : float32[256,256] = MatMul(%more, %u)\n"
                                 "  output \"a\" = %a\n"
                                 "  output \"b\" = %b\n"
                                 "}\n";
    Arena *a = arena_create();
    const size_t scratch[] = { 0, 100, 0, 0 };
    MemoryPlan *plan;
    MemoryNeed need;
    Lines l = { .warnings = 0 };
    Graph *g;

    CHECK_OK(graph_parse(&g, source, strlen(source)));
    CHECK_OK(plan_memory(&plan, g, scratch, TARGET_ALIGN, a));
    CHECK_OK(memory_need(&need, g, plan, 0, true));
    CU_ASSERT(need.states == 2 << 20 && need.constants == 4096 && need.arena == plan->device[0].arena_bytes);
    CU_ASSERT_EQUAL(memory_total(&need), need.arena + need.states + need.constants);
    CHECK_OK(memory_need(&need, g, plan, 0, false));
    CU_ASSERT_EQUAL(need.constants, 0);
    CHECK_OK(memory_table(g, plan, 0, add_line, &l));
    CHECK_STR("the arena's peak, 1.5 MiB, is at MatMul b:\n"
              "     1.0 MiB  wide, from MatMul wide to MatMul b\n"
              "   256.0 KiB  a, from MatMul a to the end of the step\n"
              "   256.0 KiB  b, from MatMul b to the end of the step\n"
              "2 states, 2.0 MiB:\n"
              "     1.0 MiB  w\n"
              "     1.0 MiB  u\n",
              l.text);
    graph_free(g);
    arena_free(a);
}

/* 2^48 bytes are more than any address space has. */
static void test_too_large(void)
{
    static const char source[] = "graph \"g\" {\n"
                                 "  input %x : float32[1]\n"
                                 "  const %s : int64[3] = {65536,65536,16384}\n"
                                 "  %huge : float32[65536,65536,16384] = Expand(%x, %s)\n"
                                 "  output \"huge\" = %huge\n"
                                 "}\n";
    NamedTensor in = { "x", { DT_FLOAT32, SHAPE(1), NULL } };
    BuildOptions opt = { .mode = BUILD_INFER };
    Lines l = { .warnings = 0 };
    Session *s = NULL;
    DeviceList list;
    Graph *g;

    CHECK_OK(graph_parse(&g, source, strlen(source)));
    CHECK_OK(device_list_parse(&list, "cpu", 1));
    CHECK_OK(session_create(&s, g, &opt, &list, add_log, &l));
    CHECK_FAILS(E_NOMEM,
                "cpu:0: out of memory: a step needs 256.0 TiB (arena 256.0 TiB, states 0 B, constants 0 B); the "
                "machine or its group has ",
                session_prepare(s, BUILD_INFER, &in, 1));
    CU_ASSERT_PTR_NOT_NULL(strstr(l.text, "cpu:0:    256.0 TiB  huge, from Expand huge"));
    CU_ASSERT(l.warnings >= 2);
    session_free(s);
    graph_free(g);
}

DEFINE_SUITE(memory, { "table", test_table }, { "more than there is", test_too_large });
