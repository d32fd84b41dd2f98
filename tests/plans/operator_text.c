/* The text of an operator (tests/plans/operator_text.h).
 *
 * Section by section, of each case:
 *
 *     shapes        the graph, and FLOPs
 *     lowered       the simpler operators that it becomes
 *     gradient      nodes of the gradients of its outputs' sum by its inputs
 *     standard      forward and backward in operators of ai.onnx alone
 *     placements    for each axis of each input that is split over two replicas, and for partial sums
 *     variants      the shapes, or the refusal, where one number, type or input of the case is another */
#include "tests/plans/operator_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/autodiff.h"
#include "graph/ir/emit.h"
#include "graph/ir/lower.h"
#include "graph/ops/binary.gen.h"
#include "passes/partition/place.h"
#include "passes/report.h"
#include "tests/ops/case.h"
#include "tests/plans/graph_text.h"

enum { MOST_VARIANTS = 60 };

typedef struct {
    FILE *to[6]; /* by section */
    Case *c;
} OperatorText;

enum { SHAPES, LOWERED, GRADIENT, STANDARD, PLACEMENTS, VARIANTS, N_SECTIONS };
static const char *const sections[N_SECTIONS] = {
    "shapes", "lowered", "gradient", "standard", "placements", "variants"
};

/* ---- graphs ---- */

static void print_failure(FILE *to, Status st) { fprintf(to, "%s: %s\n", status_name(st), status_message()); }

static void print_flops(FILE *to, const Graph *g)
{
    fputs("FLOP", to);
    FOR_NODES(g, n)
        fprintf(to, " %" PRId64, node_flops(g, n));
    putc('\n', to);
}

static void print_graph(FILE *to, const Graph *g, Status st)
{
    st = st ? st : graph_text_print(to, g, false);
    if (st)
        print_failure(to, st);
    else
        print_flops(to, g);
}

static Status lower(Graph *g, Arena *a, bool standard)
{
    TRY(graph_lower(g, a, &(Lowering){ .standard = standard, .infer = true }));
    return graph_sort(g);
}

/* Adds the sum of all outputs of floats; NO_VALUE: there is none. */
static ValueId add_sum(Graph *g, const Case *c)
{
    ValueId sum = NO_VALUE;
    const int n = g->n_output;

    for (int k = 0; k < n; k++) {
        const Value *y = value(g, g->output[k].value);
        int64_t axes[MAX_RANK];
        ValueId term;

        if (!dtype_is_float(y->dtype) || !shape_known(y->shape) || (k < 32 && !(c->of >> k & 1)))
            continue;
        for (int i = 0; i < y->shape->rank; i++)
            axes[i] = i;
        term = emit_cast(g, emit_reduce_sum(g, g->output[k].value, y->shape->rank, axes, false), DT_FLOAT32);
        sum = has_value(sum) ? EMIT(g, Add, NULL, sum, term) : term;
    }
    return sum;
}

/* Appends the gradients of the sum by all inputs of floats. */
static Status differentiate(Graph *g, Arena *a, const Case *c)
{
    const ValueId loss = add_sum(g, c);
    ValueId wrt[CASE_ARGS], grads[CASE_ARGS];
    int n = 0;

    TRY(g->status);
    if (!has_value(loss))
        return ST_OK;
    for (int i = 0; i < g->n_input; i++)
        if (dtype_is_float(value(g, g->input[i])->dtype))
            wrt[n++] = g->input[i];
    TRY(autodiff(g, a, loss, n, wrt, grads));
    for (int i = 0; i < n; i++)
        if (has_value(grads[i]))
            graph_add_output(g, arena_printf(g->arena, "d%s", value(g, wrt[i])->name), grads[i]);
    return graph_sort(g);
}

/* ---- placements ---- */

static void print_places(FILE *to, const Graph *g, const Placements *p)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i])
            fprintf(to, " %s:%d.%d.%" PRId64, g->value[i]->name, p->value[i].kind, p->value[i].axis,
                    p->value[i].blocks);
    putc('\n', to);
}

/* Prints where values lie if input k is split along the axis over two replicas; axis -1: if it is a partial sum. */
static void place_input(FILE *to, const Graph *given, int k, int axis, Arena *a)
{
    static const int device_of[] = { 0, 0 }, first[] = { 0, 2 }, like[] = { 0, 1 };
    static const int64_t one[] = { 1, 1 }, at[] = { 0, 1 };
    Placements places;
    Graph *g = NULL;
    Status st = graph_clone(&g, given);
    int *axes = ARENA_NEW(a, int, given->n_value);
    Partition part = { .replicas = 2,
                       .devices = 1,
                       .device_of = device_of,
                       .first_replica = first,
                       .batch = { false, 2, 2, one, at },
                       .batch_axis = axes,
                       .like = like,
                       .shown = like };

    for (uint32_t i = 0; i < given->n_value; i++)
        axes[i] = -1;
    axes[given->input[k].i] = axis;
    if (!st && axis < 0) {
        Value *v = value(g, g->input[k]);

        v->kind = V_STATE;
        v->partial = true;
        v->init = tensor_create(g->arena, v->dtype, v->shape);
    }
    st = st ? st : place_graph(&places, g, &part, a, NULL);
    fprintf(to, "%s %d:", value(given, given->input[k])->name, axis);
    if (st)
        print_failure(to, st);
    else
        print_places(to, g, &places);
    graph_free(g);
}

static void print_placements(FILE *to, const Graph *g, Arena *a)
{
    for (int k = 0; k < g->n_input; k++) {
        const Value *v = value(g, g->input[k]);

        for (int axis = dtype_is_float(v->dtype) ? -1 : 0; axis < v->shape->rank; axis++)
            if (axis < 0 || v->shape->dim[axis] % 2 == 0)
                place_input(to, g, k, axis, a);
    }
}

/* ---- variants ---- */

/* Prints the shapes of a case, or why it is refused. */
static void print_variant(FILE *to, const char *line, Case *c)
{
    Graph *g = NULL;
    Status st = case_parse(c, line);
    char shape[SHAPE_TEXT];

    fprintf(to, "%s:", line);
    st = st ? st : case_graph(&g, c, DT_FLOAT32);
    if (st) {
        print_failure(to, st);
        return;
    }
    for (int i = 0; i < g->n_output; i++)
        fprintf(to, " %s%s", dtype_name(value(g, g->output[i].value)->dtype),
                shape_text(value(g, g->output[i].value)->shape, shape));
    print_flops(to, g);
    graph_free(g);
}

/* The length of the whole number at `at`, which no letter, digit or point precedes or follows; 0: there is none. */
static size_t number_at(const char *line, const char *at)
{
    const size_t n = strspn(at, "0123456789");

    return n && n < 9 && (at == line || (!isalnum((unsigned char)at[-1]) && !strchr("._", at[-1]))) &&
                   !isalnum((unsigned char)at[n]) && at[n] != '.'
               ? n
               : 0;
}

/* One more, one less and far more for each of the first numbers of a case's inputs and attributes. */
static void vary_numbers(FILE *to, const char *line, Case *c)
{
    static const long step[] = { 1, -1, 97 };
    char text[CASE_TEXT];
    int n = 0;

    for (const char *at = line; *at && strncmp(at, " -> ", 4) && strncmp(at, " => ", 4) && n < MOST_VARIANTS; at++) {
        const size_t length = number_at(line, at);

        for (int k = 0; length && k < 3; k++, n++) {
            if (snprintf(text, sizeof text, "%.*s%ld%s", (int)(at - line), line, atol(at) + step[k], at + length) <
                (int)sizeof text)
                print_variant(to, text, c);
        }
        at += length ? length - 1 : 0;
    }
}

/* Other types, and one dimension or input fewer or more. */
static void vary_inputs(FILE *to, const char *line, Case *c)
{
    static const char *const with[][2] = { { "f[", "i64[" }, { "f[", "f16[" }, { "f[", "b[" },
                                           { "f[", "f64[" }, { "f[", "f[2," }, { "i64[", "f[" },
                                           { "],", "],_," }, { "])", ",2])" }, { "])", "], f[2])" } };
    char text[CASE_TEXT];

    for (size_t k = 0; k < sizeof with / sizeof *with; k++) {
        const char *at = line;

        for (int turn = 0; turn < 4 && (at = strstr(at, with[k][0])); turn++, at++)
            if (snprintf(text, sizeof text, "%.*s%s%s", (int)(at - line), line, with[k][1], at + strlen(with[k][0])) <
                (int)sizeof text)
                print_variant(to, text, c);
    }
}

/* ---- a case ---- */

static void write_case(OperatorText *t, const char *line)
{
    Arena *a = arena_create();
    Graph *g = NULL;
    Status st = a ? case_graph(&g, t->c, DT_FLOAT32) : FAIL_NOMEM();

    for (int i = 0; i < VARIANTS; i++)
        fprintf(t->to[i], "%s\n", line);
    print_graph(t->to[SHAPES], g, st);
    if (!st) {
        print_placements(t->to[PLACEMENTS], g, a);
        st = lower(g, a, false);
        print_graph(t->to[LOWERED], g, st);
    }
    if (!st && !t->c->nograd) {
        st = differentiate(g, a, t->c);
        print_graph(t->to[GRADIENT], g, st);
    }
    if (!st) {
        st = lower(g, a, true);
        print_graph(t->to[STANDARD], g, st);
    }
    graph_free(g);
    arena_free(a);
}

static char *trimmed(char *line)
{
    size_t n;

    line += strspn(line, " \t");
    line[strcspn(line, "|\n")] = '\0';
    for (n = strlen(line); n && strchr(" \t\r", line[n - 1]); n--)
        line[n - 1] = '\0';
    return line;
}

/* Writes a line of the file, if it is a case of the operator. */
static void write_line(OperatorText *t, const char *line, const char *op)
{
    char *copy;

    if (!*line || *line == '#' || case_parse(t->c, line) || strcmp(t->c->op, op) || !(copy = strdup(line)))
        return;
    write_case(t, trimmed(copy));
    vary_numbers(t->to[VARIANTS], copy, t->c);
    vary_inputs(t->to[VARIANTS], copy, t->c);
    free(copy);
}

Status operator_case_text(FILE *to, const char *path, const char *op)
{
    OperatorText t = { .c = malloc(sizeof *t.c) };
    char *text[N_SECTIONS] = { NULL }, *line = NULL;
    size_t n[N_SECTIONS], cap = 0;
    FILE *f = fopen(path, "r");

    for (int i = 0; i < N_SECTIONS; i++)
        t.to[i] = open_memstream(&text[i], &n[i]);
    while (f && t.c && getline(&line, &cap, f) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        write_line(&t, line, op);
    }
    fprintf(to, "== operator %s\n", op);
    for (int i = 0; i < N_SECTIONS; i++) {
        fclose(t.to[i]);
        fprintf(to, "== %s\n%s", sections[i], text[i]);
        free(text[i]);
    }
    free(line);
    free(t.c);
    if (!f)
        return FAIL(E_IO, "%s cannot be read", path);
    fclose(f);
    return ST_OK;
}
