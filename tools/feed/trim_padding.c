/* Removes padding from outputs.  The axis of positions of an output is one whose size the model's file leaves open.  It
 * belongs to an input's sequences if it has the same name as their axis, or else if it is as long as they were padded.
 */
#include "tools/feed/trim_padding.h"

#include <stdio.h>
#include <string.h>

#include "tools/data/npy_write.h"

static const char *axis_name(const dpx_info *v, int axis) { return axis < v->rank ? v->dim_name[axis] : NULL; }

/* The output as the model's file declares it; false: not at all, or with another number of axes. */
static bool find_declared(dpx_info *v, const Feed *f, const dpx_tensor *y)
{
    for (int i = 0; i < dpx_model_count(f->model, DPX_OUTPUT); i++)
        if (!dpx_model_info(f->model, DPX_OUTPUT, i, v) && !strcmp(v->name, y->name))
            return v->rank == y->rank;
    return false;
}

Status unpad_samples_axis(int *axis, const Feed *f, const dpx_tensor *y, int64_t samples)
{
    const bool first = y->rank && y->dim[0] == samples;
    bool inner = false;
    dpx_info v, in;

    *axis = first ? 0 : -1;
    for (int i = 0; i < f->n; i++) {
        const int of_input = f->field[i].axis;

        if (!f->field[i].split || !feed_input(&in, f->model, f->field[i].name))
            continue;
        for (int k = 0; find_declared(&v, f, y) && k < y->rank; k++)
            if (v.dim_name[k] && axis_name(&in, of_input) && !strcmp(v.dim_name[k], in.dim_name[of_input]) &&
                y->dim[k] == samples) {
                *axis = k;
                return ST_OK;
            }
        inner = of_input && of_input < y->rank && y->dim[of_input] == samples;
        *axis = inner && !first ? of_input : *axis;
        if (inner && first)
            return FAIL(E_INVALID,
                        "output '%s': its samples may lie along axis 0 or %d, which both have %lld elements: give "
                        "another --batch-size",
                        y->name, of_input, (long long)samples);
    }
    return ST_OK;
}

Status unpad_find(const Array **out, const Feed *f, const dpx_tensor *y, int axis, int64_t first)
{
    const int at = axis > 0 ? 0 : 1; /* where axis 1 was before the samples came first */
    const Array *found = NULL, *other = NULL;
    const char *name;
    dpx_info v;

    *out = NULL;
    if (y->rank < 2 || !find_declared(&v, f, y) || v.dim[at] >= 0)
        return ST_OK;
    name = axis_name(&v, at);
    for (int i = 0; i < f->n; i++) {
        const Field *x = &f->field[i];
        const char *own = NULL;
        int64_t longest = 0;
        bool same = true;
        dpx_info in;

        if (!x->array->row || x->kind != FIELD_SAMPLES)
            continue;
        for (int64_t s = first; s < first + y->dim[0]; s++)
            longest = x->array->row[s].n > longest ? x->array->row[s].n : longest;
        if (field_padded(x, longest) != y->dim[1])
            continue;
        if (feed_input(&in, f->model, x->name))
            own = axis_name(&in, field_length_axis(x));
        if (name && own && !strcmp(name, own)) {
            *out = x->array;
            return ST_OK;
        }
        for (int64_t k = 0; found && same && k < found->dim[0]; k++)
            same = found->row[k].n == x->array->row[k].n;
        other = same ? other : x->array;
        found = found ? found : x->array;
    }
    if (other)
        return FAIL(E_INVALID,
                    "output '%s': its axis 1 may be the positions of '%s' or of '%s': export the model with the "
                    "same name for that axis of the output and of the input",
                    y->name, found->name, other->name);
    *out = found;
    return ST_OK;
}

dpx_tensor unpad_all(const dpx_tensor *y, const Array *of)
{
    dpx_tensor all = { .name = y->name, .dtype = y->dtype, .rank = y->rank - 1 };

    memcpy(all.dim + 1, y->dim + 2, (size_t)(y->rank - 2) * sizeof *all.dim);
    for (int64_t i = 0; i < of->dim[0]; i++)
        all.dim[0] += of->row[i].n;
    return all;
}

void unpad_write(FILE *to, const dpx_tensor *y, const Array *of, int64_t first)
{
    size_t position = dpx_dtype_size(y->dtype);

    for (int k = 2; k < y->rank; k++)
        position *= (size_t)y->dim[k];
    for (int64_t s = 0; s < y->dim[0] && position; s++)
        fwrite((const char *)y->data + (size_t)(s * y->dim[1]) * position, position, (size_t)of->row[first + s].n, to);
}

Status unpad_offsets_name(char **out, const char *name)
{
    char text[4096];

    if (snprintf(text, sizeof text, "%s.offsets", name) >= (int)sizeof text)
        return FAIL(E_INVALID, "output '%.40s...': its name is too long", name);
    return npy_file_name(out, text);
}

Status unpad_offsets(OutFile **out, const char *path, const Array *of)
{
    const dpx_tensor t = { .dtype = DPX_INT64, .rank = 1, .dim = { of->dim[0] + 1 } };
    int64_t at = 0;

    TRY(npy_begin(out, path, &t));
    fwrite(&at, sizeof at, 1, outfile_stream(*out));
    for (int64_t i = 0; i < of->dim[0]; i++) {
        at += of->row[i].n;
        fwrite(&at, sizeof at, 1, outfile_stream(*out));
    }
    return ST_OK;
}
