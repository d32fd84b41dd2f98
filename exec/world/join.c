/* Joining: all processes meet at the address of rank 0, learn each other's addresses, and connect every pair.
 *
 * Rank 0 listens; the others connect to it, trying again while it is not there yet, and say who they are and where they
 * listen themselves.  When all are there rank 0 sends everybody the list; then each process connects to every lower
 * rank, and lets in the higher ones.  What connects and does not prove itself is turned away (listener.h), and at every
 * connection both sides prove themselves (greeting.h) with the secret that they have in common.  Everything ends by the
 * timeout, and nobody listens any more when the world is there.  What goes over the connections later is neither
 * encrypted nor authenticated. */
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

#include "exec/world/listener.h"
#include "exec/world/internal.h"
#include "exec/world/socket.h"
#include "exec/world/missing_ranks.h"

enum { HOST = 256, ADDRESS = 48, FIRST_NAP = 10, LONGEST_NAP = 500 /* milliseconds */ };
static const double SPEAK = 5; /* seconds that a refusal may take */

/* Where a process listens, by rank 0. */
typedef struct {
    uint64_t machine;
    int32_t here, port;    /* here: it has come */
    char address[ADDRESS]; /* numeric */
} Member;

typedef struct {
    World *world;
    const char *rendezvous;
    char host[HOST], port_text[8];
    double until;
    Member *member; /* [size] */
    uint64_t id;    /* rank 0's number of this world; 0: not known yet */
    uint64_t machine;
    int port; /* where this process listens */
    Secret secret;
    bool trusting; /* no secret is wanted */
    Door door;
    Waiting waiting;
    char loopback[HOST + 128]; /* " (...)": what the rendezvous lacks where others than this machine's are meant */
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
    snprintf(j->port_text, sizeof j->port_text, "%ld", port);
    return ST_OK;
}

/* Others than the processes of this machine can come to the address, and nothing tells them from ours. */
static Status check_secret(const Joining *j, const struct addrinfo *list)
{
    for (const struct addrinfo *a = list; a && !j->secret.n && !j->trusting; a = a->ai_next)
        if (!socket_is_loopback(a->ai_addr))
            return FAIL(E_INVALID,
                        "rendezvous %s: other machines reach it: --world-secret FILE names a file that all processes "
                        "have and nobody else, --world-secret none believes whoever comes",
                        j->rendezvous);
    return ST_OK;
}

/* What a name stands for is each machine's own business: of a host's own name it is often an address of its own. */
static void note_loopback(Joining *j, const struct addrinfo *list)
{
    char text[ADDRESS] = "";

    *j->loopback = '\0';
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if (!socket_is_loopback(a->ai_addr))
            return;
    if (list)
        (void)getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    snprintf(j->loopback, sizeof j->loopback,
             " ('%s' is %s here, which only this machine reaches: several machines need another address)", j->host,
             text);
}

static Status join_resolve(Joining *j, struct addrinfo **out)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    int code = getaddrinfo(j->host, j->port_text, &hints, out);
    Status st = code ? FAIL(E_DEVICE, "rendezvous %s: %s", j->rendezvous, gai_strerror(code)) : ST_OK;

    if (st)
        return st;
    note_loopback(j, *out);
    if ((st = check_secret(j, *out)))
        freeaddrinfo(*out);
    return st;
}

static Status listen_at_rendezvous(Joining *j)
{
    struct addrinfo *list;
    int why = 0;

    TRY(join_resolve(j, &list));
    for (struct addrinfo *a = list; a && j->door.listener < 0; a = a->ai_next)
        if ((j->door.listener = socket_listen(a->ai_addr, a->ai_addrlen)) < 0)
            why = errno;
    freeaddrinfo(list);
    return j->door.listener < 0
               ? FAIL(E_DEVICE, "rendezvous %s: rank 0 cannot listen there: %s", j->rendezvous, strerror(why))
               : ST_OK;
}

/* Listens at the address by which rank 0 is reached, on any port. */
static Status listen_beside(Joining *j, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (!getsockname(fd, (struct sockaddr *)&at, &n)) {
        if (at.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&at)->sin6_port = 0;
        else
            ((struct sockaddr_in *)&at)->sin_port = 0;
        j->door.listener = socket_listen((struct sockaddr *)&at, n);
    }
    n = sizeof at;
    if (j->door.listener < 0 || getsockname(j->door.listener, (struct sockaddr *)&at, &n))
        return FAIL(E_DEVICE, "rank %d cannot listen for other processes: %s", j->world->rank, strerror(errno));
    j->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
    return ST_OK;
}

/* ---- connecting ---- */

static long longer(long nap) { return 2 * nap < LONGEST_NAP ? 2 * nap : LONGEST_NAP; }

static void nap_for(long ms) { nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL); }

static bool is_passing(int why)
{
    return why == ECONNREFUSED || why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH || why == EINTR;
}

/* Rank 0 may not be there yet. */
static Status connect_rendezvous(Joining *j, int *out)
{
    struct addrinfo *list;
    int fd = -1, why = ETIMEDOUT;

    TRY(join_resolve(j, &list));
    for (long nap = FIRST_NAP; fd < 0; nap = longer(nap)) {
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            if ((fd = socket_connect(a->ai_addr, a->ai_addrlen, j->until)) < 0)
                why = errno;
        if (fd >= 0 || !is_passing(why) || !socket_left_ms(j->until))
            break;
        if (waiting_is_due(&j->waiting))
            waiting_tell(&j->waiting, j->world->rank, "rank 0 at %s: %s%s", j->rendezvous, strerror(why), j->loopback);
        nap_for(nap);
    }
    freeaddrinfo(list);
    if (fd < 0)
        return FAIL(E_DEVICE, "rank %d cannot reach rank 0 at %s within %g seconds: %s%s", j->world->rank,
                    j->rendezvous, j->world->timeout, strerror(why), j->loopback);
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
    const Member *to = &j->member[rank];
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

/* ---- greeting ---- */

/* Who is asked, for messages. */
static const char *at_whom(const Joining *j, int rank) { return rank ? j->member[rank].address : j->rendezvous; }

/* Ended by the other side before it has let us in: it may have been crowded.  Else there is no use in trying again. */
static Status broken_off(const Joining *j, int rank, bool *again)
{
    int why = errno;

    *again = why != ETIMEDOUT && socket_left_ms(j->until);
    return FAIL(E_DEVICE, "rank %d: no answer of rank %d at %s: %s", j->world->rank, rank, at_whom(j, rank),
                strerror(why));
}

static Status read_reply(const Joining *j, Reply *r, int fd, int rank, bool *again)
{
    if (!socket_move(fd, &r->magic, sizeof r->magic, j->until + SPEAK, false))
        return broken_off(j, rank, again);
    if (r->magic != GREETING_MAGIC && greeting_version(r->magic) >= 0)
        return FAIL(E_DEVICE, WORLD_VERSIONS, rank, greeting_version(r->magic), greeting_version(GREETING_MAGIC));
    if (r->magic != GREETING_MAGIC)
        return FAIL(E_DEVICE, "rank %d: what answers at %s is not rank %d", j->world->rank, at_whom(j, rank), rank);
    if (!socket_move(fd, (char *)r + sizeof r->magic, sizeof *r - sizeof r->magic, j->until + SPEAK, false))
        return broken_off(j, rank, again);
    r->reason[WORLD_REASON - 1] = '\0';
    return r->refused ? FAIL(E_DEVICE, "rank %d of %d: %s", rank, j->world->size, r->reason) : ST_OK;
}

/* Both sides prove themselves over a fresh connection to `rank`. */
static Status greet(const Joining *j, int fd, int rank, Channel channel, bool *again)
{
    const World *w = j->world;
    bool has = j->secret.n > 0;
    Hello h = { GREETING_MAGIC, j->id, j->machine, w->size, w->rank, rank, (int32_t)channel, j->port, has, { 0 } };
    Proof p = { .magic = GREETING_MAGIC };
    unsigned char right[GREETING_BYTES];
    Reply r;

    TRY(secret_nonce(h.nonce));
    if (!socket_move(fd, &h, sizeof h, j->until, true))
        return broken_off(j, rank, again);
    TRY(read_reply(j, &r, fd, rank, again));
    if (!r.secured && has)
        return FAIL(E_DEVICE, "rank %d: what answers at %s has no secret (--world-secret)", w->rank, at_whom(j, rank));
    secret_prove(p.proof, &j->secret, SIDE_CLIENT, &h, r.nonce);
    secret_prove(right, &j->secret, SIDE_SERVER, &h, r.nonce);
    if (!socket_move(fd, &p, sizeof p, j->until, true))
        return broken_off(j, rank, again);
    TRY(read_reply(j, &r, fd, rank, again));
    if (has && !secret_equal(right, r.proof))
        return FAIL(E_DEVICE, "rank %d: what answers at %s does not know the secret (--world-secret)", w->rank,
                    at_whom(j, rank));
    return ST_OK;
}

/* A connection to a lower rank, which has let us in. */
static Status open_channel(Joining *j, int rank, Channel channel)
{
    World *w = j->world;
    Status st = ST_OK;
    bool again = true;

    for (long nap = FIRST_NAP; again; nap = longer(nap)) {
        int fd;

        again = false;
        TRY(rank ? connect_member(j, rank, &fd) : connect_rendezvous(j, &fd));
        st = rank || j->door.listener >= 0 ? ST_OK : listen_beside(j, fd);
        if (!st)
            st = greet(j, fd, rank, channel, &again);
        if (!st)
            w->peer[rank].fd[channel] = fd;
        else
            close(fd);
        if (again)
            nap_for(nap);
    }
    return st;
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
    if (j->member[h->rank].here)
        return FAIL(E_INVALID, "two processes say that they are rank %d", h->rank);
    return ST_OK;
}

/* To those that have come. */
static void refuse_all(Joining *j, int extra, const char *reason)
{
    for (int r = 1; r < j->world->size; r++)
        if (j->member[r].here) {
            door_refuse(j->world->peer[r].fd[CHANNEL_DATA], reason);
            j->world->peer[r].fd[CHANNEL_DATA] = -1;
        }
    if (extra >= 0)
        door_refuse(extra, reason);
}

/* "rank 1, 3": who has not come. */
static const char *missing(const Joining *j, char text[256])
{
    size_t len = (size_t)snprintf(text, 256, "rank ");
    const size_t begun = len;

    for (int r = 1; r < j->world->size && len < 256; r++)
        if (!j->member[r].here)
            len += (size_t)snprintf(text + len, 256 - len, "%s%d", len > begun ? ", " : "", r);
    return text;
}

/* Also to those that have come, which wait for rank 0's list. */
static void tell_missing(Joining *j)
{
    Reply r = { .magic = GREETING_MAGIC };
    char text[256];

    snprintf(r.reason, sizeof r.reason, "%s", missing(j, text));
    for (int k = 1; k < j->world->size; k++)
        if (j->member[k].here)
            (void)!send(j->world->peer[k].fd[CHANNEL_DATA], &r, sizeof r, MSG_NOSIGNAL | MSG_DONTWAIT);
    waiting_tell(&j->waiting, 0, "%s of %d processes at %s%s", r.reason, j->world->size, j->rendezvous, j->loopback);
}

static Status nobody_more(const Joining *j, int have)
{
    char text[256], kept_out[128] = "";

    if (j->door.refused >= 0)
        snprintf(kept_out, sizeof kept_out, "; one that said it was rank %d has another --world-secret",
                 j->door.refused);
    else if (j->door.other_version >= 0)
        snprintf(kept_out, sizeof kept_out, "; one that came is of another dpexec: start the same everywhere");
    return FAIL(E_DEVICE, "%d of %d processes came to %s within %g seconds: %s did not%s%s", have, j->world->size,
                j->rendezvous, j->world->timeout, missing(j, text), kept_out, j->loopback);
}

static void note_address(Member *m, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    *m->address = '\0';
    if (getpeername(fd, (struct sockaddr *)&at, &n))
        return;
    if (at.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, m->address, sizeof m->address);
    else
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, m->address, sizeof m->address);
}

static Status gather_members(Joining *j)
{
    World *w = j->world;

    for (int have = 1; have < w->size;) {
        Hello h;
        int fd = door_next(&j->door, &h, waiting_until(&j->waiting, j->until));
        Status st = ST_OK;

        if (fd < 0 && socket_left_ms(j->until)) {
            tell_missing(j);
            continue;
        }
        if (fd < 0)
            st = nobody_more(j, have);
        if (!st && (h.id || h.channel != CHANNEL_DATA)) {
            door_refuse(fd, "the processes have not met yet");
            continue;
        }
        if (!st)
            st = check_joiner(j, &h);
        if (st) {
            refuse_all(j, fd, status_message());
            return st;
        }
        j->member[h.rank] = (Member){ .machine = h.machine, .here = 1, .port = h.port };
        note_address(&j->member[h.rank], fd);
        w->peer[h.rank].fd[CHANNEL_DATA] = fd;
        have++;
    }
    return ST_OK;
}

static Status lead(Joining *j)
{
    World *w = j->world;
    Reply list = { .magic = GREETING_MAGIC };

    TRY(listen_at_rendezvous(j));
    j->member[0] = (Member){ .machine = j->machine, .here = 1 };
    TRY(gather_members(j));
    if (getrandom(&j->id, sizeof j->id, 0) != sizeof j->id)
        return FAIL(E_DEVICE, "no random numbers: %s", strerror(errno));
    list.id = j->id |= 1;
    for (int r = 1; r < w->size; r++)
        if (!socket_move(w->peer[r].fd[CHANNEL_DATA], &list, sizeof list, j->until, true) ||
            !socket_move(w->peer[r].fd[CHANNEL_DATA], j->member, sizeof *j->member * (size_t)w->size, j->until, true))
            return FAIL(E_DEVICE, "rank %d of %d has gone while the processes joined: %s", r, w->size, strerror(errno));
    return ST_OK;
}

/* ---- the others ---- */

static Status join_follow(Joining *j)
{
    World *w = j->world;
    bool again;
    Reply list;
    int fd;

    TRY(open_channel(j, 0, CHANNEL_DATA));
    fd = w->peer[0].fd[CHANNEL_DATA];
    for (list.id = 0; !list.id;) { /* until all have come, rank 0 says who has not */
        TRY(read_reply(j, &list, fd, 0, &again));
        if (!list.id)
            waiting_tell(&j->waiting, w->rank, "%s of %d processes, as rank 0 at %s says", list.reason, w->size,
                         j->rendezvous);
    }
    if (!socket_move(fd, j->member, sizeof *j->member * (size_t)w->size, j->until + SPEAK, false))
        return FAIL(E_DEVICE, "rank %d: rank 0 at %s sent no list of the processes", w->rank, j->rendezvous);
    for (int r = 0; r < w->size; r++)
        j->member[r].address[ADDRESS - 1] = '\0';
    j->id = list.id;
    return ST_OK;
}

/* Belongs to this world, and has not come yet. */
static const char *why_not(const Joining *j, const Hello *h)
{
    const World *w = j->world;

    return h->id != j->id                                                   ? "these processes have met already"
           : h->size != w->size || h->rank <= w->rank || h->rank >= w->size ? "it is of no higher rank"
           : h->channel < 0 || h->channel >= N_CHANNELS                     ? "there is no such channel"
           : w->peer[h->rank].fd[h->channel] >= 0                           ? "it has come already"
                                                                            : NULL;
}

static Status accept_channels(Joining *j)
{
    World *w = j->world;
    int wanted = (w->rank ? N_CHANNELS : 1) * (w->size - 1 - w->rank);

    while (wanted) {
        Hello h;
        int fd = door_next(&j->door, &h, j->until);
        const char *why = fd < 0 ? NULL : why_not(j, &h);

        if (fd < 0)
            return FAIL(E_DEVICE, "rank %d: %d connections of higher ranks have not come within %g seconds", w->rank,
                        wanted, w->timeout);
        if (why) {
            door_refuse(fd, why);
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
uint64_t machine_id(void)
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

static Status read_secret(Joining *j, const char *given)
{
    j->trusting = given && !strcmp(given, WORLD_NO_SECRET);
    return given && *given && !j->trusting ? secret_read(&j->secret, given) : ST_OK;
}

static Status join_join(Joining *j, const WorldOptions *opt)
{
    World *w = j->world;

    door_init(&j->door, &j->secret, w->rank, w->size);
    if (!(j->member = calloc((size_t)w->size, sizeof *j->member)))
        return FAIL_NOMEM();
    TRY(read_secret(j, opt->secret));
    TRY(split_rendezvous(j));
    TRY(w->rank ? join_follow(j) : lead(j));
    return connect_all(j);
}

static Status join_meet(World *w, const WorldOptions *opt)
{
    Joining *j = calloc(1, sizeof *j);
    Status st;

    if (!j)
        return FAIL_NOMEM();
    j->world = w;
    j->rendezvous = opt->rendezvous;
    j->until = world_now() + opt->timeout;
    j->machine = machine_id();
    waiting_begin(&j->waiting, opt);
    st = join_join(j, opt);
    door_close(&j->door);
    secret_forget(&j->secret);
    free(j->member);
    free(j);
    return st;
}

Status world_join(World **out, const WorldOptions *opt)
{
    World *w;
    Status st = ST_OK;

    if (!(opt->timeout > 0))
        return FAIL(E_INVALID, "the timeout of a world: expected a positive number, found %g", opt->timeout);
    if (opt->mpi)
        return mpi_join(out, opt);
    if (opt->size < 1 || opt->size > WORLD_MAX)
        return FAIL(E_INVALID, "world: expected 1 to %d processes, found %d", WORLD_MAX, opt->size);
    if (opt->rank < 0 || opt->rank >= opt->size)
        return FAIL(E_INVALID, "rank: expected 0 to %d, found %d", opt->size - 1, opt->rank);
    TRY(world_create(&w, opt));
    if (opt->size > 1)
        st = sockets_attach(w);
    if (!st && inherit_is_meant(opt->rendezvous))
        st = inherit_connections(w, opt->rendezvous);
    else if (!st && opt->size > 1)
        st = join_meet(w, opt);
    if (st) {
        world_release(w);
        return st;
    }
    *out = w;
    return ST_OK;
}
