/* The algorithm of a training_info is read with the model where that is asked for: what it updates is told, is decided
 * by nothing, and no parameter where it is the algorithm's own. */
#include <string.h>

#include "exec/run/interp.h"
#include "tests/onnx/build.h"

static Onnx__StringStringEntryProto *entry(Built *b, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *e = ARENA_NEW(b->arena, Onnx__StringStringEntryProto, 1);

    onnx__string_string_entry_proto__init(e);
    e->key = (char *)key;
    e->value = (char *)text;
    return e;
}

static Onnx__TrainingInfoProto *add_info(Built *b)
{
    Onnx__TrainingInfoProto *info = ARENA_NEW(b->arena, Onnx__TrainingInfoProto, 1);

    onnx__training_info_proto__init(info);
    info->algorithm = ARENA_NEW(b->arena, Onnx__GraphProto, 1);
    onnx__graph_proto__init(info->algorithm);
    ADD(b->arena, b->model->training_info, b->model->n_training_info, info);
    return info;
}

static void update(Built *b, const char *key, const char *next)
{
    Onnx__TrainingInfoProto *info = b->model->training_info[0];

    ADD(b->arena, info->update_binding, info->n_update_binding, entry(b, key, next));
}

/* y = x w, and an algorithm that makes w + t and m + m of w and of its own m. */
static Built trained(void)
{
    static const float one = 1;
    Built b = built_create(17), step;

    built_input(&b, "x", DT_FLOAT32, "N");
    built_init(&b, "w", DT_FLOAT32, "", sizeof one, &one);
    built_node(&b, "Mul", "x,w", "y");
    built_output(&b, "y");
    step = (Built){ b.arena, b.model, add_info(&b)->algorithm };
    built_input(&step, "t", DT_FLOAT32, "");
    built_init(&step, "m", DT_FLOAT32, "", sizeof one, &one);
    built_node(&step, "Add", "w,t", "next_w");
    built_node(&step, "Add", "m,m", "next_m");
    built_output(&step, "next_w");
    built_output(&step, "next_m");
    update(&b, "w", "next_w");
    update(&b, "m", "next_m");
    return b;
}

static Status import(Graph **out, const Built *b, bool training)
{
    size_t size;
    const uint8_t *data = built_bytes(b, &size);

    return onnx_import_memory(out, NULL, &(OnnxMemory){ .data = data, .size = size }, "model",
                              &(ImportOptions){ .eval = interp_any, .training = training });
}

static void test_read(void)
{
    Built b = trained();
    Graph *g = NULL;

    CHECK_OK(import(&g, &b, true));
    built_free(&b);
    if (!g)
        return;
    CU_ASSERT_EQUAL(g->n_input, 2);
    CU_ASSERT_EQUAL(g->n_output, 3);
    CU_ASSERT_EQUAL(g->n_update, 0);
    CHECK_STR("next_w", value(g, graph_find(g, "w"))->next);
    CHECK_STR("next_m", value(g, graph_find(g, "m"))->next);
    CU_ASSERT_EQUAL(value(g, graph_find(g, "w"))->evidence, EVIDENCE_TRAINED);
    CU_ASSERT_EQUAL(value(g, graph_find(g, "m"))->evidence, EVIDENCE_FIXED);
    CU_ASSERT_PTR_NULL(value_const(g, graph_find(g, "w")));
    graph_free(g);
}

/* The model alone, of which it is known what is trained. */
static void test_left(void)
{
    Built b = trained();
    Graph *g = NULL;

    CHECK_OK(import(&g, &b, false));
    built_free(&b);
    if (!g)
        return;
    CU_ASSERT_EQUAL(g->n_input, 1);
    CU_ASSERT_EQUAL(g->n_output, 1);
    CU_ASSERT_PTR_NULL(value(g, graph_find(g, "w"))->next);
    CU_ASSERT_EQUAL(value(g, graph_find(g, "w"))->evidence, EVIDENCE_TRAINED);
    graph_free(g);
}

static void refused_training(Built *b, Status code, const char *text)
{
    Graph *g = NULL;

    CU_ASSERT_EQUAL(import(&g, b, true), code);
    if (!strstr(status_message(), text))
        CHECK_STR(text, status_message());
    built_free(b);
}

static void test_refused(void)
{
    Built b = built_relu();

    refused_training(&b, E_MODEL, "the model has no training_info that updates anything");
    b = trained();
    update(&b, "x", "next_w");
    refused_training(&b, E_MODEL, "training_info: 'x', which is updated, is no initializer");
    b = trained();
    update(&b, "w", "next_m");
    refused_training(&b, E_MODEL, "training_info: 'w' is updated twice");
    b = trained();
    b.model->training_info[0]->update_binding[0]->value = (char *)"t";
    refused_training(&b, E_MODEL, "training_info: 't', the next value of 'w', is no output");
}

/* ---- several steps ---- */

/* A second one, of the same names, updates what is the model's under the name of `key`. */
static void add_step(Built *b, const char *key)
{
    static const float two = 2;
    Onnx__TrainingInfoProto *info = add_info(b);
    Built step = { b->arena, b->model, info->algorithm };

    built_input(&step, "t", DT_FLOAT32, "");
    built_init(&step, "k", DT_FLOAT32, "", sizeof two, &two);
    built_node(&step, "Sub", "w,t", "next_w");
    built_output(&step, "next_w");
    ADD(b->arena, info->update_binding, info->n_update_binding, entry(b, key, "next_w"));
}

/* Behind the first: it reads what that one has made of w. */
static void test_steps(void)
{
    Built b = trained();
    Graph *g = NULL;
    const Node *n;

    add_step(&b, "k");
    CHECK_OK(import(&g, &b, true));
    built_free(&b);
    if (!g)
        return;
    CU_ASSERT_EQUAL(g->n_input, 2);
    CU_ASSERT_EQUAL(g->n_output, 4);
    CHECK_STR("training_info.1/next_w", value(g, graph_find(g, "training_info.1/k"))->next);
    n = value(g, graph_find(g, "training_info.1/next_w"))->producer;
    CHECK_STR("next_w", value(g, n->in[0])->name);
    CHECK_STR("t", value(g, n->in[1])->name);
    n = value(g, graph_find(g, "training_info.1/y"))->producer;
    CHECK_STR("x", value(g, n->in[0])->name);
    CHECK_STR("next_w", value(g, n->in[1])->name);
    graph_free(g);
}

static void test_steps_refused(void)
{
    Built b = trained();

    add_step(&b, "w");
    refused_training(&b, E_MODEL, "training_info: 'w' is updated twice");
    b = trained();
    add_step(&b, "m"); /* the first one's own */
    refused_training(&b, E_MODEL, "training_info: 'training_info.1/m', which is updated, is no initializer");
}

/* ---- first values ---- */

/* w becomes 3 and 3. */
static Onnx__TrainingInfoProto *initialize(Built *b, const char *key, const char *next, const char *dims)
{
    static const float three[2] = { 3, 3 };
    Onnx__TrainingInfoProto *info = b->model->training_info[0];
    Built first = { b->arena, b->model, info->initialization = ARENA_NEW(b->arena, Onnx__GraphProto, 1) };

    onnx__graph_proto__init(info->initialization);
    built_init(&first, "three", DT_FLOAT32, dims, *dims ? sizeof three : sizeof *three, three);
    built_node(&first, "Neg", "three", "minus");
    built_output(&first, "minus");
    ADD(b->arena, info->initialization_binding, info->n_initialization_binding, entry(b, key, next));
    return info;
}

static void test_first_refused(void)
{
    Built b = trained();
    Onnx__TrainingInfoProto *info;

    initialize(&b, "x", "minus", "");
    refused_training(&b, E_MODEL, "training_info: 'x', which is initialized, is no initializer");
    b = trained();
    initialize(&b, "w", "minus", "2");
    refused_training(&b, E_SHAPE, "training_info: 'w' is float32[], its first value 'minus' float32[2]");
    b = trained();
    initialize(&b, "m", "w", "");
    refused_training(&b, E_MODEL,
                     "training_info: 'w', the first value of 'm', is no tensor that the initialization gives");
    b = trained();
    info = initialize(&b, "m", "minus", "");
    built_input(&(Built){ b.arena, b.model, info->initialization }, "x", DT_FLOAT32, "");
    refused_training(&b, E_MODEL, "training_info: the initialization has an input 'x', expected none");
    b = trained();
    info = initialize(&b, "m", "minus", "");
    info->initialization->node[0]->input[0] = (char *)"w"; /* it sees nothing but its own */
    refused_training(&b, E_MODEL, "training_info: the initialization");
    b = trained();
    initialize(&b, "m", "minus", "")->initialization = NULL;
    refused_training(&b, E_MODEL,
                     "training_info: 'm' has an initialization binding, but there is no initialization graph");
}

DEFINE_SUITE(training, { "read", test_read }, { "left", test_left }, { "refused", test_refused },
             { "steps", test_steps }, { "steps refused", test_steps_refused },
             { "first values refused", test_first_refused });
