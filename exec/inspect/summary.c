/* Groups the nodes of a model by layer, in the order in which they are computed.
 *
 * A node with parameters belongs to the layer of the first one's name, without its last component; any other to the
 * scope in its own name, as PyTorch's exporter writes it ("/layer1/layer1.0/relu/Relu"); a node without either is a
 * layer of its own. */
#include "exec/inspect/summary.h"

#include <stdlib.h>
#include <string.h>

#include "exec/inspect/layer_name.h"
#include "graph/base/heap_array.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/ir/op.h"
#include "passes/report.h"

enum { MOST_OPS = 60 };

typedef struct {
    char name[MOST_LAYER_NAME], ops[MOST_OPS];
    const Value *out; /* of the last node */
    int64_t parameters, trained, flops;
    bool merged; /* several operators, not all of which are named */
} Layer;

typedef struct {
    Layer *layer;
    size_t n, room;
    int64_t parameters, trained, flops, bytes_parameters, bytes_outputs;
} Summary;

/* The layer of a node. */
static void name_layer(char name[MOST_LAYER_NAME], const Graph *g, const Node *n)
{
    const char *dot;

    *name = '\0';
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && value(g, n->in[i])->kind == V_STATE &&
            (dot = strrchr(value(g, n->in[i])->name, '.')) && dot > value(g, n->in[i])->name) {
            snprintf(name, MOST_LAYER_NAME, "%.*s", (int)(dot - value(g, n->in[i])->name), value(g, n->in[i])->name);
            return;
        }
    if (!layer_name_scope(name, n->name))
        snprintf(name, MOST_LAYER_NAME, "%s", n->name && *n->name ? n->name : value(g, n->out[0])->name);
}

/* Cuts a name to its first `depth` components. */
static void cut_name(char *name, int depth)
{
    for (char *at = name; depth && (at = strchr(at, '.')); at++)
        if (!--depth) {
            *at = '\0';
            return;
        }
}

static void add_op(Layer *l, const char *op)
{
    const size_t n = strlen(l->ops);
    const char *last = strrchr(l->ops, ' ') ? strrchr(l->ops, ' ') + 1 : l->ops;

    if (!strcmp(last, op))
        return;
    if (n + strlen(op) + 9 < MOST_OPS)
        snprintf(l->ops + n, MOST_OPS - n, "%s%s", n ? " + " : "", op);
    else if (!l->merged)
        strcat(l->ops, " ...");
    l->merged |= n + strlen(op) + 9 >= MOST_OPS;
}

/* Adds the node to its layer, which is the last one or a new one; `seen` marks states that were counted. */
static Status add_node(Summary *s, const Graph *g, const Node *n, int depth, bool *seen)
{
    char name[MOST_LAYER_NAME];
    Layer *l;

    name_layer(name, g, n);
    cut_name(name, depth);
    if (!s->n || strcmp(s->layer[s->n - 1].name, name)) {
        if (!(l = heap_reserve(s->layer, sizeof *l, s->n + 1, &s->room)))
            return FAIL_NOMEM();
        s->layer = l;
        s->layer[s->n] = (Layer){ .out = NULL };
        memcpy(s->layer[s->n++].name, name, sizeof name);
    }
    l = &s->layer[s->n - 1];
    add_op(l, n->op->name);
    l->out = value(g, n->out[0]);
    l->flops += node_flops(g, n);
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            s->bytes_outputs += (int64_t)value_bytes(g, n->out[i]);
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(g, n->in[i]) : NULL;

        if (!v || v->kind != V_STATE || seen[n->in[i].i])
            continue;
        seen[n->in[i].i] = true;
        l->parameters += shape_numel(v->shape);
        l->trained += v->trainable ? shape_numel(v->shape) : 0;
        s->bytes_parameters += (int64_t)value_bytes(g, n->in[i]);
    }
    return ST_OK;
}

static void print_text(FILE *to, const Summary *s)
{
    int width[3] = { 5, 9, 6 };
    char shape[SHAPE_TEXT], a[GROUPED_TEXT], b[GROUPED_TEXT], c[GROUPED_TEXT], of_parameters[BYTES_TEXT],
        of_outputs[BYTES_TEXT];

    for (const Layer *l = s->layer; l < s->layer + s->n; l++) {
        const int n[3] = { (int)strlen(l->name), (int)strlen(l->ops), (int)strlen(shape_text(l->out->shape, shape)) };

        for (int i = 0; i < 3; i++)
            width[i] = n[i] > width[i] ? n[i] : width[i];
    }
    fprintf(to, "%-*s  %-*s  %-*s  %13s  %13s  %17s\n", width[0], "layer", width[1], "operators", width[2], "output",
            "parameters", "trained", "FLOPs");
    for (const Layer *l = s->layer; l < s->layer + s->n; l++)
        fprintf(to, "%-*s  %-*s  %-*s  %13s  %13s  %17s\n", width[0], l->name, width[1], l->ops, width[2],
                shape_text(l->out->shape, shape), l->parameters ? grouped_text(a, l->parameters) : "",
                l->parameters ? grouped_text(b, l->trained) : "", grouped_text(c, l->flops));
    fprintf(to, "\n%zu layers; %s parameters, of which %s are trained; %s FLOPs forward\n", s->n,
            grouped_text(a, s->parameters), grouped_text(b, s->trained), grouped_text(c, s->flops));
    fprintf(to, "memory: parameters %s, all outputs of operators %s\n",
            bytes_text(of_parameters, (uint64_t)s->bytes_parameters),
            bytes_text(of_outputs, (uint64_t)s->bytes_outputs));
}

static void print_json(FILE *to, const Summary *s)
{
    JsonWriter w = { .to = to, .lines = 2 };

    json_open(&w, NULL, '{');
    json_open(&w, "layers", '[');
    for (const Layer *l = s->layer; l < s->layer + s->n; l++) {
        json_open(&w, NULL, '{');
        json_write_string(&w, "layer", l->name);
        json_write_string(&w, "operators", l->ops);
        json_open(&w, "output", '[');
        for (int i = 0; i < l->out->shape->rank; i++)
            json_write_int(&w, NULL, l->out->shape->dim[i]);
        json_close(&w);
        json_write_int(&w, "parameters", l->parameters);
        json_write_int(&w, "trained", l->trained);
        json_write_int(&w, "flops", l->flops);
        json_close(&w);
    }
    json_close(&w);
    json_write_int(&w, "parameters", s->parameters);
    json_write_int(&w, "trained", s->trained);
    json_write_int(&w, "flops", s->flops);
    json_write_int(&w, "bytes_of_parameters", s->bytes_parameters);
    json_write_int(&w, "bytes_of_outputs", s->bytes_outputs);
    json_close(&w);
}

Status summary_print(FILE *to, const Graph *g, int depth, bool json)
{
    Summary s = { 0 };
    bool *seen = calloc((size_t)g->n_value + 1, sizeof *seen);
    Status st = seen ? ST_OK : FAIL_NOMEM();

    FOR_NODES(g, n)
        if (!st && n->n_out && has_value(n->out[0]))
            st = add_node(&s, g, n, depth, seen);
    for (const Layer *l = s.layer; l < s.layer + s.n; l++) {
        s.parameters += l->parameters;
        s.trained += l->trained;
        s.flops += l->flops;
    }
    if (!st && json)
        print_json(to, &s);
    else if (!st)
        print_text(to, &s);
    free(seen);
    free(s.layer);
    return st;
}
