/* What a value of a graph has and ONNX has no place for, as text in the value's doc_string, a line for each:
 *
 *   device=0 replica=1         always, -1: none
 *   channels_last              its layout, by its name (graph/tensor/layout.c)
 *   shape=4,3                  of an input whose symbolic dimensions are bound
 *   of=NAME                    the value of the unpartitioned graph that it is a copy of
 *   name=NAME                  its own, where the file gives it that of an output
 *
 * A file whose doc_strings are to be read so says it in its metadata (PROP_MARKS); in any other file they are
 * somebody's text and say nothing to us.  What a mark may say is bounded: memory is planned by the numbers of devices
 * and replicas. */
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/export.h"

#define DEVICE "device="
#define REPLICA " replica="
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

static bool is_bound(const Value *v) { return v->kind == V_INPUT && v->dim_param && shape_known(v->shape); }

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
    const char *name = strcmp(x->name[i], v->name) ? v->name : NULL,
               *shape = is_bound(v) ? shape_line(x, v->shape) : "";
    char *text;

    if (is_placed(v) && !v->layout && shape && !*shape && !v->logical && !name)
        return NULL;
    text = arena_printf(x->arena, "device=%d replica=%d%s%s%s%s%s%s%s", v->device, v->replica, v->layout ? "\n" : "",
                        v->layout ? layout_name(v->layout) : "", shape ? shape : "", v->logical ? "\n" COPY_OF : "",
                        v->logical ? v->logical : "", name ? "\n" OWN_NAME : "", name ? name : "");
    x->no_memory |= !text || !shape;
    return text;
}

/* ---- reading ---- */

/* What follows `key` in a line, or NULL. */
static const char *after(const char *line, const char *key)
{
    return strncmp(line, key, strlen(key)) ? NULL : line + strlen(key);
}

static bool is_mark(const Importer *im, const char *doc) { return im->marked && doc && after(doc, DEVICE); }

Status place_decode(int16_t *device, int16_t *replica, const Importer *im, const char *doc)
{
    const char *text;
    char *end;
    long long d, r;

    if (!is_mark(im, doc))
        return ST_OK;
    d = strtoll(after(doc, DEVICE), &end, 10);
    if (!(text = after(end, REPLICA)) || (r = strtoll(text, &end, 10), *end && *end != '\n'))
        return FAIL(E_MODEL, "expected '" DEVICE "D" REPLICA "R' in the doc_string of an exported step");
    if (d < -1 || d >= 2 * MAX_DEVICES) /* of n devices, n + d is the host's side of device d */
        return FAIL(E_MODEL, "device %lld, expected -1 to %d", d, 2 * MAX_DEVICES - 1);
    if (r < -1 || r >= MAX_REPLICAS)
        return FAIL(E_MODEL, "replica %lld, expected -1 to %d", r, MAX_REPLICAS - 1);
    *device = (int16_t)d;
    *replica = (int16_t)r;
    return ST_OK;
}

/* Sizes for dimensions that the model leaves open. */
static void bind_shape(Graph *g, Value *v, const char *text)
{
    Shape s = *v->shape;
    char *end = NULL;

    for (int i = 0; i < s.rank; i++, text = end + 1) {
        long long size = strtoll(text, &end, 10);

        if (end == text || size < 0 || *end != (i + 1 < s.rank ? ',' : '\0') || (s.dim[i] >= 0 && s.dim[i] != size))
            return;
        s.dim[i] = size;
    }
    if (v->kind == V_INPUT && !shape_check(&s, (int)dtype_size(v->dtype)))
        value_set_shape(g, v, &s);
}

/* State is put in its layout when it is loaded, results are computed in theirs; nothing reorders the data of others. */
static Status set_layout(Value *v, Layout l)
{
    if (v->kind != V_STATE && v->kind != V_TEMP)
        return FAIL(E_MODEL, "stored %s, expected rows: it is neither state nor computed", layout_name(l));
    if (!layout_holds(l, v->shape))
        return FAIL(E_MODEL, "cannot be stored %s", layout_name(l));
    v->layout = l;
    return ST_OK;
}

static Status read_line(Graph *g, ValueId id, const char *line)
{
    Value *v = value(g, id);
    const char *text;
    Layout layout;

    if (layout_find(&layout, line))
        return set_layout(v, layout);
    if ((text = after(line, SHAPE_OF)))
        bind_shape(g, v, text);
    else if ((text = after(line, COPY_OF)) && *text)
        v->logical = text;
    else if ((text = after(line, OWN_NAME)) && *text)
        graph_rename(g, id, text);
    return g->status;
}

Status mark_decode(const Importer *im, ValueId v, const char *doc)
{
    Graph *g = im->g;
    char *copy, *rest;

    if (!has_value(v) || !is_mark(im, doc))
        return ST_OK;
    TRY(place_decode(&value(g, v)->device, &value(g, v)->replica, im, doc));
    if (!(copy = rest = arena_strdup(g->arena, doc)))
        return FAIL_NOMEM();
    strsep(&rest, "\n");
    for (char *line; (line = strsep(&rest, "\n"));)
        TRY(read_line(g, v, line));
    return g->status;
}
