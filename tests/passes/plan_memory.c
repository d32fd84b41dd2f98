/* The memory plan, checked by carrying it out with tags instead of numbers: every 64 bytes of memory hold the name of
 * the value that was written there last, and every node must find its inputs where the plan says they are. */
#include "passes/plan/plan_memory.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/unary.gen.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "graph/text/parse.h"
#include "passes/plan/schedule.h"
#include "tests/harness/test.h"

enum { GRANULE = 64 };

typedef struct {
    const Graph *g;
    const MemoryPlan *plan;
    uint32_t **arena; /* [n_device] tags */
    uint32_t **root;  /* [n_value] tags of inputs, states and constants */
} Machine;

static uint32_t granules(size_t bytes) { return (uint32_t)((bytes + GRANULE - 1) / GRANULE); }

static void machine_open(Machine *m, Arena *a, const Graph *g, const MemoryPlan *plan)
{
    *m = (Machine){ g, plan, ARENA_NEW(a, uint32_t *, plan->n_device), ARENA_NEW(a, uint32_t *, g->n_value) };
    for (int d = 0; d < plan->n_device; d++)
        m->arena[d] = ARENA_NEW(a, uint32_t, granules(plan->device[d].arena_bytes));
    for (uint32_t v = 1; v < g->n_value; v++) {
        uint32_t n = granules(plan->value[v].bytes);

        if (g->value[v]->kind == V_TEMP)
            continue;
        m->root[v] = ARENA_NEW(a, uint32_t, n);
        for (uint32_t i = 0; i < n; i++)
            m->root[v][i] = v;
    }
}

static uint32_t *memory_of(const Machine *m, const MemRef *ref)
{
    CU_ASSERT_FATAL(ref->offset % GRANULE == 0);
    if (ref->kind != MEM_ARENA)
        return m->root[ref->root.i] + ref->offset / GRANULE;
    CU_ASSERT_FATAL(ref->offset + ref->bytes <= m->plan->device[ref->device].arena_bytes);
    return m->arena[ref->device] + ref->offset / GRANULE;
}

static void write_tags(const Machine *m, const MemRef *ref, uint32_t tag)
{
    uint32_t *at = memory_of(m, ref);

    CU_ASSERT_FATAL(ref->kind == MEM_ARENA || ref->kind == MEM_STATE);
    for (uint32_t i = 0; i < granules(ref->bytes); i++)
        at[i] = tag;
}

static void check_tags(const Machine *m, const MemRef *ref, uint32_t tag, const char *what)
{
    uint32_t *at = ref->kind == MEM_NONE ? NULL : memory_of(m, ref);

    for (uint32_t i = 0; at && i < granules(ref->bytes); i++)
        if (at[i] != tag) {
            TEST_FAIL("%s: '%s' was overwritten by '%s'", what, value(m->g, (ValueId){ tag })->name,
                      at[i] ? value(m->g, (ValueId){ at[i] })->name : "scratch");
            return;
        }
}

/* A view's contents are those of the value it shows. */
static uint32_t tag_of(const Graph *g, ValueId v)
{
    const Node *p = value(g, v)->producer;

    return p && p->op->flags & OPF_VIEW ? tag_of(g, p->in[0]) : v.i;
}

static bool overlap(const MemRef *a, const MemRef *b)
{
    return a->kind == b->kind && a->device == b->device && (a->kind == MEM_ARENA || a->root.i == b->root.i) &&
           a->kind != MEM_NONE && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Outputs lie over inputs only where the operator allows it and they coincide, and never over each other. */
static void check_overlaps(const Machine *m, const Node *n)
{
    for (int o = 0; o < n->n_out && !(n->op->flags & OPF_VIEW); o++) {
        const MemRef *out = &m->plan->value[n->out[o].i];

        for (int i = 0; i < n->n_in; i++) {
            const MemRef *in = &m->plan->value[n->in[i].i];

            if (overlap(out, in) &&
                (!node_overwrites(m->g, n, o, i) || out->offset != in->offset || out->bytes != in->bytes))
                TEST_FAIL("%s: output %d lies over input %d", node_text(m->g, n), o, i);
        }
        for (int k = 0; k < o; k++)
            CU_ASSERT_FALSE(overlap(out, &m->plan->value[n->out[k].i]));
    }
}

static void carry_out(const Graph *g, const MemoryPlan *plan, const size_t *scratch)
{
    Arena *a = arena_create();
    Machine m;

    machine_open(&m, a, g, plan);
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            check_tags(&m, &plan->value[n->in[i].i], tag_of(g, n->in[i]), node_text(g, n));
        if (scratch && scratch[n->index])
            write_tags(&m, &(MemRef){ MEM_ARENA, 0, NO_VALUE, plan->scratch[n->index], scratch[n->index] }, 0);
        for (int i = 0; i < n->n_in; i++)
            check_tags(&m, &plan->value[n->in[i].i], tag_of(g, n->in[i]), "scratch");
        check_overlaps(&m, n);
        for (int o = 0; o < n->n_out && !(n->op->flags & OPF_VIEW); o++)
            if (plan->value[n->out[o].i].kind != MEM_NONE)
                write_tags(&m, &plan->value[n->out[o].i], n->out[o].i);
    }
    for (int i = 0; i < plan->n_copy; i++) {
        CU_ASSERT_EQUAL(plan->copy[i].from.bytes, plan->copy[i].to.bytes);
        write_tags(&m, &plan->copy[i].to, *memory_of(&m, &plan->copy[i].from));
    }
    for (int i = 0; i < g->n_output; i++)
        check_tags(&m, &plan->output[i], tag_of(g, g->output[i].value), "output");
    for (int u = 0; u < g->n_update; u++)
        check_tags(&m, &plan->value[g->update[u].state.i], tag_of(g, g->update[u].next), "update");
    arena_free(a);
}

/* ---- random graphs ---- */

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

static ValueId any(Graph *g, uint32_t *seed)
{
    ValueId v;

    do
        v.i = 1 + draw(seed, g->n_value - 1);
    while (value(g, v)->dtype != DT_FLOAT32);
    return v;
}

static void add_random_node(Graph *g, uint32_t *seed)
{
    ValueId x = any(g, seed), y = any(g, seed);
    const Shape *s = value(g, x)->shape, flat = SHAPE(shape_numel(s));
    Shape doubled = *s;

    doubled.dim[0] *= 2;
    switch (draw(seed, 7)) {
    case 0: EMIT(g, Neg, NULL, x); break;
    case 1: EMIT(g, Relu, NULL, x); break;
    case 2: EMIT(g, Add, NULL, x, shape_eq(s, value(g, y)->shape) ? y : x); break;
    case 3: emit_reshape(g, x, &flat); break;
    case 4: EMIT(g, Mul, NULL, x, x); break;
    case 5: EMIT(g, Softmax, NULL, x); break;
    default:
        if (shape_numel(&doubled) <= 2048)
            EMIT(g, Concat, ATTRS(INT("axis", 0)), x, x);
    }
}

static Graph *random_graph(uint32_t seed)
{
    Graph *g = graph_create("random");
    Shape small = SHAPE(4, 16), large = SHAPE(16, 16);
    uint32_t n = 3 + draw(&seed, 60), n_state = draw(&seed, 5);
    ValueId state[5];

    graph_add_input(g, "x", DT_FLOAT32, &small);
    for (uint32_t i = 0; i < n_state; i++)
        state[i] = graph_add_state(g, "state", tensor_create(g->arena, DT_FLOAT32, i % 2 ? &small : &large), true);
    for (uint32_t i = 0; i < n; i++)
        add_random_node(g, &seed);
    for (uint32_t i = 0; i < 1 + n / 16; i++)
        graph_add_output(g, "y", any(g, &seed));
    for (uint32_t i = 0; i < n_state; i++) {
        ValueId next = any(g, &seed);

        for (int k = 0; k < 40 && !shape_eq(value(g, next)->shape, value(g, state[i])->shape); k++)
            next = any(g, &seed);
        if (shape_eq(value(g, next)->shape, value(g, state[i])->shape))
            graph_add_update(g, state[i], next);
    }
    CHECK_OK(g->status);
    return g;
}

static void check_aligned(const Graph *g, const MemoryPlan *plan, size_t align)
{
    for (uint32_t b = 1; b < plan->n_buffer; b++)
        CU_ASSERT(plan->buffer[b].offset % align == 0);
    for (uint32_t i = 0; i < g->n_node; i++)
        CU_ASSERT(plan->scratch[i] % align == 0);
    CU_ASSERT(plan->device[0].arena_bytes % align == 0);
}

static void test_random(void)
{
    for (uint32_t seed = 1; seed <= 600; seed++) {
        Graph *g = random_graph(seed);
        Arena *a = arena_create();
        uint32_t s = seed;
        size_t *scratch = ARENA_NEW(a, size_t, g->n_node);
        const size_t align = seed % 3 ? TARGET_ALIGN : 256;
        MemoryPlan *plan;

        for (uint32_t i = 0; i < g->n_node; i++)
            scratch[i] = draw(&s, 5) ? 0 : draw(&s, 3000);
        if (seed % 2)
            CHECK_OK(schedule_graph(g, a));
        else
            CHECK_OK(graph_sort(g));
        if (CHECK_OK(plan_memory(&plan, g, scratch, align, a))) {
            carry_out(g, plan, scratch);
            check_aligned(g, plan, align);
            CU_ASSERT(plan->device[0].arena_bytes >= plan->device[0].live_bytes);
        }
        arena_free(a);
        graph_free(g);
    }
}

/* ---- closed forms ---- */

static Graph *chain(Shape *s, ValueId *x)
{
    Graph *g = graph_create("chain");

    *s = SHAPE(4, 64);
    *x = graph_add_input(g, "x", DT_FLOAT32, s);
    return g;
}

/* Relu may overwrite its input: a chain of them needs one buffer, whatever its length; Softmax behind a Reshape as
 * well. */
static void test_chain_in_place(void)
{
    Arena *a = arena_create();
    MemoryPlan *plan;
    Shape s, flat = SHAPE(256);
    ValueId x;
    Graph *g = chain(&s, &x);

    for (int i = 0; i < 5; i++)
        x = EMIT(g, Relu, NULL, x);
    x = EMIT(g, Relu, NULL, emit_reshape(g, x, &flat));
    graph_add_output(g, "y", x);
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    CU_ASSERT_EQUAL(plan->device[0].arena_bytes, 1024);
    CU_ASSERT_EQUAL(plan->value[1].kind, MEM_INPUT);
    carry_out(g, plan, NULL);
    arena_free(a);
    graph_free(g);
}

/* w := w - d is computed in w's storage once the other reader of w is through; scheduling sees to that. */
static void test_update_in_place(void)
{
    Arena *a = arena_create();
    MemoryPlan *plan;
    Shape s;
    ValueId x, w, next, late;
    Graph *g = chain(&s, &x);

    w = graph_add_state(g, "w", tensor_create(g->arena, DT_FLOAT32, &s), true);
    next = EMIT(g, Sub, NULL, w, x);
    late = EMIT(g, Mul, NULL, w, x);
    graph_add_update(g, w, next);
    graph_add_output(g, "y", late);
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    CU_ASSERT_EQUAL(plan->n_copy, 1);
    CU_ASSERT_EQUAL(plan->device[0].arena_bytes, 2048);
    CHECK_OK(schedule_graph(g, a));
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    CU_ASSERT_EQUAL(plan->n_copy, 0);
    CU_ASSERT_EQUAL(plan->value[next.i].kind, MEM_STATE);
    CU_ASSERT_EQUAL(plan->device[0].arena_bytes, 1024);
    CU_ASSERT_EQUAL(plan->device[0].state_bytes, 1024);
    carry_out(g, plan, NULL);
    arena_free(a);
    graph_free(g);
}

/* a := b, b := a: neither may be lost; and an output of an old value is the old value. */
static void test_swap(void)
{
    Arena *arena = arena_create();
    MemoryPlan *plan;
    Shape s;
    ValueId x, a, b;
    Graph *g = chain(&s, &x);

    a = graph_add_state(g, "a", tensor_create(g->arena, DT_FLOAT32, &s), true);
    b = graph_add_state(g, "b", tensor_create(g->arena, DT_FLOAT32, &s), true);
    graph_add_update(g, a, b);
    graph_add_update(g, b, a);
    graph_add_output(g, "old", a);
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, arena));
    carry_out(g, plan, NULL);
    arena_free(arena);
    graph_free(g);
}

/* A program writes its values over an input of their size, but not its sum, which is complete before all elements are
 * read: neither over an input that broadcasts nor, where one element is a sum, over what is summed. */
static void test_sum_apart(void)
{
    static const char text[] =
        "graph \"g\" {\n  input %x : float32[16,64]\n  input %z : float32[16,1]\n  const %last : int64[1] = {1}\n"
        "  %a = Exp(%x)\n  %m = ReduceMax(%x, %last)\n  %e = Exp(%z)\n"
        "  %y, %s = dpexec.Fused(%a, %m) {program=graph(%x0, %x1) { %y0 = Mul(%x0, %x1) return %y0, %y0 }, sum=1, "
        "axes=[1]}\n"
        "  %t = dpexec.Fused(%e) {program=graph(%x0) { %t0 = Neg(%x0) return %t0 }, sum=1, axes=[1]}\n"
        "  output \"y\" = %y\n  output \"s\" = %s\n  output \"t\" = %t\n}\n";
    Arena *a = arena_create();
    MemoryPlan *plan;
    Graph *g;

    CU_ASSERT_FATAL(CHECK_OK(graph_parse(&g, text, strlen(text))));
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    CU_ASSERT(overlap(&plan->value[graph_find(g, "y").i], &plan->value[graph_find(g, "a").i]));
    CU_ASSERT(!overlap(&plan->value[graph_find(g, "s").i], &plan->value[graph_find(g, "m").i]));
    CU_ASSERT(!overlap(&plan->value[graph_find(g, "t").i], &plan->value[graph_find(g, "e").i]));
    arena_free(a);
    graph_free(g);
}

/* What a sum over replicas reads, and does not lie over, is not given away until the sum is read: another stream adds
 * it. */
static void test_summed_outlasts(void)
{
    static const char text[] = "graph \"g\" {\n  input %x0 : float32[64] @r0 d0\n  input %x1 : float32[64] @r1 d1\n"
                               "  input %x2 : float32[64] @r2 d0\n"
                               "  %a0 : float32[64] = Exp(%x0) @r0 d0\n  %a1 : float32[64] = Exp(%x1) @r1 d1\n"
                               "  %a2 : float32[64] = Exp(%x2) @r2 d0\n"
                               "  %s@d0 : float32[64] @d0, %s@d1 : float32[64] @d1 = dpexec.AllReduce(%a0, %a1, %a2) "
                               "{spans=[0,1,1,2,2,3], devices=[0,1]}\n"
                               "  %b : float32[64] = Neg(%x0) @r0 d0\n  %c : float32[64] = Exp(%x0) @r0 d0\n"
                               "  %y : float32[64] = Add(%s@d0, %b) @r0 d0\n  %z : float32[64] = Add(%y, %c) @r0 d0\n"
                               "  output \"z\" = %z\n  output \"s\" = %s@d1\n}\n";
    Arena *a = arena_create();
    MemoryPlan *plan;
    Graph *g;

    CU_ASSERT_FATAL(CHECK_OK(graph_parse(&g, text, strlen(text))));
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            CU_ASSERT(!overlap(&plan->value[graph_find(g, (const char *[]){ "a0", "a2" }[i]).i],
                               &plan->value[graph_find(g, (const char *[]){ "b", "c" }[k]).i]));
    arena_free(a);
    graph_free(g);
}

static void check_apart(const char *text, const char *out, const char *in)
{
    Arena *a = arena_create();
    MemoryPlan *plan;
    Graph *g;

    CU_ASSERT_FATAL(CHECK_OK(graph_parse(&g, text, strlen(text))));
    CHECK_OK(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    if (overlap(&plan->value[graph_find(g, out).i], &plan->value[graph_find(g, in).i]))
        TEST_FAIL("'%s' lies over '%s'", out, in);
    arena_free(a);
    graph_free(g);
}

/* As many bytes are not enough: the sum of one tensor not over a part of another, which is read after; nor elements of
 * 2 bytes over those of 4, of which each becomes two. */
static void test_equal_bytes_apart(void)
{
    check_apart(
        "graph \"g\" {\n  input %x0 : float32[64] @r0 d0\n  input %x1 : float32[64] @r1 d1\n"
        "  %a0 : float32[64] = Exp(%x0) @r0 d0\n  %a1 : float32[64] = Exp(%x1) @r1 d1\n"
        "  %b0 : float32[64] = Neg(%x0) @r0 d0\n  %b1 : float32[64] = Neg(%x1) @r1 d1\n"
        "  %s@d0 : float32[64] @d0, %s@d1 : float32[64] @d1, %t@d0 : float32[64] @d0, %t@d1 : float32[64] @d1 = "
        "dpexec.AllReduce(%a0, %a1, %b0, %b1) {spans=[0,1,1,2], tensors=2, devices=[0,1]}\n"
        "  %y : float32[64] = Add(%a0, %x0) @r0 d0\n  output \"y\" = %y\n"
        "  output \"s\" = %s@d0\n  output \"t\" = %t@d0\n}\n",
        "s@d0", "b0");
    check_apart("graph \"g\" {\n  input %u : float32[64,1]\n  input %v : float16[64,2]\n  %a = Exp(%u)\n"
                "  %y = dpexec.Fused(%a, %v) {program=graph(%x0, %x1) { %t0 = Cast(%x0) {to=10} "
                "%y0 = Add(%t0, %x1) return %y0 }}\n  output \"y\" = %y\n}\n",
                "y", "a");
}

static void test_unknown_shapes_are_named(void)
{
    Arena *a = arena_create();
    MemoryPlan *plan;
    Shape s;
    ValueId x;
    Graph *g = chain(&s, &x);

    graph_add_output(g, "y", graph_add_node(g, &op_Relu, "mystery", NULL, 1, &x, 1, NULL)->out[0]);
    CHECK_FAILS(E_UNSUPPORTED, "mystery", plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    arena_free(a);
    graph_free(g);
}

DEFINE_SUITE(plan_memory, { "random graphs", test_random }, { "a chain in place", test_chain_in_place },
             { "an update in place", test_update_in_place }, { "a sum apart from what is summed", test_sum_apart },
             { "what is summed outlasts the sum", test_summed_outlasts }, { "states that swap", test_swap },
             { "as many bytes are not enough", test_equal_bytes_apart },
             { "unknown shapes are named", test_unknown_shapes_are_named });
