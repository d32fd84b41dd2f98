/* Reads where the processes of a world meet: from the flags, or else from a launcher's environment (tools/launcher.h).
 */
#include "tools/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/launched.h"
#include "tools/launcher.h"

/* torchrun's own store listens at MASTER_PORT, so its processes meet at the next port. */
static Status next_port_of_torchrun(char port[16], const Args *a)
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    char *end;
    const long number = strtol(port, &end, 10);

    if (!store || strcmp(store, "True"))
        return ST_OK;
    if (*end || number < 1 || number > 65534)
        return FAIL(
            E_INVALID,
            "MASTER_PORT %s is the port of torchrun's own store, and no port follows it: give --rendezvous HOST:PORT",
            port);
    snprintf(port, 16, "%ld", number + 1);
    if (!args_has(a, "quiet"))
        fprintf(stderr, "dpexec: MASTER_PORT %ld is the port of torchrun's own store: the processes meet at %s\n",
                number, port);
    return ST_OK;
}

/* "HOST:PORT" of the flag, or else of MASTER_ADDR and MASTER_PORT; "": neither is set. */
static Status find_rendezvous(char text[320], const Args *a)
{
    const char *host = getenv("MASTER_ADDR"), *given = getenv("MASTER_PORT");
    char port[16];

    *text = '\0';
    if (args_has(a, "rendezvous")) {
        snprintf(text, 320, "%s", args_value(a, "rendezvous"));
    } else if (host && given && *host && *given) {
        snprintf(port, sizeof port, "%s", given);
        TRY(next_port_of_torchrun(port, a));
        snprintf(text, 320, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    }
    return ST_OK;
}

static Status read_world(dpx_world_options *o, const Args *a, char rendezvous[320])
{
    static const char *const connecting[] = { "world", "rank", "rendezvous", "world-secret", "mpi" };
    const char *mpi = args_value(a, "mpi");
    int64_t size, rank;
    Launcher l;

    TRY(find_rendezvous(rendezvous, a));
    *o = (dpx_world_options){ .size = 1, .rendezvous = rendezvous };
    TRY(args_real(&o->timeout, a, "world-timeout", 300));
    if (!(o->timeout >= 0.1 && o->timeout <= 1e6))
        return FAIL(E_INVALID, "--world-timeout: expected 0.1 to 1e6 seconds, found %g", o->timeout);
    o->secret = args_value(a, "world-secret");
    for (size_t i = 0; launched_is() && i < sizeof connecting / sizeof *connecting; i++)
        if (args_has(a, connecting[i]))
            return FAIL(E_INVALID, "--%s: dpexec launch connects its processes itself: leave the flag out",
                        connecting[i]);
    if (launched_is()) {
        TRY(launched_read(&o->rank, &o->size, &o->rendezvous));
        return launched_watch();
    }
    if (mpi && strcmp(mpi, "openmpi") && strcmp(mpi, "mpich"))
        return FAIL(E_INVALID, "--mpi: expected openmpi or mpich, found '%s'", mpi);
    for (int i = 0; mpi && i < 3; i++)
        if (args_has(a, connecting[i]))
            return FAIL(E_INVALID, "--%s does not go with --mpi: the launcher gives it", connecting[i]);
    if (!args_has(a, "world") && !args_has(a, "rank")) {
        TRY(launcher_find(&l, mpi, *rendezvous, args_has(a, "rendezvous")));
        o->size = l.size;
        o->rank = l.rank;
        o->mpi = l.size == 1 ? NULL : l.mpi;
    }
    if (o->mpi)
        return o->secret ? FAIL(E_INVALID, "--world-secret needs --rendezvous: MPI connects its processes itself")
                         : ST_OK;
    TRY(args_int(&size, a, "world", o->size, 1, 256));
    TRY(args_int(&rank, a, "rank", o->rank, 0, 255));
    if (args_has(a, "rank") && !args_has(a, "world"))
        return FAIL(E_INVALID, "--rank needs --world N, the number of processes");
    if (size > 1 && args_has(a, "world") && !args_has(a, "rank"))
        return FAIL(E_INVALID, "--world %d needs --rank K, the rank of this process", (int)size);
    if (rank >= size)
        return FAIL(E_INVALID, "--rank %d: expected 0 to %d in a world of %d", (int)rank, (int)size - 1, (int)size);
    if (size > 1 && !*rendezvous)
        return FAIL(E_INVALID, "--world %d needs --rendezvous HOST:PORT, where the processes meet", (int)size);
    o->size = (int)size;
    o->rank = (int)rank;
    return ST_OK;
}

/* Every process prints the ranks that it waits for. */
static void print_waiting(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    fprintf(stderr, "dpexec: %s\n", line);
}

Status world_open(ToolWorld *out, const Args *a)
{
    dpx_world_options o;
    char rendezvous[320];

    *out = (ToolWorld){ .size = 1 };
    TRY(read_world(&o, a, rendezvous));
    o.log = args_has(a, "quiet") ? NULL : print_waiting;
    if (o.size == 1)
        return ST_OK;
    if (args_has(a, "dry-run"))
        return FAIL(E_INVALID, "--dry-run plans one process: name the devices of all processes in --devices");
    out->rank = o.rank;
    TRY((Status)dpx_world_join(&out->world, &o));
    out->size = dpx_world_size(out->world);
    out->rank = dpx_world_rank(out->world);
    dpx_options_set_world(a->options, out->world);
    return ST_OK;
}

void world_close(ToolWorld *w, int failed)
{
    if (failed)
        dpx_world_end(w->world, failed);
    dpx_world_leave(w->world);
    w->world = NULL;
}

/* ---- facts that must be equal everywhere ---- */

Share world_share_of(const ToolWorld *w) { return (Share){ w->rank, w->size }; }

Status world_note_data(const ToolWorld *w, const char *name, const Feed *f)
{
    char text[DIGEST_TEXT];

    if (!w->world)
        return ST_OK;
    TRY(digest_probe(text, f->field, f->n));
    return (Status)dpx_world_note(w->world, name, text);
}

static Status note(const ToolWorld *w, const char *name, const char *text)
{
    char label[64];

    snprintf(label, sizeof label, "--%s", name);
    return w->world ? (Status)dpx_world_note(w->world, label, text) : ST_OK;
}

Status world_note_flag(const ToolWorld *w, const Args *a, const char *name)
{
    return note(w, name, args_has(a, name) ? args_value(a, name) : "not given");
}

Status world_agree_given(const ToolWorld *w, const Args *a, const char *name)
{
    TRY(note(w, name, args_has(a, name) ? "given" : "not given"));
    return w->world ? (Status)dpx_world_agree(w->world) : ST_OK;
}

void tool_set_purpose(const ToolWorld *w, const char *form, ...)
{
    char text[128];
    va_list ap;

    if (!w->world)
        return;
    va_start(ap, form);
    text_vformat(text, sizeof text, form, ap);
    va_end(ap);
    dpx_world_set_purpose(w->world, text);
}

Status world_most(int *out, const ToolWorld *w, int mine)
{
    int64_t most = mine;

    if (w->world)
        TRY((Status)dpx_world_max(w->world, mine, &most));
    *out = (int)most;
    return ST_OK;
}

Status world_texts(void **all, size_t *size, const ToolWorld *w, const char *mine, size_t n)
{
    if (w->world)
        return (Status)dpx_world_gather(w->world, mine, n, all, size);
    if (!(*all = malloc(n + 1)))
        return FAIL_NOMEM();
    memcpy(*all, mine, n);
    *size = n;
    return ST_OK;
}

Status world_count(int64_t *all, int64_t *most, const ToolWorld *w, int64_t mine)
{
    *all = *most = mine;
    if (!w->world)
        return ST_OK;
    TRY((Status)dpx_world_sum(w->world, mine, all));
    return (Status)dpx_world_max(w->world, mine, most);
}

Status world_read(LoaderRead *all, LoaderRead *most, const ToolWorld *w, LoaderRead mine)
{
    TRY(world_count(&all->bytes, &most->bytes, w, mine.bytes));
    return world_count(&all->file_bytes, &most->file_bytes, w, mine.file_bytes);
}
