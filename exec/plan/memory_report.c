/* Reads the plan that passes/plan/plan_memory.c made: what is alive at a node is every buffer whose first and last node
 * enclose it. */
#include "exec/plan/memory_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/memory.h"
#include "graph/base/machine.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"

enum { MOST_BUFFERS = 12, MOST_STATES = 5, LINE = 512 };

const char *node_label(char *text, size_t n, const Node *node)
{
    bool made_up = !strncmp(node->name, node->op->name, strlen(node->op->name));

    snprintf(text, n, "%s%s%s", made_up ? "" : node->op->name, made_up ? "" : " ", node->name);
    return text;
}

/* ---- numbers ---- */

/* Bytes of a device's states, which lie side by side in one allocation. */
static size_t states_bytes(const Graph *g, const MemoryPlan *plan, int device)
{
    size_t all = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && plan->occurs[i] && value_device(g, (ValueId){ i }) == device)
            all += plan_aligned(plan, value_bytes(g, (ValueId){ i }));
    return all;
}

Status memory_need(MemoryNeed *out, const Graph *g, const MemoryPlan *plan, int device, bool copies)
{
    bool *counted = calloc(g->n_value, sizeof *counted);

    if (!counted)
        return FAIL_NOMEM();
    *out = (MemoryNeed){ .available = -1 };
    if (device < plan->n_device) {
        out->arena = plan->device[device].arena_bytes;
        out->states = copies ? states_bytes(g, plan, device) : plan->device[device].state_bytes;
    }
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && copies && (n->device < 0 ? 0 : n->device) == device; i++) {
            const MemRef *r = &plan->value[n->in[i].i];

            if (has_value(n->in[i]) && r->kind == MEM_CONST && !counted[r->root.i]) {
                counted[r->root.i] = true;
                out->constants += plan_aligned(plan, value_bytes(g, r->root));
            }
        }
    free(counted);
    return ST_OK;
}

size_t memory_total(const MemoryNeed *need)
{
    return need->arena + need->states + need->constants + need->inputs + need->collectives;
}

/* ---- the table ---- */

static bool alive(const MemBuffer *b, int device, uint32_t at)
{
    return b->kind == MEM_ARENA && b->device == device && b->first <= at && at <= b->last;
}

/* The first node during which most bytes of the device are alive; *bytes of them.  Position n_node is after the
 * step. */
static Status fullest(const Graph *g, const MemoryPlan *plan, int device, uint32_t *at, size_t *bytes)
{
    size_t *begins = calloc((size_t)g->n_node + 2, sizeof *begins), *ends = calloc((size_t)g->n_node + 2, sizeof *ends),
           live = 0;

    *at = 0;
    *bytes = 0;
    for (uint32_t i = 1; begins && ends && i < plan->n_buffer; i++)
        if (plan->buffer[i].kind == MEM_ARENA && plan->buffer[i].device == device) {
            begins[plan->buffer[i].first] += plan->buffer[i].bytes;
            ends[plan->buffer[i].last] += plan->buffer[i].bytes;
        }
    for (uint32_t i = 0; begins && ends && i <= g->n_node; i++) {
        live += begins[i];
        if (live > *bytes) {
            *bytes = live;
            *at = i;
        }
        live -= ends[i];
    }
    free(begins);
    free(ends);
    return begins && ends ? ST_OK : FAIL_NOMEM();
}

static void memory_report_print_node(const Graph *g, uint32_t at, char *text, size_t n)
{
    if (at < g->n_node)
        node_label(text, n, g->node[at]);
    else
        snprintf(text, n, "the end of the step");
}

static void print_buffer(const Graph *g, const MemBuffer *b, MemoryLine *line, void *user)
{
    char text[LINE], bytes[BYTES_TEXT], first[160], last[160];

    memory_report_print_node(g, b->first, first, sizeof first);
    memory_report_print_node(g, b->last, last, sizeof last);
    if (!has_value(b->root))
        snprintf(text, sizeof text, "  %10s  scratch of %s", bytes_text(bytes, b->bytes), first);
    else
        snprintf(text, sizeof text, "  %10s  %.120s, from %s to %s", bytes_text(bytes, b->bytes),
                 value(g, b->root)->name, first, last);
    line(user, text);
}

static int larger_buffer(const void *a, const void *b)
{
    const MemBuffer *x = *(const MemBuffer *const *)a, *y = *(const MemBuffer *const *)b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x > y) - (x < y);
}

static void print_rest(size_t n, size_t bytes, const char *what, MemoryLine *line, void *user)
{
    char text[LINE], size[BYTES_TEXT];

    snprintf(text, sizeof text, "  %10s  in %zu smaller %s", bytes_text(size, bytes), n, what);
    if (n)
        line(user, text);
}

static Status print_buffers(const Graph *g, const MemoryPlan *plan, int device, MemoryLine *line, void *user)
{
    const MemBuffer **list = calloc((size_t)plan->n_buffer + 1, sizeof *list);
    char text[LINE], node[160], bytes[BYTES_TEXT];
    size_t n = 0, most, rest = 0;
    uint32_t at;
    Status st = list ? fullest(g, plan, device, &at, &most) : FAIL_NOMEM();

    for (uint32_t i = 1; !st && i < plan->n_buffer; i++)
        if (alive(&plan->buffer[i], device, at))
            list[n++] = &plan->buffer[i];
    if (n) {
        qsort(list, n, sizeof *list, larger_buffer);
        memory_report_print_node(g, at, node, sizeof node);
        snprintf(text, sizeof text, "the arena's peak, %s, is at %s:", bytes_text(bytes, most), node);
        line(user, text);
    }
    for (size_t i = 0; i < n; i++)
        if (i < MOST_BUFFERS)
            print_buffer(g, list[i], line, user);
        else
            rest += list[i]->bytes;
    if (n > MOST_BUFFERS)
        print_rest(n - MOST_BUFFERS, rest, "buffers", line, user);
    free(list);
    return st;
}

typedef struct {
    size_t bytes;
    uint32_t value;
} Holding;

static int larger_holding(const void *a, const void *b)
{
    const Holding *x = a, *y = b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->value > y->value) - (x->value < y->value);
}

static Status print_states(const Graph *g, const MemoryPlan *plan, int device, MemoryLine *line, void *user)
{
    Holding *list = calloc(g->n_value, sizeof *list);
    char text[LINE], bytes[BYTES_TEXT];
    size_t n = 0, rest = 0, all = 0;

    if (!list)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && plan->occurs[i] && value_device(g, (ValueId){ i }) == device) {
            list[n++] = (Holding){ value_bytes(g, (ValueId){ i }), i };
            all += list[n - 1].bytes;
        }
    qsort(list, n, sizeof *list, larger_holding);
    if (n) {
        snprintf(text, sizeof text, "%zu states, %s:", n, bytes_text(bytes, all));
        line(user, text);
    }
    for (size_t i = 0; i < n; i++) {
        rest += i < MOST_STATES ? 0 : list[i].bytes;
        snprintf(text, sizeof text, "  %10s  %.200s", bytes_text(bytes, list[i].bytes), g->value[list[i].value]->name);
        if (i < MOST_STATES)
            line(user, text);
    }
    if (n > MOST_STATES)
        print_rest(n - MOST_STATES, rest, "states", line, user);
    free(list);
    return ST_OK;
}

Status memory_table(const Graph *g, const MemoryPlan *plan, int device, MemoryLine *line, void *user)
{
    TRY(print_buffers(g, plan, device, line, user));
    return print_states(g, plan, device, line, user);
}

/* ---- when it does not fit ---- */

typedef struct {
    ProgramLog *log;
    void *user;
    const char *device;
} Warner;

static void memory_report_warn(void *user, const char *text)
{
    const Warner *w = user;
    char line[LINE + 32];

    snprintf(line, sizeof line, "%s: %s", w->device, text);
    w->log(w->user, LINE_WARNING, line);
}

/* "; it has 80.0 GiB, 3.0 GiB of them free" */
static void present_memory(Device *d, int64_t available, char *text, size_t n)
{
    char all[BYTES_TEXT], rest[BYTES_TEXT];

    if (!device_runtime(d))
        snprintf(text, n, "; the machine or its group has %s", bytes_text(all, machine_memory()));
    else if (available < 0)
        snprintf(text, n, "; it has %s", bytes_text(all, (uint64_t)device_info(d)->memory));
    else
        snprintf(text, n, "; it has %s, %s of them free", bytes_text(all, (uint64_t)device_info(d)->memory),
                 bytes_text(rest, (uint64_t)available));
}

/* ", inputs 5.0 KiB, collectives 0 B), 12.0 KiB of the host's" */
static void print_rest_of_need(const Device *d, const MemoryNeed *need, char *text, size_t n)
{
    char inputs[BYTES_TEXT], collectives[BYTES_TEXT], host[BYTES_TEXT];

    if (!device_runtime(d))
        snprintf(text, n, ")");
    else
        snprintf(text, n, ", inputs %s, collectives %s) and %s of the host's, pinned", bytes_text(inputs, need->inputs),
                 bytes_text(collectives, need->collectives), bytes_text(host, need->host));
}

Status memory_short(Device *d, const Graph *g, const MemoryPlan *plan, int device, const MemoryNeed *need,
                    ProgramLog *log, void *user)
{
    Warner w = { log, user, device_name(d) };
    char total[BYTES_TEXT], arena[BYTES_TEXT], states[BYTES_TEXT], constants[BYTES_TEXT], rest[160], present[96],
        why[LINE];

    snprintf(why, sizeof why, "%s", status_message());
    if (log)
        TRY(memory_table(g, plan, device, memory_report_warn, &w));
    print_rest_of_need(d, need, rest, sizeof rest);
    present_memory(d, need->available, present, sizeof present);
    return FAIL(E_NOMEM, "%s: out of memory: a step needs %s (arena %s, states %s, constants %s%s%s: %s",
                device_name(d), bytes_text(total, memory_total(need)), bytes_text(arena, need->arena),
                bytes_text(states, need->states), bytes_text(constants, need->constants), rest, present, why);
}
