/* Reads the list of tensors to be trained: a text file with a name in each line, or a file of tensors that a framework
 * saved of a model.  That file's keys are the names, and its numbers find tensors that an exporter renamed. */
#include "exec/train/parameter_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/state/safetensors.h"

static Status parameter_list_describe(ParameterKey *out, Arena *a, const NamedTensor *t)
{
    *out = (ParameterKey){ .name = arena_strdup(a, t->name),
                           .has_numbers = true,
                           .is_float = dtype_is_float(t->tensor.dtype),
                           .numel = tensor_numel(&t->tensor) };
    if (!out->name)
        return FAIL_NOMEM();
    if (!out->is_float)
        return ST_OK;
    out->digest = tensor_digest(&t->tensor, false);
    out->digest_transposed = t->tensor.shape.rank == 2 ? tensor_digest(&t->tensor, true) : out->digest;
    out->looks = tensor_looks(&t->tensor);
    return ST_OK;
}

static Status read_tensors(ParameterList *list, Arena *arena, const char *path)
{
    Arena *scratch = arena_create();
    NamedTensor *tensor;
    ParameterKey *key;
    int n = 0;
    Status st;

    if (!scratch)
        return FAIL_NOMEM();
    TRY_TO(done, st, safetensors_read(&tensor, &n, scratch, path));
    if (!(key = ARENA_NEW(arena, ParameterKey, n + 1)))
        TRY_TO(done, st, FAIL_NOMEM());
    for (int i = 0; i < n && !st; i++)
        st = parameter_list_describe(&key[i], arena, &tensor[i]);
    list->key = key;
    list->n = n;
done:
    arena_free(scratch);
    return st;
}

char *list_line(char *line)
{
    size_t n;

    line += strspn(line, " \t\r\n");
    n = strlen(line);
    while (n && strchr(" \t\r\n", line[n - 1]))
        line[--n] = '\0';
    return *line && *line != '#' ? line : NULL;
}

static Status read_lines(ParameterList *list, Arena *arena, FILE *f)
{
    ParameterKey *key = NULL, *grown;
    size_t cap = 0, size = 0;
    char *line = NULL, *name;
    Status st = ST_OK;

    while (!st && getline(&line, &size, f) >= 0) {
        if (!(name = list_line(line)))
            continue;
        if (!(grown = arena_grow(arena, key, sizeof *key, (size_t)list->n, &cap)))
            st = FAIL_NOMEM();
        else if (!((key = grown)[list->n++] = (ParameterKey){ .name = arena_strdup(arena, name) }).name)
            st = FAIL_NOMEM();
    }
    free(line);
    list->key = key;
    return st;
}

static Status parameter_list_read_names(ParameterList *list, Arena *arena, const char *path)
{
    FILE *f = fopen(path, "r");
    Status st;

    if (!f)
        return FAIL(E_IO, "--parameters %s: cannot read: %s", path, strerror(errno));
    st = read_lines(list, arena, f);
    if (!st && ferror(f))
        st = FAIL(E_IO, "--parameters %s: cannot read: %s", path, strerror(errno));
    fclose(f);
    return st;
}

Status parameter_list_read(const ParameterList **out, Arena *arena, const char *path)
{
    ParameterList *list = ARENA_NEW(arena, ParameterList, 1);
    const char *dot = strrchr(path, '.');

    if (!list || !(list->path = arena_strdup(arena, path)))
        return FAIL_NOMEM();
    if (dot && !strcmp(dot, ".safetensors"))
        TRY(status_prefix(read_tensors(list, arena, path), "--parameters"));
    else
        TRY(parameter_list_read_names(list, arena, path));
    if (!list->n)
        return FAIL(E_INVALID, "--parameters %s: it names no tensor; expected names, one per line, or a .safetensors",
                    path);
    *out = list;
    return ST_OK;
}
