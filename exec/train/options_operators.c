/* The operators in the options, as sets of an embedder or a library that live as long as the options; and the callback
 * for the copies of their nodes. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/operators/operators.h"
#include "exec/train/options.h"

Status options_set_operators(Options *o, dpx_operators *set)
{
    dpx_operators **grown = ARENA_NEW(o->arena, dpx_operators *, o->n_operators + 1);

    for (int i = 0; i < o->n_operators; i++)
        for (int k = 0; k < set->list.n; k++)
            if (operator_find(&o->operators[i]->list, set->list.op[k]->domain, set->list.op[k]->name))
                return FAIL(E_INVALID, "operator %s of domain %s is in two sets", set->list.op[k]->name,
                            set->list.op[k]->domain);
    if (!grown)
        return FAIL_NOMEM();
    for (int i = 0; i < o->n_operators; i++)
        grown[i] = o->operators[i];
    set->given = true;
    operators_keep(set);
    grown[o->n_operators++] = set;
    o->operators = grown;
    return ST_OK;
}

Status options_operators(OperatorList *out, Arena *a, const Options *o)
{
    const OpDef **list;
    int n = 0;

    for (int i = 0; i < o->n_operators; i++)
        n += o->operators[i]->list.n;
    if (!(list = ARENA_NEW(a, const OpDef *, n)))
        return FAIL_NOMEM();
    *out = (OperatorList){ list, 0 };
    for (int i = 0; i < o->n_operators; i++)
        for (int k = 0; k < o->operators[i]->list.n; k++)
            list[out->n++] = o->operators[i]->list.op[k];
    return ST_OK;
}

Status options_set_replication(Options *o, const Replication *r)
{
    const char *pattern = r->pattern ? arena_strdup(o->arena, r->pattern) : NULL;

    if (r->pattern && !pattern)
        return FAIL_NOMEM();
    o->replication = *r;
    o->replication.pattern = pattern;
    return ST_OK;
}

/* ---- libraries ---- */

static Status find_table(const dpx_library **out, void *library, const char *path)
{
    const dpx_library *table = library ? dlsym(library, "dpx_operator_library") : NULL;

    if (!library)
        return FAIL(E_INVALID, "--operators: cannot be loaded: %s", dlerror());
    if (!table)
        return FAIL(E_INVALID, "--operators %s: the library does not define dpx_operator_library", path);
    if (table->abi != DPX_LIBRARY_ABI || table->size < sizeof *table || !table->add)
        return FAIL(E_INVALID,
                    "--operators %s: the library is for another version of dpexec: interface %d of %zu bytes, expected "
                    "%d of %zu",
                    path, table->abi, table->size, DPX_LIBRARY_ABI, sizeof *table);
    *out = table;
    return ST_OK;
}

/* Adds all operators of a library; its error, if it adds none. */
static Status take_set(Options *o, const dpx_library *table, const char *path)
{
    dpx_operators *set = NULL;
    Status st = (Status)dpx_operators_create(&set);

    if (!st)
        st = (Status)table->add(set);
    if (!st)
        st = options_set_operators(o, set);
    operators_release(set);
    return status_prefix(st, "--operators %s", path);
}

/* A name without a slash is a file here, as it is for all that names files, and none of the system's libraries. */
Status options_add_library(const Setting *r, void *to, const char *path)
{
    const dpx_library *table;
    char file[4096];
    void *library;
    Status st;

    (void)r;
    if (snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path) >= (int)sizeof file)
        return FAIL(E_INVALID, "--operators %.80s...: the path is too long", path);
    if (access(file, R_OK))
        return FAIL(E_INVALID, "--operators %s: %s", path, strerror(errno));
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    st = find_table(&table, library, path);
    if (st && library)
        dlclose(library);
    return st ? st : take_set(to, table, path);
}
