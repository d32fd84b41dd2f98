/* The C API around worlds. */
#include <stdlib.h>

#include "exec/api/api.h"

static const double PATIENCE = 300; /* seconds */

dpx_status dpx_world_join(dpx_world **out, const dpx_world_options *options)
{
    WorldOptions own;
    dpx_world *w;
    Status st;

    NEED(out, "out");
    NEED(options, "options");
    own = (WorldOptions){ options->size, options->rank, options->rendezvous,
                          options->timeout != 0 ? options->timeout : PATIENCE, options->secret };
    w = calloc(1, sizeof *w);
    st = w && (w->notes = facts_create()) ? ST_OK : FAIL_NOMEM();
    if (!st)
        st = world_join(&w->world, &own);
    if (st) {
        dpx_world_leave(w);
        return (dpx_status)st;
    }
    *out = w;
    return DPX_OK;
}

void dpx_world_leave(dpx_world *w)
{
    if (!w)
        return;
    world_leave(w->world);
    facts_free(w->notes);
    free(w);
}

void dpx_world_abort(dpx_world *w, const char *reason)
{
    if (w)
        world_abort(w->world, reason ? reason : "no reason was given");
}

dpx_status dpx_world_note(dpx_world *w, const char *name, const char *value)
{
    NEED(w, "world");
    NEED(name, "name");
    NEED(value, "value");
    return (dpx_status)facts_add(w->notes, name, value);
}

dpx_status dpx_world_max(dpx_world *w, int64_t mine, int64_t *out)
{
    NEED(w, "world");
    NEED(out, "out");
    return (dpx_status)world_max(w->world, mine, out);
}

void dpx_options_set_world(dpx_options *o, dpx_world *w)
{
    if (o)
        ((Options *)o)->world = w;
}
