/* A graph and its memory plan as text (tests/plans/graph_text.h). */
#include "tests/plans/graph_text.h"

#include <inttypes.h>
#include <math.h>

#include "graph/ir/op.h"
#include "graph/ir/target.h"
#include "graph/text/print.h"
#include "passes/plan/plan_memory.h"

enum { SHOWN_NUMBERS = 16 };

/* ---- constants ---- */

static double number_of(const Tensor *t, int64_t i)
{
    return dtype_is_float(t->dtype) ? tensor_float(t, i) : (double)tensor_int(t, i);
}

/* Prints the number to four digits; what is next to nothing beside `largest` is 0. */
static void print_number(FILE *to, double x, double largest)
{
    fprintf(to, fabs(x) < 1e-7 * largest ? " 0" : " %.4g", x);
}

/* Prints the first numbers of a tensor and two sums of all, which tell its order too. */
static void print_numbers(FILE *to, const Tensor *t)
{
    const int64_t n = t->dtype == DT_STRING || !t->data ? 0 : tensor_numel(t);
    double largest = 0, sum = 0, ordered = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, isfinite(number_of(t, i)) ? fabs(number_of(t, i)) : 0);
    for (int64_t i = 0; i < n; i++) {
        const double x = number_of(t, i);

        if (i < SHOWN_NUMBERS)
            print_number(to, x, largest);
        sum += isfinite(x) ? x : 0;
        ordered += isfinite(x) ? x * (double)(1 + i % 7) : 0;
    }
    if (n > SHOWN_NUMBERS) {
        fputs(" ... sums", to);
        print_number(to, sum, 1e3 * largest);
        print_number(to, ordered, 1e3 * largest);
    }
}

static void print_constants(FILE *to, const Graph *g)
{
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];

        if (!v || !v->init)
            continue;
        fprintf(to, "%s:", v->name);
        print_numbers(to, v->init);
        putc('\n', to);
    }
}

/* ---- fields of a model ---- */

static void print_model_value(FILE *to, const Value *v)
{
    if (v->kind == V_INPUT)
        fprintf(to, "input %s: carries %d%s%s\n", v->name, v->carries, v->may_carry ? " may-carry" : "",
                v->ordered ? " ordered" : "");
    if (v->kind == V_CONST && (v->evidence || v->tied || v->idle || v->folded_from || v->integers || v->next))
        fprintf(to, "constant %s: evidence %d%s%s%s folded from %s next %s\n", v->name, v->evidence,
                v->tied ? " tied" : "", v->idle ? " idle" : "", v->integers ? " integers" : "",
                v->folded_from ? v->folded_from : "-", v->next ? v->next : "-");
    if (v->batch_axis)
        fprintf(to, "value %s: batch axis %d\n", v->name, v->batch_axis);
}

static void print_model_node(FILE *to, const Node *n)
{
    if (n->call || n->module || n->lost_detach)
        fprintf(to, "node %s: call %s module %s%s\n", n->name, n->call ? n->call : "-", n->module ? n->module : "-",
                n->lost_detach ? " lost-detach" : "");
    for (int i = 0; i < n->n_read_as; i++)
        if (n->read_as[i])
            fprintf(to, "node %s: input %d read as %s\n", n->name, i, n->read_as[i]);
}

static void print_model(FILE *to, const Graph *g)
{
    fprintf(to, "batch %d only %" PRId64 "%s %s\n", g->batch_found, g->only_batch, g->by_sample ? " by sample" : "",
            g->only_why ? g->only_why : "");
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i])
            print_model_value(to, g->value[i]);
    FOR_NODES(g, n)
        print_model_node(to, n);
    for (int i = 0; i < g->n_output; i++)
        fprintf(to, "output %s: batch axis %d resized %d to %" PRId64 "\n", g->output[i].name, g->output[i].batch_axis,
                g->output[i].resized, g->output[i].new_size);
}

Status graph_text_print(FILE *to, const Graph *g, bool model)
{
    TRY(graph_print(to, g, &(PrintOptions){ .max_elements = SHOWN_NUMBERS, .no_init = true }));
    print_constants(to, g);
    if (model)
        print_model(to, g);
    fputs("phases ", to);
    FOR_NODES(g, n)
        putc('0' + (char)n->phase, to);
    putc('\n', to);
    return ST_OK;
}

/* ---- memory ---- */

static void print_ref(FILE *to, const Graph *g, const MemRef *r)
{
    fprintf(to, "%d %d %s+%zu %zu", r->kind, r->device, has_value(r->root) ? value(g, r->root)->name : "-", r->offset,
            r->bytes);
}

Status memory_text_print(FILE *to, const Graph *g, Arena *a)
{
    MemoryPlan *plan;

    TRY(plan_memory(&plan, g, NULL, TARGET_ALIGN, a));
    for (int d = 0; d < plan->n_device; d++)
        fprintf(to, "device %d: arena %zu live %zu state %zu\n", d, plan->device[d].arena_bytes,
                plan->device[d].live_bytes, plan->device[d].state_bytes);
    for (uint32_t i = 1; i < g->n_value; i++) {
        if (!plan->value[i].kind)
            continue;
        fprintf(to, "%s: ", g->value[i]->name);
        print_ref(to, g, &plan->value[i]);
        putc('\n', to);
    }
    for (int i = 0; i < g->n_output; i++) {
        fprintf(to, "output %s: ", g->output[i].name);
        print_ref(to, g, &plan->output[i]);
        putc('\n', to);
    }
    for (int i = 0; i < plan->n_copy; i++) {
        fputs("copy ", to);
        print_ref(to, g, &plan->copy[i].from);
        fputs(" to ", to);
        print_ref(to, g, &plan->copy[i].to);
        putc('\n', to);
    }
    for (uint32_t i = 1; i < plan->n_buffer; i++)
        fprintf(to, "buffer %d at %zu of %zu bytes from %u to %u%s\n", plan->buffer[i].device, plan->buffer[i].offset,
                plan->buffer[i].bytes, plan->buffer[i].first, plan->buffer[i].last,
                plan->buffer[i].writable ? " writable" : "");
    return ST_OK;
}
