/* The picture of a step as a page.  It holds the tree and the whole graph as JSON, which its script, picture.js, draws;
 * it loads nothing. */
#include <string.h>

#include "exec/inspect/picture_text.h"
#include "exec/picture_css.gen.h"
#include "exec/picture_js.gen.h"
#include "graph/base/json_writer.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "graph/ops/update.h"

/* ---- blocks ---- */

/* "c": a list by column of [nodes, operators, output, parameters, FLOPs, bytes, seconds], null where it is idle. */
static Status write_parts(JsonWriter *w, const PictureTree *t, const Part *part, Arena *a)
{
    json_open(w, "c", '[');
    for (int c = 0; c < t->n_drawn; c++) {
        const Part *p = &part[c];
        const char *shape = p->nodes ? picture_shape(a, p) : NULL;

        if (!p->nodes) {
            json_write_string(w, NULL, NULL);
            continue;
        }
        if (!shape)
            return FAIL_NOMEM();
        json_open(w, NULL, '[');
        json_write_int(w, NULL, p->nodes);
        json_write_string(w, NULL, p->ops ? p->ops : "");
        json_write_string(w, NULL, shape);
        json_write_int(w, NULL, p->parameters);
        json_write_float(w, NULL, p->flops);
        json_write_float(w, NULL, p->bytes);
        json_write_float(w, NULL, p->seconds);
        json_close(w);
    }
    json_close(w);
    return ST_OK;
}

static Status write_block(JsonWriter *w, const PictureTree *t, const Block *b, Arena *a)
{
    static const char *const kinds[] = { "phase", "scope", "repeat", "layer", "bar" };

    json_open(w, NULL, '{');
    json_write_string(w, "kind", kinds[b->kind]);
    json_write_string(w, "title", b->title);
    if (strcmp(b->path, b->title) != 0)
        json_write_string(w, "path", b->path);
    if (b->unnamed)
        json_write_bool(w, "unnamed", true);
    json_write_int(w, "phase", b->phase);
    json_write_int(w, "end", b->end);
    if (b->bar) {
        const Exchange e = exchange_of(b->bar);

        json_write_string(w, "colour", e.sum ? "sum" : e.joined ? "joined" : "given");
    }
    if (b->bars) {
        json_write_int(w, "bars", b->bars);
        json_write_float(w, "sent", b->sent);
        json_write_float(w, "wire", b->wire);
    }
    if (b->part)
        TRY(write_parts(w, t, b->part, a));
    json_close(w);
    return ST_OK;
}

static void write_columns(JsonWriter *w, const PictureTree *t)
{
    json_open(w, "columns", '[');
    for (int c = 0; c < t->n_drawn; c++) {
        json_open(w, NULL, '{');
        json_write_string(w, "title", t->column[c].title);
        json_write_string(w, "note", t->column[c].note);
        json_write_int(w, "lanes", t->column[c].lanes);
        json_close(w);
    }
    json_close(w);
    json_write_int(w, "more_columns", t->n_column - t->n_drawn);
    json_write_int(w, "lanes", t->picture.n_lane);
}

/* ---- nodes ---- */

/* Writes the ids of the values, without constants. */
static void write_values(JsonWriter *w, const Graph *g, const char *key, const ValueId *v, int n)
{
    json_open(w, key, '[');
    for (int i = 0; i < n; i++)
        if (has_value(v[i]) && value(g, v[i])->kind != V_CONST)
            json_write_int(w, NULL, v[i].i);
    json_close(w);
}

static void write_picture_node(JsonWriter *w, const PictureTree *t, const Node *n)
{
    const Graph *g = t->picture.g;
    const Exchange e = exchange_of(n);
    const UpdateForm form = update_is(n) ? update_form(n) : (UpdateForm){ 0 };
    const Value *out = n->n_out && has_value(n->out[0]) ? value(g, n->out[0]) : NULL;
    char shape[SHAPE_TEXT] = "";

    json_open(w, NULL, '{');
    json_write_string(w, "name", n->name);
    json_write_string(w, "op", n->op->name);
    json_write_int(w, "block", t->block_of[n->index]);
    json_write_string(w, "phase", phase_name(t->picture.phase[n->index]));
    json_write_int(w, "replica", n->replica);
    json_write_int(w, "device", n->device);
    if (e.tensors) {
        json_write_int(w, "tensors", e.tensors);
        json_write_int(w, "bytes", picture_bytes(g, n));
    }
    json_write_string(w, "shape", out && out->shape ? shape_text(out->shape, shape) : "");
    write_values(w, g, "in", n->in, n->n_in);
    write_values(w, g, "out", n->out, n->n_out);
    if (form.count) { /* of an update: each parameter with its gradient */
        json_open(w, "pairs", '[');
        for (int i = 0; i < form.count; i++) {
            json_open(w, NULL, '[');
            json_write_int(w, NULL, n->in[update_state(&form, i, 0)].i);
            json_write_int(w, NULL, n->in[update_grad(&form, i)].i);
            json_close(w);
        }
        json_close(w);
    }
    json_close(w);
}

typedef struct {
    const char *name;
} Seen;

static bool is_seen(const void *item, const void *key) { return !strcmp(((const Seen *)item)->name, key); }

/* The names of the parameters, each once, and the name of every state by its id. */
static Status write_states(JsonWriter *w, const Graph *g, Arena *a)
{
    HashTable seen = { 0 };
    char id[16];

    json_open(w, "parameters", '[');
    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        const char *name = v && v->kind == V_STATE && v->trainable ? value_logical_name(v) : NULL;
        Seen *x;

        if (!name || (seen.n && hash_table_find(&seen, hash_text(0, name), is_seen, name)))
            continue;
        if (!hash_table_reserve(&seen, a) || !(x = ARENA_NEW(a, Seen, 1)))
            return FAIL_NOMEM();
        x->name = name;
        hash_table_add(&seen, hash_text(0, name), x);
        json_write_string(w, NULL, name);
    }
    json_close(w);
    json_open(w, "states", '{');
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i] && g->value[i]->kind == V_STATE) {
            snprintf(id, sizeof id, "%u", i);
            json_write_string(w, id, value_logical_name(g->value[i]));
        }
    json_close(w);
    return ST_OK;
}

static Status write_graph(FILE *f, const PictureTree *t, const Report *r, Arena *a)
{
    const Graph *g = t->picture.g;
    const char *facts = picture_facts(a, t, r);
    JsonWriter w = { .to = f, .html = true, .compact = true };

    if (!facts)
        return FAIL_NOMEM();
    json_open(&w, NULL, '{');
    json_write_string(&w, "title", g->name && *g->name ? g->name : "graph");
    json_write_string(&w, "facts", facts);
    json_open(&w, "samples", '['); /* how many each replica has */
    for (int i = 0; t->picture.scatter && i < t->picture.scatter->n_out; i++) {
        int64_t from, n;

        picture_samples(&t->picture, i, &from, &n);
        json_write_int(&w, NULL, n);
    }
    json_close(&w);
    TRY(write_states(&w, g, a));
    write_columns(&w, t);
    json_open(&w, "blocks", '[');
    for (int i = 0; i < t->n_block; i++)
        TRY(write_block(&w, t, t->block[i], a));
    json_close(&w);
    json_open(&w, "nodes", '[');
    FOR_NODES(g, n)
        write_picture_node(&w, t, n);
    json_close(&w);
    json_close(&w);
    return ST_OK;
}

Status picture_html(FILE *f, const Graph *g, const Report *r)
{
    Arena *a = arena_create_beside(g->arena);
    PictureTree t;
    Status st = a ? picture_tree(&t, g, r ? r->node_seconds : NULL, a) : FAIL_NOMEM();

    if (!st) {
        fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
              f);
        picture_text(f, g->name ? g->name : "", 120);
        fputs("</title>\n<style>\n", f);
        fwrite(picture_css, 1, sizeof picture_css, f);
        fputs("</style>\n<body>\n<script type=\"application/json\" id=\"graph\">\n", f);
        st = write_graph(f, &t, r, a);
        fputs("</script>\n<script>\n", f);
        fwrite(picture_js, 1, sizeof picture_js, f);
        fputs("</script>\n</html>\n", f);
    }
    if (!st && ferror(f))
        st = FAIL(E_IO, "writing the picture of graph '%s' failed", g->name);
    arena_free(a);
    return st;
}
