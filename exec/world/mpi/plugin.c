/* The table of an MPI library: calls of the library by whose compiler this file is built, and nothing else.
 * exec/world/mpi_transport.c uses them.
 *
 * A message of several pieces is one element of a datatype that is made for it.  So nothing is copied, and the two
 * sides may cut a message into different pieces. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/world/mpi_calls.h"

enum { MOST_CHANNELS = 2, TAG = 1 };

struct MpiGroup {
    MPI_Comm comm[MOST_CHANNELS];
    MPI_Request opening[MOST_CHANNELS];
    int channels;
};

_Static_assert(sizeof(MPI_Request) <= sizeof(MpiRequest), "a request fits");

static MPI_Request load(const MpiRequest *r)
{
    MPI_Request request;

    memcpy(&request, r, sizeof request);
    return request;
}

static void store(MpiRequest *r, MPI_Request request) { memcpy(r, &request, sizeof request); }

/* ---- the library ---- */

static bool plugin_fits(char *text, size_t n)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int len = 0;

    MPI_Get_library_version(version, &len);
    version[strcspn(version, "\n\t,")] = '\0';
    snprintf(text, n, "%s", version);
#ifdef OPEN_MPI
    return strstr(version, "Open MPI") != NULL;
#else
    return strstr(version, "Open MPI") == NULL;
#endif
}

static int stands(bool *begun, bool *ended)
{
    int is = 0, was = 0, code = MPI_Initialized(&is);

    if (!code)
        code = MPI_Finalized(&was);
    *begun = is;
    *ended = was;
    return code;
}

static int plugin_begin(void)
{
    int given, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);

    return code ? code : MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static bool serves_threads(void)
{
    int given = MPI_THREAD_SINGLE;

    return !MPI_Query_thread(&given) && given >= MPI_THREAD_SERIALIZED;
}

static int end(void) { return MPI_Finalize(); }

static void message(int code, char *text, size_t n)
{
    char full[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    if (MPI_Error_string(code, full, &len))
        snprintf(full, sizeof full, "error %d", code);
    full[strcspn(full, "\n")] = '\0';
    snprintf(text, n, "%s", full);
}

/* ---- communicators ---- */

/* MPI reports an error of duplicating to the error handler of the original communicator, so that is replaced meanwhile.
 */
static int duplicate(MpiGroup *g, MPI_Comm comm)
{
    MPI_Errhandler before;
    int code;

    if (comm == MPI_COMM_NULL)
        return MPI_ERR_COMM;
    if ((code = MPI_Comm_get_errhandler(comm, &before)))
        return code;
    code = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int c = 0; c < g->channels && !code; c++)
        code = MPI_Comm_idup(comm, &g->comm[c], &g->opening[c]);
    MPI_Comm_set_errhandler(comm, before);
    if (before != MPI_ERRHANDLER_NULL)
        MPI_Errhandler_free(&before);
    return code;
}

static int open_group(MpiGroup **out, const void *communicator, int channels)
{
    MpiGroup *g = calloc(1, sizeof *g);
    MPI_Comm comm = MPI_COMM_WORLD;
    int code;

    if (!g || channels > MOST_CHANNELS) {
        free(g);
        return MPI_ERR_NO_MEM;
    }
    if (communicator)
        memcpy(&comm, communicator, sizeof comm);
    g->channels = channels;
    if ((code = duplicate(g, comm))) {
        free(g);
        return code;
    }
    *out = g;
    return MPI_SUCCESS;
}

static int opened(MpiGroup *g, bool *done)
{
    MPI_Status status[MOST_CHANNELS];
    int flag = 0, code = MPI_Testall(g->channels, g->opening, &flag, status);

    for (int c = 0; c < g->channels && !code && flag; c++)
        code = MPI_Comm_set_errhandler(g->comm[c], MPI_ERRORS_RETURN);
    *done = flag;
    return code;
}

static int plugin_close_group(MpiGroup *g)
{
    int code = MPI_SUCCESS;

    for (int c = 0; c < g->channels && !code; c++)
        code = MPI_Comm_free(&g->comm[c]);
    free(g);
    return code;
}

static void forget(MpiGroup *g) { free(g); }

static int plugin_place(const MpiGroup *g, int *size, int *rank)
{
    int code = MPI_Comm_size(g->comm[0], size);

    return code ? code : MPI_Comm_rank(g->comm[0], rank);
}

/* A duplicate of MPI_COMM_WORLD is ended as MPI_COMM_WORLD: for the duplicate the launcher of MPICH 4.2 often exits
 * with 0. */
static void kill_all(const MpiGroup *g, int status)
{
    int is = MPI_CONGRUENT;

    if (g && MPI_Comm_compare(g->comm[0], MPI_COMM_WORLD, &is))
        is = MPI_UNEQUAL;
    MPI_Abort(is == MPI_CONGRUENT || is == MPI_IDENT ? MPI_COMM_WORLD : g->comm[0], status);
}

/* ---- messages ---- */

static int plugin_type_of(const struct iovec *piece, int n, MPI_Datatype *out)
{
    int *len = calloc((size_t)n, sizeof *len), code = MPI_ERR_NO_MEM;
    MPI_Aint *at = calloc((size_t)n, sizeof *at);

    if (len && at) {
        for (int i = 0; i < n; i++) {
            len[i] = (int)piece[i].iov_len;
            MPI_Get_address(piece[i].iov_base, &at[i]);
        }
        code = MPI_Type_create_hindexed(n, len, at, MPI_BYTE, out);
        if (!code)
            code = MPI_Type_commit(out);
    }
    free(len);
    free(at);
    return code;
}

/* Posts a message to or from a process: bytes of one piece, or one element of a datatype. */
static int post_pieces(MpiGroup *g, int channel, const struct iovec *piece, int n, int other, bool sends,
                       MpiRequest *out)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = MPI_BYTE;
    void *at = n == 1 ? piece->iov_base : MPI_BOTTOM;
    const int count = n == 1 ? (int)piece->iov_len : 1;
    int code = n == 1 ? MPI_SUCCESS : plugin_type_of(piece, n, &type);

    if (!code)
        code = sends ? MPI_Isend(at, count, type, other, TAG, g->comm[channel], &request)
                     : MPI_Irecv(at, count, type, other, TAG, g->comm[channel], &request);
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
    if (!code)
        store(out, request);
    return code;
}

static int send_pieces(MpiGroup *g, int channel, const struct iovec *piece, int n, int to, MpiRequest *out)
{
    return post_pieces(g, channel, piece, n, to, true, out);
}

static int receive_pieces(MpiGroup *g, int channel, const struct iovec *piece, int n, int from, MpiRequest *out)
{
    return post_pieces(g, channel, piece, n, from == MPI_ANYBODY ? MPI_ANY_SOURCE : from, false, out);
}

static int plugin_add(MpiGroup *g, int channel, const void *from, void *to, const int *n, int size, bool wide, bool all,
                      MpiRequest *out)
{
    const MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    MPI_Request request = MPI_REQUEST_NULL;
    int sum = 0, code;

    for (int r = 0; r < size; r++)
        sum += n[r];
    code = all ? MPI_Iallreduce(from, to, sum, type, MPI_SUM, g->comm[channel], &request)
               : MPI_Ireduce_scatter(from, to, n, type, MPI_SUM, g->comm[channel], &request);
    if (!code)
        store(out, request);
    return code;
}

static int test(MpiRequest *r, MpiStand *out)
{
    MPI_Request request = load(r);
    MPI_Status status;
    int done = 0, cancelled = 0, bytes = 0, code = MPI_Test(&request, &done, &status);

    store(r, request);
    *out = (MpiStand){ .done = done != 0 };
    if (code || !done)
        return code;
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled)
        MPI_Get_elements(&status, MPI_BYTE, &bytes);
    *out = (MpiStand){ true, cancelled != 0, status.MPI_SOURCE, (size_t)(bytes > 0 ? bytes : 0) };
    return MPI_SUCCESS;
}

static int cancel(MpiRequest *r)
{
    MPI_Request request = load(r);

    return MPI_Cancel(&request);
}

__attribute__((visibility("default"))) MpiCallsEntry dpexec_mpi_calls;

const MpiCalls *dpexec_mpi_calls(void)
{
    static const MpiCalls calls = {
        .abi = MPI_CALLS_ABI,
#ifdef OPEN_MPI
        .library = "Open MPI",
#else
        .library = "MPICH",
#endif
        .fits = plugin_fits,
        .stands = stands,
        .begin = plugin_begin,
        .serves_threads = serves_threads,
        .end = end,
        .message = message,
        .open = open_group,
        .opened = opened,
        .close = plugin_close_group,
        .forget = forget,
        .place = plugin_place,
        .kill = kill_all,
        .send = send_pieces,
        .receive = receive_pieces,
        .add = plugin_add,
        .test = test,
        .cancel = cancel,
    };

    return &calls;
}
