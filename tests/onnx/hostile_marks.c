/* doc_strings that look like the marks of our own exports (graph/onnx/doc_string.c): in a file that does not say that
 * it is one they are somebody's text, and in one that does they cannot hurt. */
#include <string.h>

#include "tests/onnx/build.h"

static void say(Built *b, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *p = arena_alloc(b->arena, sizeof *p);

    onnx__string_string_entry_proto__init(p);
    p->key = arena_strdup(b->arena, key);
    p->value = arena_strdup(b->arena, text);
    ADD(b->arena, b->model->metadata_props, b->model->n_metadata_props, p);
}

/* y = relu(x + w), its values and a node marked; `ours`: the file says that it is an export. */
typedef struct {
    const char *x, *w, *sum, *node;
    bool ours;
} Marks;

static char *text(Arena *a, const char *s) { return s ? arena_strdup(a, s) : NULL; }

static Built marked(const Marks *m)
{
    Built b = built_create(17);
    float w[12] = { 1, 2, 3 };
    Onnx__NodeProto *add;

    built_input(&b, "x", DT_FLOAT32, "1,2,3,2")->doc_string = text(b.arena, m->x);
    built_init(&b, "w", DT_FLOAT32, "1,2,3,2", sizeof w, w)->doc_string = text(b.arena, m->w);
    add = built_node(&b, "Add", "x,w", "sum");
    add->name = "add";
    add->doc_string = text(b.arena, m->node);
    built_node(&b, "Relu", "sum", "y");
    built_output(&b, "y");
    built_input(&b, "sum", DT_FLOAT32, "1,2,3,2")->doc_string = text(b.arena, m->sum);
    ADD(b.arena, b.graph->value_info, b.graph->n_value_info, b.graph->input[--b.graph->n_input]);
    if (m->ours)
        say(&b, PROP_MARKS, "1");
    return b;
}

static const Marks hostile[] = {
    { .w = "device=-1 replica=-1\nchannels_last" }, { .x = "device=-1 replica=-1\nchannels_last" },
    { .x = "device=100000000 replica=7" },          { .x = "device=3 replica=-1" },
    { .w = "device=2147483647 replica=0" },         { .sum = "device=0 replica=2147483647" },
    { .node = "device=2147483647 replica=7" },      { .node = "device=99999999999999999999 replica=0" },
    { .w = "device=-1 replica=-1\nof=" },           { .w = "device=-1 replica=-1\nof=x\nname=y" },
};
enum { N_HOSTILE = sizeof hostile / sizeof *hostile };

/* An ordinary model stays one. */
static void test_of_others(void)
{
    for (int i = 0; i < N_HOSTILE; i++) {
        Built b = marked(&hostile[i]);
        Graph *g = NULL;

        if (CHECK_OK(built_import(&g, &b))) {
            CU_ASSERT(!graph_is_step(g));
            CU_ASSERT(has_value(graph_find(g, "w")));
            for (uint32_t v = 1; v < g->n_value; v++) {
                CU_ASSERT(g->value[v]->device == -1 && g->value[v]->replica == -1);
                CU_ASSERT(g->value[v]->layout == LAYOUT_ROWS && !g->value[v]->logical);
            }
        }
        graph_free(g);
        built_free(&b);
    }
}

/* What is told of an attribute's digits, and of two names of a value. */
static void test_text_of_others(void)
{
    Built b = built_relu();
    Onnx__NodeProto *n = built_node(&b, "LeakyRelu", "x", "l"), *same = built_node(&b, "Identity", "l", "i");
    Onnx__AttributeProto *alpha = attr_make(b.arena, "alpha", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    Graph *g = NULL;

    alpha->has_f = true;
    alpha->f = 0.1f;
    alpha->doc_string = arena_strdup(b.arena, "0.1");
    node_add_attr(b.arena, n, alpha);
    same->doc_string = arena_strdup(b.arena, ALIAS_NODE);
    built_output(&b, "i");
    if (CHECK_OK(built_import(&g, &b))) {
        CU_ASSERT_EQUAL(node_float(g->node[1], "alpha"), (double)0.1f);
        CU_ASSERT_EQUAL(g->n_node, 3);
    }
    graph_free(g);
    built_free(&b);
}

static void test_out_of_range(void)
{
    static const struct {
        Marks m;
        const char *text;
    } wrong[] = {
        { { .x = "device=100000000 replica=7" }, "'x': device 100000000, expected -1 to 511" },
        { { .w = "device=2147483647 replica=0" }, "'w': device 2147483647, expected -1 to 511" },
        { { .w = "device=512 replica=0" }, "'w': device 512, expected -1 to 511" },
        { { .sum = "device=0 replica=4096" }, "'sum': replica 4096, expected -1 to 4095" },
        { { .sum = "device=-2 replica=0" }, "'sum': device -2" },
        { { .node = "device=2147483648 replica=7" }, "Add add (output 'sum'): device 2147483648" },
        { { .node = "device=99999999999999999999 replica=0" }, "Add add (output 'sum'): device 9223372036854775807" },
        { { .node = "device=0" }, "Add add (output 'sum'): expected 'device=D replica=R'" },
        { { .x = "device=0 replica=1, of somebody" }, "'x': expected 'device=D replica=R'" },
        { { .w = "device=-1 replica=-1\nchannels_last" }, "'w': stored channels_last, expected rows" },
        { { .x = "device=0 replica=0\nchannels_last" }, "'x': stored channels_last, expected rows" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Marks m = wrong[i].m;
        Built b;

        m.ours = true;
        b = marked(&m);
        REFUSED(&b, E_MODEL, wrong[i].text);
    }
}

/* One marked value, with or without a device, and no command runs the file as a model. */
static void test_is_a_step(void)
{
    static const Marks step[] = {
        { .x = "device=3 replica=-1", .ours = true },
        { .w = "device=511 replica=4095", .ours = true },
        { .sum = "device=-1 replica=0", .ours = true },
        { .sum = "device=-1 replica=-1\nchannels_last", .ours = true },
        { .w = "device=-1 replica=-1\nof=x", .ours = true },
        { .node = "device=0 replica=-1", .ours = true },
    };

    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        Built b = marked(&step[i]);
        Graph *g = NULL;

        if (CHECK_OK(built_import(&g, &b)))
            CU_ASSERT(graph_is_step(g));
        graph_free(g);
        built_free(&b);
    }
}

static void test_nameless_copy(void)
{
    Marks m = { .w = "device=-1 replica=-1\nof=", .ours = true };
    Built b = marked(&m);
    Graph *g = NULL;

    if (CHECK_OK(built_import(&g, &b)))
        CHECK_STR("w", value_logical_name(value(g, graph_find(g, "w"))));
    graph_free(g);
    built_free(&b);
}

DEFINE_SUITE(hostile_marks, { "marks in a file of others", test_of_others },
             { "other texts in a file of others", test_text_of_others }, { "marks out of range", test_out_of_range },
             { "any mark makes a step", test_is_a_step }, { "a copy of nothing", test_nameless_copy });
