/* The C API around worlds. */
#include <stdio.h>
#include <stdlib.h>

#include "exec/api/api.h"
#include "exec/operators/operators.h"

static const double PATIENCE = 300; /* seconds */

static void hand_on(void *user, const char *line)
{
    const dpx_world_options *o = user;

    o->log(o->log_user, DPX_LOG_WARNING, line);
}

dpx_status dpx_world_join_sized(dpx_world **out, const dpx_world_options *options, size_t size)
{
    dpx_world_options given;
    WorldOptions own;
    dpx_world *w;
    Status st;

    NEED(out, "out");
    NEED(options, "options");
    NEED_SIZE(size, dpx_world_options);
    if ((st = operators_take_sized(&given, sizeof given, options, size, "dpx_world_options")))
        return (dpx_status)st;
    own = (WorldOptions){ .size = given.size,
                          .rank = given.rank,
                          .rendezvous = given.rendezvous,
                          .timeout = given.timeout != 0 ? given.timeout : PATIENCE,
                          .secret = given.secret,
                          .mpi = given.mpi,
                          .mpi_comm = given.mpi_comm,
                          .log = given.log ? hand_on : NULL,
                          .log_user = &given };
    if (own.mpi_comm && !own.mpi)
        return (dpx_status)FAIL(E_INVALID, "mpi_comm: the library that it belongs to is missing: mpi");
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

int dpx_world_size(const dpx_world *w) { return world_size(w ? w->world : NULL); }
int dpx_world_rank(const dpx_world *w) { return world_rank(w ? w->world : NULL); }
int dpx_world_neighbours(const dpx_world *w) { return world_neighbours(w ? w->world : NULL); }

void dpx_world_end(dpx_world *w, int status)
{
    if (w)
        world_end(w->world, status);
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

dpx_status dpx_world_agree(dpx_world *w)
{
    NEED(w, "world");
    world_set_purpose(w->world, WORLD_STARTED);
    return (dpx_status)world_agree(w->world, w->notes, WORLD_UNLIKE);
}

void dpx_world_set_purpose(dpx_world *w, const char *what)
{
    if (w)
        snprintf(w->purpose, sizeof w->purpose, "%s", what ? what : "");
}

dpx_status dpx_world_max(dpx_world *w, int64_t mine, int64_t *out)
{
    NEED(w, "world");
    NEED(out, "out");
    world_set_purpose(w->world, "%s", *w->purpose ? w->purpose : __func__);
    return (dpx_status)world_max(w->world, mine, out);
}

dpx_status dpx_world_sum(dpx_world *w, int64_t mine, int64_t *out)
{
    NEED(w, "world");
    NEED(out, "out");
    world_set_purpose(w->world, "%s", *w->purpose ? w->purpose : __func__);
    return (dpx_status)world_sum(w->world, mine, out);
}

dpx_status dpx_world_gather(dpx_world *w, const void *mine, size_t bytes, void **all, size_t *size)
{
    NEED(w, "world");
    NEED(mine, "mine");
    NEED(all, "all");
    NEED(size, "size");
    world_set_purpose(w->world, "%s", *w->purpose ? w->purpose : __func__);
    return (dpx_status)world_gather(w->world, mine, bytes, all, size);
}

dpx_status dpx_world_share(dpx_world *w, int root, void *data, size_t bytes)
{
    NEED(w, "world");
    NEED(data, "data");
    if (root < 0 || root >= world_size(w->world))
        return (dpx_status)FAIL(E_INVALID, "%s: root is %d: expected 0 to %d", __func__, root,
                                world_size(w->world) - 1);
    world_set_purpose(w->world, "%s", *w->purpose ? w->purpose : __func__);
    return world_size(w->world) == 1 ? DPX_OK : (dpx_status)world_share(w->world, root, data, bytes);
}

void dpx_options_set_world(dpx_options *o, dpx_world *w)
{
    if (o)
        ((Options *)o)->world = w;
}
