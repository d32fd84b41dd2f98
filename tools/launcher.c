/* Finds the launcher that has started this process by the variables of its environment.
 *
 * MPI's launchers set variables that show which library they belong to.  Where only the protocol shows (PMI, PMIx), as
 * under srun, the user must name the library.  A rendezvous that the user gives by a flag is a choice against MPI.  A
 * batch script of Slurm is no task of a parallel step; only those have SLURM_STEP_NUM_TASKS. */
#include "tools/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/launched.h"

static Status launcher_read_number(int *out, const char *name, int min)
{
    const char *text = getenv(name);
    char *end;
    long v;

    errno = 0;
    v = strtol(text, &end, 10);
    if (!*text || *end || errno || v < min || v > 1000000)
        return FAIL(E_INVALID, "environment: %s: expected a whole number from %d, found '%s'", name, min, text);
    *out = (int)v;
    return ST_OK;
}

typedef struct {
    const char *name, *size, *rank; /* the launcher, and its variables; size NULL: only the library knows */
    const char *mpi;                /* the library; NULL: the environment does not show it */
    const char *mark;               /* another variable that must be set; NULL: none */
    bool needs_rendezvous;          /* the variables count only with a rendezvous */
} Row;

static const Row rows[] = {
    { "torchrun", "WORLD_SIZE", "RANK", NULL, NULL, true },
    { "mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "openmpi", NULL, false },
    { "mpiexec", "PMI_SIZE", "PMI_RANK", "mpich", "HYDI_CONTROL_FD", false },
    { "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, NULL, false },
    { "mpiexec", "PMI_SIZE", "PMI_RANK", NULL, NULL, false },
    { "a launcher", NULL, "PMIX_RANK", NULL, NULL, false },
};

static bool applies(const Row *row, bool rendezvous)
{
    return (!row->size || getenv(row->size)) && getenv(row->rank) && (!row->mark || getenv(row->mark)) &&
           (rendezvous || !row->needs_rendezvous);
}

Status launcher_find(Launcher *out, const char *mpi, bool rendezvous, bool named)
{
    char number[16] = "";

    *out = (Launcher){ .name = NULL, .size = 1 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Row *row = &rows[i];

        if (!applies(row, rendezvous) || (rendezvous && !mpi && !row->size) || (mpi && row->needs_rendezvous))
            continue;
        *out = (Launcher){ .name = row->name };
        if (row->size)
            TRY(launcher_read_number(&out->size, row->size, 1));
        TRY(launcher_read_number(&out->rank, row->rank, 0));
        if (!named)
            out->mpi = mpi ? mpi : row->mpi;
        if (out->mpi || out->size == 1 || rendezvous)
            return ST_OK;
        if (out->size)
            snprintf(number, sizeof number, "%d ", out->size);
        return FAIL(E_INVALID,
                    "%s started %sprocesses: connect them with --rendezvous HOST:PORT, or by MPI with --mpi openmpi or "
                    "--mpi mpich; --world 1 lets each train alone",
                    out->name, number);
    }
    if (mpi)
        *out = (Launcher){ "--mpi", mpi, 0, 0 };
    return ST_OK;
}

Status launcher_rank(int *out)
{
    const bool meets = getenv("MASTER_ADDR") && getenv("MASTER_PORT");
    const char *connections;
    int size;

    *out = 0;
    if (launched_is())
        return launched_read(out, &size, &connections);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (applies(&rows[i], meets))
            return launcher_read_number(out, rows[i].rank, 0);
    return ST_OK;
}

Status launcher_check_one(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int size = 1;

        if (applies(&rows[i], false) && rows[i].size)
            TRY(launcher_read_number(&size, rows[i].size, 1));
        if (size > 1)
            return FAIL(E_INVALID,
                        "%s started %d processes, of which each would train a model of its own: start dpexec launch "
                        "once, or dpexec train without it",
                        rows[i].name, size);
    }
    return ST_OK;
}
