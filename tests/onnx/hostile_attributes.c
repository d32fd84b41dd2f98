/* Attributes that no operator can mean, on every operator, with shapes that are known and that are not: import refuses
 * them, or all that follows copes.  Sanitizers see the rest. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/replicas.h"
#include "tests/onnx/build.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

static const int64_t numbers[] = { 0, 1, -1, 7, 8, -8, -9, 1000, INT32_MAX, INT64_C(1) << 32, INT64_MAX, INT64_MIN };
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };
/* Lists of each of these lengths, of each of the numbers; and some that are ascending or say two things. */
static const int lengths[] = { 0, 1, 2, 3, 4, 8, 9, 17, 1000 };
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* As older opsets called what now are inputs. */
static const AttrDecl former[] = { { "axes", A_INTS, .range = R_ANY }, { "split", A_INTS, .range = R_ANY },
                                   { "pads", A_INTS, .range = R_ANY }, { "starts", A_INTS, .range = R_ANY },
                                   { "ends", A_INTS, .range = R_ANY }, { "k", A_INT, .i = 0 },
                                   { "broadcast", A_INT, .i = 1 },     { "shape", A_INTS, .range = R_ANY },
                                   { "axis", A_INT, .i = 0 },          { 0 } };

typedef struct {
    const OpDef *op;
    const AttrDecl *attr;
    int64_t number;
    int length, known;
    int64_t opset;
    bool ascending;
} Case;

static void add_value(Arena *a, Onnx__NodeProto *n, const AttrDecl *d, int64_t number, int length, bool ascending)
{
    Onnx__AttributeProto *p;

    if (d->type == A_INT) {
        node_attr_int(a, n, d->name, number);
        return;
    }
    p = attr_make(a, d->name, d->type == A_INTS ? KIND(INTS) : d->type == A_FLOAT ? KIND(FLOAT) : KIND(STRING));
    p->ints = ARENA_NEW(a, int64_t, length + 1);
    p->n_ints = d->type == A_INTS ? (size_t)length : 0;
    for (int i = 0; i < length; i++)
        p->ints[i] = ascending ? number + i : number;
    p->has_f = d->type == A_FLOAT;
    p->f = (float)number;
    p->has_s = d->type == A_STRING;
    p->s.data =
        (uint8_t *)arena_strdup(a, d->words ? arena_printf(a, "%.*s", (int)strcspn(d->words, " "), d->words) : "mse");
    p->s.len = strlen((char *)p->s.data);
    node_add_attr(a, n, p);
}

/* What is required beside the attribute tried. */
static void add_required(Built *b, Onnx__NodeProto *n, const Case *c)
{
    for (const AttrDecl *d = c->op->attrs; d && d->name; d++)
        if (d->rule == ATTR_REQUIRED && strcmp(d->name, c->attr->name) && d->type != A_TENSOR)
            add_value(b->arena, n, d, d->range == R_PERM ? 0 : 1, d->range == R_PERM ? 3 : 2, d->range == R_PERM);
}

/* x[N,4,5] goes in as it is, or through a Reshape by an input, behind which nothing is known. */
static Built model_of(const Case *c)
{
    Built b = built_create(c->opset);
    char in[256] = "", out[64] = "";
    Onnx__NodeProto *n;

    built_opset(&b, "dpexec", 1);
    built_input(&b, "x", DT_FLOAT32, "N,4,5");
    built_input(&b, "s", DT_INT64, "3");
    built_node(&b, "Reshape", "x,s", "u");
    for (int i = 0; i < (c->op->in_min < 1 && c->op->in_max ? 1 : c->op->in_min); i++)
        strcat(in, i ? c->known ? ",x" : ",u" : c->known ? "x" : "u");
    for (int i = 0; i < c->op->out_min; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%sy%d", i ? "," : "", i);
    n = built_node(&b, c->op->name, in, out);
    n->domain = (char *)c->op->domain;
    if (c->attr->type != A_TENSOR)
        add_value(b.arena, n, c->attr, c->number, c->length, c->ascending);
    add_required(&b, n, c);
    built_output(&b, c->op->out_min ? "y0" : "u");
    return b;
}

/* Refused, or placed on three replicas. */
static bool survives(const Case *c)
{
    BuildOptions opt = { .mode = BUILD_INFER,
                         .batch = &(BatchOptions){ .batch = 6 },
                         .replicas = &(ReplicaOptions){ .replicas = 3, .devices = 1 } };
    Built b = model_of(c);
    Graph *g = NULL;
    Status st = built_import(&g, &b);

    if (!st)
        st = pipeline_run(g, &opt, interp_node, NULL, NULL);
    if (st && !*status_message())
        TEST_FAIL("%s %s: refused without a word", c->op->name, c->attr->name);
    if (st == E_INTERNAL)
        TEST_FAIL("%s %s: %s", c->op->name, c->attr->name, status_message());
    graph_free(g);
    built_free(&b);
    return !st;
}

static int try_values(Case c, int *n_tried)
{
    int refused = 0;

    for (int v = 0; v < N_NUMBERS; v++)
        for (int l = 0; l < (c.attr->type == A_INTS ? N_LENGTHS : 1); l++)
            for (int ascending = 0; ascending < (c.attr->type == A_INTS && numbers[v] < 1000 ? 2 : 1); ascending++) {
                c.number = numbers[v];
                c.length = lengths[l];
                c.ascending = ascending != 0;
                refused += !survives(&c);
                ++*n_tried;
            }
    return refused;
}

static void test_all(void)
{
    static const int64_t opsets[] = { 6, 12, 24 };
    int refused = 0, tried = 0;

    for (int o = 0; o < op_list_len; o++)
        for (int k = 0; k < 3; k++)
            for (int known = 0; known < 2; known++) {
                Case c = { .op = op_list[o], .opset = opsets[k], .known = known };

                for (c.attr = op_list[o]->attrs; c.attr && c.attr->name && (k == 2 || !op_list[o]->domain); c.attr++)
                    refused += try_values(c, &tried);
                for (c.attr = former; k < 2 && op_list[o]->import && c.attr->name; c.attr++)
                    refused += try_values(c, &tried);
            }
    CU_ASSERT(tried > 10000 && refused > tried / 2 && refused < tried);
}

static Built transposing(int n, const int64_t *perm)
{
    Built b = built_create(17);
    Onnx__NodeProto *t;
    Onnx__AttributeProto *p;

    built_input(&b, "x", DT_FLOAT32, "N,4,5");
    built_input(&b, "s", DT_INT64, "3");
    built_node(&b, "Reshape", "x,s", "u");
    t = built_node(&b, "Transpose", "u", "y");
    t->name = "turn";
    p = attr_make(b.arena, "perm", KIND(INTS));
    p->n_ints = (size_t)n;
    p->ints = arena_memdup(b.arena, perm, (size_t)n * sizeof *perm);
    node_add_attr(b.arena, t, p);
    built_output(&b, "y");
    return b;
}

/* What placement once wrote to where the permutation pointed. */
static void test_perm(void)
{
    Built far = transposing(3, (const int64_t[]){ 0, 1, 4000 }), twice = transposing(2, (const int64_t[]){ 1, 1 });
    Built gap = transposing(2, (const int64_t[]){ 0, 2 }),
          many = transposing(9, (const int64_t[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8 });

    REFUSED(&far, E_MODEL, "Transpose turn (output 'y'): perm 4000, expected a permutation");
    REFUSED(&twice, E_MODEL, "perm names axis 1, which makes it no permutation");
    REFUSED(&gap, E_MODEL, "perm names axis 2, which makes it no permutation");
    REFUSED(&many, E_MODEL, "perm has 9 entries, at most 8 are possible");
}

static void test_values(void)
{
    static const struct {
        const char *op, *attr;
        int64_t v;
        const char *text;
        Status code;
    } cases[] = {
        { "Concat", "axis", 8, "axis 8, expected an axis, -8 to 7", E_MODEL },
        { "Concat", "axis", -9, "axis -9, expected an axis", E_MODEL },
        { "Flatten", "axis", 9, "axis 9, expected an axis, -8 to 8", E_MODEL },
        { "Cast", "to", 99, "to 99 is no type that tensors have here (unknown)", E_UNSUPPORTED },
        { "Cast", "to", 14, "to 14 is no type that tensors have here (complex64)", E_UNSUPPORTED },
        { "SpaceToDepth", "blocksize", 0, "blocksize 0, expected 1 to 2147483647", E_MODEL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Built b = built_relu();

        node_attr_int(b.arena, built_node(&b, cases[i].op, "x", "z"), cases[i].attr, cases[i].v);
        REFUSED(&b, cases[i].code, cases[i].text);
    }
}

/* Any number of inputs, one of them left out between others. */
static void test_gaps(void)
{
    static const char *const names[] = { "Concat", "Sum", "Max", "Min", "Mean" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Built b = built_relu();
        Onnx__NodeProto *n = built_node(&b, names[i], "x,x,x", "z");

        n->input[1] = "";
        if (!i)
            node_attr_int(b.arena, n, "axis", 0);
        REFUSED(&b, E_MODEL, "required input 1 is absent");
    }
}

DEFINE_SUITE(hostile_attributes, { "every operator, absurd values", test_all }, { "permutations", test_perm },
             { "numbers out of range", test_values }, { "inputs left out", test_gaps });
