/* Joining over MPI: the launcher has started the processes, and the communicator has their ranks. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "exec/world/mpi_transport.h"
#include "graph/base/plugin.h"

enum { MOST = 1 << 20 /* bytes of a message: what has come of a larger one cannot be seen */ };

/* Loaded with RTLD_GLOBAL, because the library's components look up its symbols themselves. */
static const struct {
    const char *name;
    Plugin plugin;
} libraries[] = {
    { "openmpi",
      { "the Open MPI plug-in", "libdpexec_openmpi.so", "DPEXEC_OPENMPI_PLUGIN", MPI_CALLS_SYMBOL,
        RTLD_NOW | RTLD_GLOBAL, MPI_CALLS_ABI } },
    { "mpich",
      { "the MPICH plug-in", "libdpexec_mpich.so", "DPEXEC_MPICH_PLUGIN", MPI_CALLS_SYMBOL, RTLD_NOW | RTLD_GLOBAL,
        MPI_CALLS_ABI } },
};

/* Loads the plug-in of library `name`. */
static Status mpi_join_load(const MpiCalls **out, const char *name)
{
    char version[256];
    const void *table = NULL;

    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !table; i++)
        if (!strcmp(name, libraries[i].name))
            TRY(plugin_load(&table, &libraries[i].plugin));
    if (!table)
        return FAIL(E_INVALID, "mpi: expected openmpi or mpich, found '%s'", name);
    *out = table;
    return (*out)->fits(version, sizeof version)
               ? ST_OK
               : FAIL(E_DEVICE, "mpi: expected %s, but this process has loaded %s", (*out)->library, version);
}

/* Initializes MPI, unless the embedder has.  `given`: the embedder gives a communicator. */
static Status mpi_join_begin(Mpi *m, bool given)
{
    const MpiCalls *calls = m->calls;
    bool begun, ended;

    TRY(mpi_check(calls, calls->stands(&begun, &ended), "MPI_Initialized"));
    if (ended)
        return FAIL(E_INVALID, "%s has been finalized in this process, and cannot begin again", calls->library);
    if (given && !begun)
        return FAIL(E_INVALID, "%s has not been initialized, though a communicator of it is given", calls->library);
    if (!begun)
        TRY(mpi_check(calls, calls->begin(), "MPI_Init_thread"));
    m->ours = !begun;
    return calls->serves_threads() ? ST_OK
                                   : FAIL(E_DEVICE,
                                          "%s serves one thread alone: expected MPI_THREAD_SERIALIZED or "
                                          "MPI_THREAD_MULTIPLE",
                                          calls->library);
}

/* Duplicates the communicator, which takes all processes. */
static Status open_group(Mpi *m, const WorldOptions *opt)
{
    double from = world_now(), now = from;
    bool done = false;

    TRY(mpi_check(m->calls, m->calls->open(&m->group, opt->mpi_comm, N_CHANNELS), "duplicating the communicator"));
    while (!done && now - from < opt->timeout) {
        mpi_nap(now - from);
        TRY(mpi_check(m->calls, m->calls->opened(m->group, &done), "duplicating the communicator"));
        now = world_now();
    }
    return done ? ST_OK
                : FAIL(E_DEVICE, "%s: not all processes have come within %g seconds", m->calls->library, opt->timeout);
}

/* Makes the world of the communicator's size and rank. */
static Status mpi_join_attach(World **out, Mpi *m, const WorldOptions *opt)
{
    WorldOptions place = *opt;
    World *w;

    TRY(mpi_check(m->calls, m->calls->place(m->group, &place.size, &place.rank), "the communicator's size"));
    if (place.size > WORLD_MAX)
        return FAIL(E_INVALID, "world: expected 1 to %d processes, found %d", WORLD_MAX, place.size);
    if (opt->size && opt->size != place.size)
        return FAIL(E_INVALID,
                    "%s sees %d process%s, but %d were started: does the launcher belong to another MPI library?",
                    m->calls->library, place.size, place.size == 1 ? "" : "es", opt->size);
    m->sending = calloc((size_t)place.size, sizeof *m->sending);
    m->receiving = calloc((size_t)place.size, sizeof *m->receiving);
    m->share = calloc((size_t)place.size, sizeof *m->share);
    if (!m->sending || !m->receiving || !m->share)
        return FAIL_NOMEM();
    TRY(world_create(&w, &place));
    w->link = m;
    w->transport = &mpi_transport;
    *out = w;
    return ST_OK;
}

Status mpi_join(World **out, const WorldOptions *opt)
{
    Mpi *m = calloc(1, sizeof *m);
    World *w = NULL;
    Status st;

    if (!m)
        return FAIL_NOMEM();
    m->most = MOST;
    TRY_TO(fail, st, mpi_join_load(&m->calls, opt->mpi));
    TRY_TO(fail, st, mpi_join_begin(m, opt->mpi_comm != NULL));
    TRY_TO(fail, st, open_group(m, opt));
    TRY_TO(fail, st, mpi_join_attach(&w, m, opt));
    world_set_purpose(w, "meeting");
    if ((st = world_count_neighbours(w))) {
        world_release(w);
        return st;
    }
    world_set_purpose(w, "%s", "");
    *out = w;
    return ST_OK;
fail:
    if (!m->group) { /* otherwise MPI may still use this memory */
        free(m->sending);
        free(m->receiving);
        free(m->share);
        free(m);
    }
    return st;
}
