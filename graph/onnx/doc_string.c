/* Marks: properties of values for which ONNX has no field, as lines in the value's doc_string:
 *
 *   device=0 replica=1         always there; -1: none
 *   channels_last              the layout, by its name (graph/tensor/layout.c)
 *   shape=4,3                  of an input whose symbolic dimensions are bound
 *   of=NAME                    the value of the unpartitioned graph that it is a copy of
 *   name=NAME                  its own name, where the file uses that of an output
 *
 * PROP_MARKS in the file's metadata marks a file whose doc_strings are marks; in any other file they are ignored.
 * Numbers of devices and replicas are bounded, because memory is planned by them. */
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

char *export_mark(Exporter *x, uint32_t i)
{
    const Value *v = x->g->value[i];
    const Node *n = v->producer;
    const char *name = strcmp(x->name[i], v->name) ? v->name : NULL, *shape = "";
    char *text;

    for (int d = 0; is_bound(v) && shape && d < v->shape->rank; d++)
        shape = arena_printf(x->arena, "%s%s%lld", shape, d ? "," : "\n" SHAPE_OF, (long long)v->shape->dim[d]);
    if (v->device == (n ? n->device : -1) && v->replica == (n ? n->replica : -1) && !v->layout && shape && !*shape &&
        !v->logical && !name) /* the importer places a value where its node is */
        return NULL;
    text = arena_printf(x->arena, "device=%d replica=%d%s%s%s%s%s%s%s", v->device, v->replica, v->layout ? "\n" : "",
                        v->layout ? layout_name(v->layout) : "", shape ? shape : "", v->logical ? "\n" COPY_OF : "",
                        v->logical ? v->logical : "", name ? "\n" OWN_NAME : "", name ? name : "");
    x->no_memory |= !text || !shape;
    return text;
}

/* ---- reading ---- */

/* The text after `key` at the start of the line, or NULL. */
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

/* Sets the open dimensions of an input to the sizes in `text`; an invalid text changes nothing. */
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

static Status read_line(Graph *g, ValueId id, const char *line)
{
    Value *v = value(g, id);
    const char *text;
    Layout layout;

    if (layout_find(&layout, line)) { /* state gets its layout when it is loaded, a result when it is computed */
        if (v->kind != V_STATE && v->kind != V_TEMP)
            return FAIL(E_MODEL, "stored %s, expected rows: it is neither state nor computed", layout_name(layout));
        if (!layout_holds(layout, v->shape))
            return FAIL(E_MODEL, "cannot be stored %s", layout_name(layout));
        v->layout = layout;
    } else if ((text = after(line, SHAPE_OF)))
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
