/* What a value of a graph has and ONNX has no place for, as text in the value's doc_string, a line for each:
 *
 *   device=0 replica=1         always, -1: none
 *   channels_last              its layout
 *   shape=4,3                  of an input whose symbolic dimensions are bound
 *   of=NAME                    the value of the unpartitioned graph that it is a copy of
 *   name=NAME                  its own, where the file gives it that of an output
 *
 * A doc_string that does not begin so is somebody else's and says nothing to us. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/export.h"

#define CHANNELS_LAST "channels_last"
#define SHAPE_OF "shape="
#define COPY_OF "of="
#define OWN_NAME "name="

/* ---- writing ---- */

char *export_place(Exporter *x, int device, int replica)
{
    char *text = NULL;

    if ((device >= 0 || replica >= 0) && !(text = arena_printf(x->arena, "device=%d replica=%d", device, replica)))
        x->no_memory = true;
    return text;
}

static bool is_bound(const Value *v) { return v->kind == V_INPUT && v->dim_param && shape_known(&v->shape); }

static const char *shape_line(Exporter *x, const Shape *s)
{
    const char *text = "";

    for (int i = 0; text && i < s->rank; i++)
        text = arena_printf(x->arena, "%s%s%lld", text, i ? "," : "\n" SHAPE_OF, (long long)s->dim[i]);
    return text;
}

/* Does the importer know the value's place by itself?  A result is where its node is. */
static bool is_placed(const Value *v)
{
    const Node *n = v->producer;

    return v->device == (n ? n->device : -1) && v->replica == (n ? n->replica : -1);
}

char *export_mark(Exporter *x, uint32_t i)
{
    const Value *v = x->g->value[i];
    const char *name = strcmp(x->name[i], v->name) ? v->name : NULL, *shape = is_bound(v) ? shape_line(x, &v->shape) : "";
    char *text;

    if (is_placed(v) && !v->layout && shape && !*shape && !v->logical && !name)
        return NULL;
    text = arena_printf(x->arena, "device=%d replica=%d%s%s%s%s%s%s", v->device, v->replica, v->layout ? "\n" CHANNELS_LAST : "",
                        shape ? shape : "", v->logical ? "\n" COPY_OF : "", v->logical ? v->logical : "", name ? "\n" OWN_NAME : "",
                        name ? name : "");
    x->no_memory |= !text || !shape;
    return text;
}

/* ---- reading ---- */

/* What follows `key` in a line, or NULL. */
static const char *after(const char *line, const char *key)
{
    return strncmp(line, key, strlen(key)) ? NULL : line + strlen(key);
}

bool place_decode(const char *doc, int *device, int *replica)
{
    int d, r, end = 0;

    if (!doc || sscanf(doc, "device=%d replica=%d%n", &d, &r, &end) != 2 || (doc[end] && doc[end] != '\n') || d < -1 || r < -1)
        return false;
    *device = d;
    *replica = r;
    return true;
}

/* Sizes for dimensions that the model leaves open. */
static void bind_shape(Value *v, const char *text)
{
    Shape s = v->shape;
    char *end = NULL;

    for (int i = 0; i < s.rank; i++, text = end + 1) {
        long long size = strtoll(text, &end, 10);

        if (end == text || size < 0 || *end != (i + 1 < s.rank ? ',' : '\0') || (s.dim[i] >= 0 && s.dim[i] != size))
            return;
        s.dim[i] = size;
    }
    if (v->kind == V_INPUT && !shape_check(&s, (int)dtype_size(v->dtype)))
        v->shape = s;
}

static void read_line(Graph *g, ValueId id, const char *line)
{
    Value *v = value(g, id);
    const char *text;

    if (!strcmp(line, CHANNELS_LAST))
        v->layout = LAYOUT_CHANNELS_LAST;
    else if ((text = after(line, SHAPE_OF)))
        bind_shape(v, text);
    else if ((text = after(line, COPY_OF)))
        v->logical = text;
    else if ((text = after(line, OWN_NAME)) && *text)
        graph_rename(g, id, text);
}

Status mark_decode(Graph *g, ValueId v, const char *doc)
{
    char *copy, *rest;

    if (!has_value(v) || !place_decode(doc, &value(g, v)->device, &value(g, v)->replica))
        return ST_OK;
    if (!(copy = rest = arena_strdup(g->arena, doc)))
        return FAIL_NOMEM();
    strsep(&rest, "\n");
    for (char *line; (line = strsep(&rest, "\n"));)
        read_line(g, v, line);
    return g->status;
}
