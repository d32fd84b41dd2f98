/* A program that has MPI already: its communicator, of which the ranks are turned round, becomes a world, twice; what
 * the program itself does with MPI goes on, and it finalizes MPI.  With an argument the world fails instead, and what
 * the program does with MPI goes on all the same, until it ends everything itself, with status 42. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "include/dpexec.h"

static int fail(const char *what)
{
    fprintf(stderr, "embedder: %s: %s\n", what, dpx_error());
    return MPI_Abort(MPI_COMM_WORLD, 3);
}

/* One process tells why it fails; the others hear it. */
static int outlive(const dpx_world_options *opt, int rank, int size)
{
    int64_t most = 0;
    dpx_world *w;
    bool failed;
    int sum = 0;

    if (dpx_world_join(&w, opt))
        return fail("joining");
    failed = dpx_world_max(w, 1, &most) != DPX_OK; /* when it ends well somewhere, all have joined */
    if (dpx_world_rank(w) == 1 && failed)
        return fail("the first largest");
    if (dpx_world_rank(w) == 1)
        dpx_world_abort(w, "the tea is finished");
    if (!failed && !dpx_world_max(w, 1, &most))
        return fail("a failed world goes on");
    if (dpx_world_rank(w) != 1 && !strstr(dpx_error(), "the tea is finished"))
        return fail("another reason");
    dpx_world_leave(w);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size - 1) / 2)
        return fail("what MPI does afterwards");
    printf("rank %d has outlived its world\n", rank);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD); /* all have said so */
    return MPI_Abort(MPI_COMM_WORLD, 42);
}

int main(int argc, char **argv)
{
    dpx_world_options opt = { .mpi = DPX_MPI_LIBRARY, .timeout = 30 };
    int given, rank, size, sum = 0;
    MPI_Comm none = MPI_COMM_NULL, turned;
    MPI_Errhandler before, after;
    dpx_world *refused;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &turned);
    opt.mpi_comm = &none;
    if (dpx_world_join(&refused, &opt) != DPX_DEVICE || !strstr(dpx_error(), "duplicating the communicator: "))
        return fail("a communicator that is none");
    MPI_Comm_get_errhandler(turned, &before);
    opt.mpi_comm = &turned;
    if (argc > 1)
        return outlive(&opt, rank, size);
    for (int k = 0; k < 2; k++) {
        dpx_world *w;
        int64_t most;

        if (dpx_world_join(&w, &opt))
            return fail("joining");
        if (dpx_world_size(w) != size || dpx_world_rank(w) != size - 1 - rank)
            return fail("places");
        if (dpx_world_max(w, rank, &most) || most != size - 1)
            return fail("the largest rank");
        dpx_world_leave(w);
    }
    MPI_Comm_get_errhandler(turned, &after);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, turned);
    MPI_Comm_free(&turned);
    if (before != after || sum != size * (size - 1) / 2)
        return fail("what MPI does afterwards");
    return MPI_Finalize();
}
