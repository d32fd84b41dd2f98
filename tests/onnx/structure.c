/* Inputs of a model that are no tensors. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "tests/onnx/build.h"

/* What an input of this name is said to have; the others nothing. */
typedef struct {
    const char *name;
    int n;
} Told;

static Status members(void *user, int *n, int i, const char *name, const OnnxType *type)
{
    (void)i;
    CU_ASSERT(type->dtype == DT_FLOAT32 && (type->sequence || type->optional));
    for (const Told *s = user; s->name; s++)
        if (!strcmp(s->name, name))
            *n = s->n;
    return ST_OK;
}

/* Frees the model. */
static Status import(Graph **out, Built *b, const Told *said)
{
    const char *folder = test_folder("structure");
    char path[512];

    snprintf(path, sizeof path, "%s/model.onnx", folder);
    built_write(b, folder);
    built_free(b);
    return onnx_import_file(out, NULL, path,
                            &(ImportOptions){ .eval = interp_node, .members = members, .members_user = (void *)said });
}

typedef struct {
    Onnx__TypeProto whole, optional;
    Onnx__TypeProto__Sequence sequence;
    Onnx__TypeProto__Optional of;
} Types;

/* The input becomes a sequence of such, an optional of such, or of such sequences. */
static void make_structured(Onnx__ValueInfoProto *input, Types *t, bool sequence, bool optional)
{
    *t = (Types){ ONNX__TYPE_PROTO__INIT, ONNX__TYPE_PROTO__INIT, ONNX__TYPE_PROTO__SEQUENCE__INIT,
                  ONNX__TYPE_PROTO__OPTIONAL__INIT };
    t->sequence.elem_type = input->type;
    t->whole.value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    t->whole.sequence_type = &t->sequence;
    t->of.elem_type = sequence ? &t->whole : input->type;
    t->optional.value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    t->optional.optional_type = &t->of;
    input->type = optional ? &t->optional : &t->whole;
}

static Built with_sequence(Types *t, bool optional)
{
    static const int64_t minus = -1;
    Built b = built_create(18);

    make_structured(built_input(&b, "s", DT_FLOAT32, "N,3"), t, true, optional);
    built_init(&b, "minus", DT_INT64, "", 8, &minus);
    built_node(&b, "SequenceAt", "s,minus", "last");
    built_node(&b, "SequenceLength", "s", "n");
    built_output(&b, "last");
    built_output(&b, "n");
    built_output(&b, "s");
    return b;
}

static void test_sequence(void)
{
    static const char *const outputs[] = { "last", "n", "s.0", "s.1", "s.2" };
    Types t;

    for (int optional = 0; optional < 2; optional++) {
        Built b = with_sequence(&t, optional);
        Graph *g = NULL;

        if (!CHECK_OK(import(&g, &b, (Told[]){ { "s", 3 }, { NULL, 0 } })))
            return;
        CU_ASSERT_FATAL(g->n_input == 3 && g->n_output == 5);
        for (int i = 0; i < 3; i++) {
            const Value *v = value(g, g->input[i]);

            CHECK_STR(outputs[2 + i], v->name);
            CU_ASSERT(v->member && v->shape->rank == 2 && v->shape->dim[0] == -1 && v->shape->dim[1] == 3);
            CHECK_STR("N", v->dim_param[0]);
            CU_ASSERT(value_eq(g->output[2 + i].value, g->input[i]));
        }
        CU_ASSERT(value_eq(g->output[0].value, g->input[2]));
        CU_ASSERT(tensor_int(value_const(g, g->output[1].value), 0) == 3);
        for (int i = 0; i < 5; i++)
            CHECK_STR(outputs[i], g->output[i].name);
        graph_free(g);
    }
}

/* What is absent is no input, and neither is it an output. */
static void test_optional(void)
{
    for (int there = 0; there < 2; there++) {
        Built b = built_relu();
        Graph *g = NULL;
        Types t;

        make_structured(built_input(&b, "m", DT_FLOAT32, "2"), &t, false, true);
        built_node(&b, "OptionalHasElement", "m", "has");
        built_output(&b, "has");
        built_output(&b, "m");
        if (!CHECK_OK(import(&g, &b, (Told[]){ { "m", there ? 1 : ONNX_ABSENT }, { NULL, 0 } })))
            return;
        CU_ASSERT(g->n_input == 1 + there && g->n_output == 2 + there);
        CU_ASSERT(tensor_int(value_const(g, g->output[1].value), 0) == there);
        CU_ASSERT(!there || (value_eq(g->output[2].value, g->input[1]) && !value(g, g->input[1])->member));
        graph_free(g);
    }
}

static void test_refused(void)
{
    static const struct {
        Told said;
        Status status;
        const char *text;
    } cases[] = {
        { { "other", 1 },
          E_UNSUPPORTED,
          "input 's': the number of tensors of this sequence is unknown: give --input-members s=N" },
        { { "s", ONNX_ABSENT }, E_INVALID, "input 's' cannot be absent: it is a sequence, and not optional" },
        { { "s", 0 }, E_MODEL, "index -1 is outside of a sequence of 0" },
        { { "s", 4097 }, E_UNSUPPORTED, "input 's': a sequence of more than 4096 tensors" },
    };
    Graph *g = NULL;
    Types t;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Built b = with_sequence(&t, false);

        CHECK_FAILS(cases[i].status, cases[i].text, import(&g, &b, (Told[]){ cases[i].said, { NULL, 0 } }));
    }
    for (int i = 0; i < 3; i++) {
        Built b = with_sequence(&t, false);
        const float zero = 0;

        if (i == 0)
            built_input(&b, "s.1", DT_FLOAT32, "2");
        else if (i == 1)
            built_init(&b, "s.1", DT_FLOAT32, "", 4, &zero);
        else
            built_node(&b, "Neg", "last", "s.1"); /* which the graph calls otherwise */
        if (i == 2) {
            CHECK_OK(import(&g, &b, (Told[]){ { "s", 2 }, { NULL, 0 } }));
            graph_free(g);
            continue;
        }
        CHECK_FAILS(i ? E_UNSUPPORTED : E_MODEL, "'s.1'", import(&g, &b, (Told[]){ { "s", 2 }, { NULL, 0 } }));
    }
}

static void test_map(void)
{
    Onnx__TypeProto whole = ONNX__TYPE_PROTO__INIT;
    Onnx__TypeProto__Map map = ONNX__TYPE_PROTO__MAP__INIT;
    Built b = built_relu();
    Onnx__ValueInfoProto *input = built_input(&b, "d", DT_FLOAT32, "2");

    map.has_key_type = 1;
    map.key_type = DT_INT64;
    map.value_type = input->type;
    whole.value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
    whole.map_type = &map;
    input->type = &whole;
    REFUSED(&b, E_UNSUPPORTED,
            "input 'd': it is a map, which operators of ONNX do not take: an input for each of its keys can be");
}

DEFINE_SUITE(structure, { "a sequence", test_sequence }, { "an optional", test_optional },
             { "what is refused", test_refused }, { "a map", test_map });
