/* Joining: all processes meet at the address of rank 0, learn each other's addresses, and connect every pair.
 *
 * Rank 0 listens; the others connect to it, trying again while it is not there yet, and say who they are and where they
 * listen themselves.  When all are there rank 0 sends everybody the list; then each process connects to every lower
 * rank, which is possible before those accept, and accepts the higher ones.  What connects and does not speak our
 * language is turned away. Everything ends by the timeout.  The connections are neither encrypted nor authenticated: a
 * world belongs in a network whose members trust each other. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "exec/world/internal.h"
#include "exec/world/socket.h"

enum { HOST = 256, ADDRESS = 48, FIRST_NAP = 10, LONGEST_NAP = 500 /* milliseconds */ };
static const uint64_t MAGIC =
    0x64706578656331ull;       /* "dpexec1"; read the other way round on a machine of other byte order */
static const double SPEAK = 5; /* seconds in which who has connected must have said who it is */

/* What a process says of itself. */
typedef struct {
    uint64_t magic, nonce; /* nonce: rank 0's, once it is known; tells this world from others */
    uint64_t machine;
    int32_t size, rank, channel, port;
    char address[ADDRESS]; /* numeric; filled in by rank 0 */
} Hello;

/* Rank 0's answer. */
typedef struct {
    uint64_t magic, nonce;
    int32_t refused, size; /* refused: `reason` says why; else `size` Hellos follow */
    char reason[WORLD_REASON];
} Answer;

typedef struct {
    World *world;
    const char *rendezvous;
    char host[HOST], port[8];
    int listener;
    double until;
    Hello *member; /* [size] */
    uint64_t nonce;
} Joining;

/* ---- addresses ---- */

/* "HOST:PORT" or "[ADDRESS]:PORT". */
static Status split_rendezvous(Joining *j)
{
    const char *text = j->rendezvous ? j->rendezvous : "", *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    char *end;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;

    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (!len || len >= HOST || !colon[1] || *end || port < 1 || port > 65535)
        return FAIL(E_INVALID, "rendezvous: expected HOST:PORT with a port from 1 to 65535, found '%s'",
                    j->rendezvous ? j->rendezvous : "");
    snprintf(j->host, sizeof j->host, "%.*s", (int)len, text);
    snprintf(j->port, sizeof j->port, "%ld", port);
    return ST_OK;
}

static Status resolve(const Joining *j, struct addrinfo **out)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    int code = getaddrinfo(j->host, j->port, &hints, out);

    return code ? FAIL(E_DEVICE, "rendezvous %s: %s", j->rendezvous, gai_strerror(code)) : ST_OK;
}

static Status listen_at_rendezvous(Joining *j)
{
    struct addrinfo *list;
    int why = 0;

    TRY(resolve(j, &list));
    for (struct addrinfo *a = list; a && j->listener < 0; a = a->ai_next)
        if ((j->listener = socket_listen(a->ai_addr, a->ai_addrlen, 2 * j->world->size)) < 0)
            why = errno;
    freeaddrinfo(list);
    return j->listener < 0
               ? FAIL(E_DEVICE, "rendezvous %s: rank 0 cannot listen there: %s", j->rendezvous, strerror(why))
               : ST_OK;
}

/* Listens at the address by which rank 0 is reached, on any port. */
static Status listen_beside(Joining *j, int fd, Hello *me)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (!getsockname(fd, (struct sockaddr *)&at, &n)) {
        if (at.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&at)->sin6_port = 0;
        else
            ((struct sockaddr_in *)&at)->sin_port = 0;
        j->listener = socket_listen((struct sockaddr *)&at, n, 2 * j->world->size);
    }
    n = sizeof at;
    if (j->listener < 0 || getsockname(j->listener, (struct sockaddr *)&at, &n))
        return FAIL(E_DEVICE, "rank %d cannot listen for other processes: %s", j->world->rank, strerror(errno));
    me->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                              : ((struct sockaddr_in *)&at)->sin_port);
    return ST_OK;
}

/* ---- connecting ---- */

static void nap_for(long ms) { nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL); }

static bool is_passing(int why)
{
    return why == ECONNREFUSED || why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH || why == EINTR;
}

/* Rank 0 may not be there yet. */
static Status connect_rendezvous(const Joining *j, int *out)
{
    struct addrinfo *list;
    int fd = -1, why = ETIMEDOUT;

    TRY(resolve(j, &list));
    for (long nap = FIRST_NAP; fd < 0; nap = 2 * nap < LONGEST_NAP ? 2 * nap : LONGEST_NAP) {
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            if ((fd = socket_connect(a->ai_addr, a->ai_addrlen, j->until)) < 0)
                why = errno;
        if (fd >= 0 || !is_passing(why) || !socket_left_ms(j->until))
            break;
        nap_for(nap);
    }
    freeaddrinfo(list);
    if (fd < 0)
        return FAIL(E_DEVICE, "rank %d cannot reach rank 0 at %s within %g seconds: %s", j->world->rank, j->rendezvous,
                    j->world->timeout, strerror(why));
    *out = fd;
    return ST_OK;
}

/* The interface by which rank 0 is reached.  An address that holds on one link only was seen by rank 0 on that link,
 * where its own number of the interface says nothing to us. */
static uint32_t scope_of_link(const Joining *j)
{
    struct sockaddr_in6 at = { .sin6_family = AF_UNSPEC };
    socklen_t n = sizeof at;

    if (getpeername(j->world->peer[0].fd[CHANNEL_DATA], (struct sockaddr *)&at, &n) || at.sin6_family != AF_INET6)
        return 0;
    return at.sin6_scope_id;
}

static Status connect_member(const Joining *j, int rank, int *out)
{
    const Hello *to = &j->member[rank];
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)to->port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)to->port) };

    if (inet_pton(AF_INET, to->address, &four.sin_addr) == 1)
        *out = socket_connect((struct sockaddr *)&four, sizeof four, j->until);
    else if (inet_pton(AF_INET6, to->address, &six.sin6_addr) == 1) {
        six.sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) ? scope_of_link(j) : 0;
        *out = socket_connect((struct sockaddr *)&six, sizeof six, j->until);
    } else
        return FAIL(E_INTERNAL, "rank %d has no address: '%s'", rank, to->address);
    return *out < 0 ? FAIL(E_DEVICE, "rank %d cannot reach rank %d at %s: %s", j->world->rank, rank, to->address,
                           strerror(errno))
                    : ST_OK;
}

/* The next process that connects and says who it is; -1: none by the deadline. */
static int accept_next(const Joining *j, Hello *out)
{
    struct pollfd f = { j->listener, POLLIN, 0 };

    for (;;) {
        double until = world_now() + SPEAK;
        int fd, ready = poll(&f, 1, socket_left_ms(j->until));

        if (ready == 0)
            return -1;
        if (ready < 0)
            continue;
        if ((fd = accept4(j->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) < 0) {
            nap_for(FIRST_NAP); /* with no descriptor free it would fail again at once */
            continue;
        }
        socket_tune(fd);
        if (socket_move(fd, out, sizeof *out, until < j->until ? until : j->until, false) && out->magic == MAGIC)
            return fd;
        close(fd);
    }
}

/* ---- rank 0 ---- */

static Status check_joiner(const Joining *j, const Hello *h)
{
    const World *w = j->world;

    if (h->size != w->size)
        return FAIL(E_INVALID, "rank %d was started for a world of %d processes, rank 0 for one of %d", h->rank,
                    h->size, w->size);
    if (h->rank < 1 || h->rank >= w->size)
        return FAIL(E_INVALID, "rank %d: expected 1 to %d", h->rank, w->size - 1);
    if (w->peer[h->rank].fd[CHANNEL_DATA] >= 0)
        return FAIL(E_INVALID, "two processes say that they are rank %d", h->rank);
    return ST_OK;
}

/* To those that have come. */
static void refuse(Joining *j, int extra, const char *reason)
{
    Answer a = { .magic = MAGIC, .refused = 1 };

    snprintf(a.reason, sizeof a.reason, "%s", reason);
    for (int r = 1; r < j->world->size; r++)
        if (j->world->peer[r].fd[CHANNEL_DATA] >= 0)
            (void)!socket_move(j->world->peer[r].fd[CHANNEL_DATA], &a, sizeof a, world_now() + SPEAK, true);
    if (extra >= 0) {
        (void)!socket_move(extra, &a, sizeof a, world_now() + SPEAK, true);
        close(extra);
    }
}

static Status nobody_more(const Joining *j, int have)
{
    char text[256];
    size_t len = 0;

    for (int r = 1; r < j->world->size && len < sizeof text; r++)
        if (j->world->peer[r].fd[CHANNEL_DATA] < 0)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", len ? ", " : "", r);
    return FAIL(E_DEVICE, "%d of %d processes came to %s within %g seconds: rank %s did not", have, j->world->size,
                j->rendezvous, j->world->timeout, text);
}

static void note_address(Hello *h, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    *h->address = '\0';
    if (getpeername(fd, (struct sockaddr *)&at, &n))
        return;
    if (at.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, h->address, sizeof h->address);
    else
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, h->address, sizeof h->address);
}

static Status gather_members(Joining *j)
{
    World *w = j->world;

    for (int have = 1; have < w->size; have++) {
        Hello h;
        int fd = accept_next(j, &h);
        Status st = fd < 0 ? nobody_more(j, have) : check_joiner(j, &h);

        if (st) {
            refuse(j, fd, status_message());
            return st;
        }
        note_address(&h, fd);
        j->member[h.rank] = h;
        w->peer[h.rank].fd[CHANNEL_DATA] = fd;
    }
    return ST_OK;
}

static Status lead(Joining *j, const Hello *me)
{
    World *w = j->world;
    Answer a = { .magic = MAGIC, .size = w->size };

    if (getrandom(&j->nonce, sizeof j->nonce, 0) != sizeof j->nonce)
        return FAIL(E_DEVICE, "no random numbers: %s", strerror(errno));
    TRY(listen_at_rendezvous(j));
    j->member[0] = *me;
    TRY(gather_members(j));
    a.nonce = j->nonce;
    for (int r = 1; r < w->size; r++)
        if (!socket_move(w->peer[r].fd[CHANNEL_DATA], &a, sizeof a, j->until, true) ||
            !socket_move(w->peer[r].fd[CHANNEL_DATA], j->member, sizeof *j->member * (size_t)w->size, j->until, true))
            return FAIL(E_DEVICE, "rank %d of %d has gone while the processes joined: %s", r, w->size, strerror(errno));
    return ST_OK;
}

/* ---- the others ---- */

static Status follow(Joining *j, Hello *me)
{
    World *w = j->world;
    Answer a;
    int fd;

    TRY(connect_rendezvous(j, &fd));
    w->peer[0].fd[CHANNEL_DATA] = fd;
    TRY(listen_beside(j, fd, me));
    if (!socket_move(fd, me, sizeof *me, j->until, true) || !socket_move(fd, &a, sizeof a, j->until + SPEAK, false))
        return FAIL(E_DEVICE, "rank %d: no answer of rank 0 at %s: %s", w->rank, j->rendezvous, strerror(errno));
    if (a.magic != MAGIC)
        return FAIL(E_DEVICE, "rank %d: what answers at %s is not rank 0", w->rank, j->rendezvous);
    a.reason[WORLD_REASON - 1] = '\0';
    if (a.refused)
        return FAIL(E_DEVICE, "rank 0 of %d: %s", w->size, a.reason);
    if (a.size != w->size || !socket_move(fd, j->member, sizeof *j->member * (size_t)w->size, j->until, false))
        return FAIL(E_DEVICE, "rank %d: rank 0 at %s sent no list of the processes", w->rank, j->rendezvous);
    for (int r = 0; r < w->size; r++)
        j->member[r].address[ADDRESS - 1] = '\0';
    j->nonce = a.nonce;
    return ST_OK;
}

/* Opens the channel to a lower rank. */
static Status open_channel(const Joining *j, int rank, Channel channel)
{
    World *w = j->world;
    Hello h = { .magic = MAGIC, .nonce = j->nonce, .size = w->size, .rank = w->rank, .channel = (int32_t)channel };
    int fd;

    if (rank)
        TRY(connect_member(j, rank, &fd));
    else
        TRY(connect_rendezvous(j, &fd));
    w->peer[rank].fd[channel] = fd;
    return socket_move(fd, &h, sizeof h, j->until, true)
               ? ST_OK
               : FAIL(E_DEVICE, "rank %d cannot talk to rank %d: %s", w->rank, rank, strerror(errno));
}

static Status accept_channels(const Joining *j)
{
    World *w = j->world;
    int wanted = (w->rank ? N_CHANNELS : 1) * (w->size - 1 - w->rank);

    while (wanted) {
        Hello h;
        int fd = accept_next(j, &h);

        if (fd < 0)
            return FAIL(E_DEVICE, "rank %d: %d connections of higher ranks have not come within %g seconds", w->rank,
                        wanted, w->timeout);
        if (h.nonce != j->nonce || h.rank <= w->rank || h.rank >= w->size || h.channel < 0 || h.channel >= N_CHANNELS ||
            w->peer[h.rank].fd[h.channel] >= 0) {
            close(fd);
            continue;
        }
        w->peer[h.rank].fd[h.channel] = fd;
        wanted--;
    }
    return ST_OK;
}

static Status connect_all(Joining *j)
{
    World *w = j->world;

    for (int r = 0; r < w->rank; r++)
        for (int c = r ? CHANNEL_DATA : CHANNEL_NOTES; c < N_CHANNELS; c++)
            TRY(open_channel(j, r, (Channel)c));
    TRY(accept_channels(j));
    w->neighbours = 0;
    for (int r = 0; r < w->size; r++)
        w->neighbours += j->member[r].machine == j->member[w->rank].machine;
    return ST_OK;
}

/* ---- entry ---- */

/* Equal for processes of one machine: its name and the number of its last start. */
static uint64_t machine_id(void)
{
    char text[512] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (gethostname(text, 255))
        *text = '\0';
    if (f && !fgets(text + strlen(text), 128, f))
        text[sizeof text - 1] = '\0';
    if (f)
        fclose(f);
    return XXH3_64bits(text, strlen(text));
}

static Status join(Joining *j)
{
    World *w = j->world;
    Hello me = { .magic = MAGIC, .machine = machine_id(), .size = w->size, .rank = w->rank };

    if (!(j->member = calloc((size_t)w->size, sizeof *j->member)))
        return FAIL_NOMEM();
    TRY(split_rendezvous(j));
    TRY(w->rank ? follow(j, &me) : lead(j, &me));
    return connect_all(j);
}

Status world_join(World **out, const WorldOptions *opt)
{
    Joining j = { .rendezvous = opt->rendezvous, .listener = -1, .until = world_now() + opt->timeout };
    Status st = ST_OK;

    if (opt->size < 1 || opt->size > WORLD_MAX)
        return FAIL(E_INVALID, "world: expected 1 to %d processes, found %d", WORLD_MAX, opt->size);
    if (opt->rank < 0 || opt->rank >= opt->size)
        return FAIL(E_INVALID, "rank: expected 0 to %d, found %d", opt->size - 1, opt->rank);
    if (!(opt->timeout > 0))
        return FAIL(E_INVALID, "the timeout of a world: expected a positive number, found %g", opt->timeout);
    TRY(world_create(&j.world, opt));
    if (opt->size > 1)
        st = sockets_attach(j.world);
    if (!st && inherit_is_meant(opt->rendezvous))
        st = inherit_connections(j.world, opt->rendezvous);
    else if (!st && opt->size > 1)
        st = join(&j);
    if (j.listener >= 0)
        close(j.listener);
    free(j.member);
    if (st) {
        world_release(j.world);
        return st;
    }
    *out = j.world;
    return ST_OK;
}
