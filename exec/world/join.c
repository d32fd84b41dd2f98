/* Joining over sockets: all processes meet at the address of rank 0, learn each other's addresses, and connect every
 * pair.  world_join, at the end, chooses between sockets, inherited connections and MPI.
 *
 * Rank 0 listens.  The others connect to it, again and again until it is there, and send their rank and the port on
 * which they listen.  When all have come, rank 0 sends everybody the list.  Then each process connects to every lower
 * rank and lets in the higher ones.  At every connection both sides prove that they have the common secret
 * (greeting.h); a process that does not is turned away (listener.h).  Waiting ends at the timeout, or 5 s later for
 * a reply on its way; name resolution has its own limit.  Nobody listens any more once the world exists.  Data that
 * goes over the connections later is neither encrypted nor authenticated. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "exec/world/internal.h"
#include "exec/world/listener.h"
#include "exec/world/missing_ranks.h"
#include "exec/world/socket.h"

enum { HOST = 256, ADDRESS = 48 };          /* bytes of text */
enum { FIRST_NAP = 10, LONGEST_NAP = 500 }; /* milliseconds */
static const double REFUSAL_SECONDS = 5;    /* after the timeout, for a refusal that is on its way */

/* Where a process listens, as rank 0 sees it.  Rank 0 sends these bytes to all. */
typedef struct {
    uint64_t machine;
    int32_t has_come, port;
    char address[ADDRESS]; /* numeric */
} Member;

_Static_assert(sizeof(Member) == 8 + 2 * 4 + ADDRESS, "no padding");

typedef struct {
    World *world;
    const char *rendezvous;
    char host[HOST], port_text[8];
    double until;   /* the end of the timeout, on the clock of world_now() */
    Member *member; /* [size] */
    uint64_t id;    /* the number that rank 0 gave this world; 0: not known yet */
    uint64_t machine;
    int port; /* where this process listens */
    Secret secret;
    bool no_secret; /* --world-secret none */
    Listener listener;
    Waiting waiting;
    char loopback_hint[HOST + 128]; /* " (...)": for messages, where only this machine reaches the rendezvous */
} Joiner;

/* ---- addresses ---- */

/* "HOST:PORT" or "[ADDRESS]:PORT". */
static Status split_rendezvous(Joiner *j)
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

/* Resolves the rendezvous; the caller frees *out.  E_INVALID: other machines reach the address, so strangers could
 * connect, and the user neither gave a secret nor waived it.  A host's own name is often a loopback address on that
 * host; then j->loopback_hint says so. */
static Status resolve_and_check_secret(Joiner *j, struct addrinfo **out)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    int code = getaddrinfo(j->host, j->port_text, &hints, out);
    char text[ADDRESS] = "";
    bool all_loopback = true;

    if (code)
        return FAIL(E_DEVICE, "rendezvous %s: %s", j->rendezvous, gai_strerror(code));
    for (const struct addrinfo *a = *out; a; a = a->ai_next)
        all_loopback = all_loopback && socket_is_loopback(a->ai_addr);
    *j->loopback_hint = '\0';
    if (all_loopback) {
        if (*out)
            (void)getnameinfo((*out)->ai_addr, (*out)->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        snprintf(j->loopback_hint, sizeof j->loopback_hint,
                 " ('%s' is %s here, which only this machine reaches: several machines need another address)", j->host,
                 text);
    } else if (!j->secret.n && !j->no_secret) {
        freeaddrinfo(*out);
        return FAIL(E_INVALID,
                    "rendezvous %s: other machines can reach it: give --world-secret FILE, which all processes have "
                    "and nobody else, or --world-secret none to trust every process that connects",
                    j->rendezvous);
    }
    return ST_OK;
}

/* Listens on any port of the address by which rank 0 is reached, for the higher ranks. */
static Status listen_for_higher(Joiner *j, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (!getsockname(fd, (struct sockaddr *)&at, &n)) {
        if (at.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&at)->sin6_port = 0;
        else
            ((struct sockaddr_in *)&at)->sin_port = 0;
        j->listener.fd = socket_listen((struct sockaddr *)&at, n);
    }
    n = sizeof at;
    if (j->listener.fd < 0 || getsockname(j->listener.fd, (struct sockaddr *)&at, &n))
        return FAIL(E_DEVICE, "rank %d cannot listen for other processes: %s", j->world->rank, strerror(errno));
    j->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
    return ST_OK;
}

/* ---- connecting ---- */

static long next_nap(long nap) { return 2 * nap < LONGEST_NAP ? 2 * nap : LONGEST_NAP; }

static void nap_for(long ms) { nanosleep(&(struct timespec){ 0, ms * 1000000 }, NULL); }

/* Errors that pass once rank 0 is up, its machine or its network included. */
static bool may_pass(int why)
{
    return why == ECONNREFUSED || why == ETIMEDOUT || why == EHOSTUNREACH || why == ENETUNREACH || why == EINTR;
}

/* Connects to rank 0, again and again while it is not there yet. */
static Status connect_rendezvous(Joiner *j, int *out)
{
    struct addrinfo *list;
    int fd = -1, why = ETIMEDOUT;

    TRY(resolve_and_check_secret(j, &list));
    for (long nap = FIRST_NAP; fd < 0; nap = next_nap(nap)) {
        for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
            if ((fd = socket_connect(a->ai_addr, a->ai_addrlen, j->until)) < 0)
                why = errno;
        if (fd >= 0 || !socket_left_ms(j->until) || !may_pass(why))
            break;
        if (waiting_is_due(&j->waiting))
            waiting_log(&j->waiting, j->world->rank, "rank 0 at %s: %s%s", j->rendezvous, strerror(why),
                        j->loopback_hint);
        nap_for(nap);
    }
    freeaddrinfo(list);
    if (fd < 0 && socket_left_ms(j->until))
        return FAIL(E_DEVICE, "rank %d cannot reach rank 0 at %s: %s%s", j->world->rank, j->rendezvous, strerror(why),
                    j->loopback_hint);
    if (fd < 0)
        return FAIL(E_DEVICE, "rank %d cannot reach rank 0 at %s within %g seconds: %s%s", j->world->rank,
                    j->rendezvous, j->world->timeout, strerror(why), j->loopback_hint);
    *out = fd;
    return ST_OK;
}

/* Connects to the rank at the address that rank 0 saw.  A link-local address is valid on one interface, which each
 * machine numbers itself; this process takes the interface by which it reaches rank 0. */
static Status connect_member(const Joiner *j, int rank, int *out)
{
    const Member *to = &j->member[rank];
    struct sockaddr_in6 leader = { .sin6_family = AF_UNSPEC };
    socklen_t n = sizeof leader;
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)to->port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)to->port) };

    if (inet_pton(AF_INET, to->address, &four.sin_addr) == 1)
        *out = socket_connect((struct sockaddr *)&four, sizeof four, j->until);
    else if (inet_pton(AF_INET6, to->address, &six.sin6_addr) == 1) {
        if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) &&
            !getpeername(j->world->peer[0].fd[CHANNEL_DATA], (struct sockaddr *)&leader, &n) &&
            leader.sin6_family == AF_INET6)
            six.sin6_scope_id = leader.sin6_scope_id;
        *out = socket_connect((struct sockaddr *)&six, sizeof six, j->until);
    } else
        return FAIL(E_INTERNAL, "rank %d has no address: '%s'", rank, to->address);
    return *out < 0 ? FAIL(E_DEVICE, "rank %d cannot reach rank %d at %s: %s", j->world->rank, rank, to->address,
                           strerror(errno))
                    : ST_OK;
}

/* ---- greeting ---- */

/* The address of a rank, for messages. */
static const char *address_of(const Joiner *j, int rank) { return rank ? j->member[rank].address : j->rendezvous; }

/* The error of a connection that the other side closed before it let this process in.  *again: it may have been pushed
 * out by many others (listener.h), so connecting again may help. */
static Status fail_unanswered(const Joiner *j, int rank, bool *again)
{
    int why = errno;

    *again = why != ETIMEDOUT && socket_left_ms(j->until);
    return FAIL(E_DEVICE, "rank %d: no answer of rank %d at %s: %s", j->world->rank, rank, address_of(j, rank),
                strerror(why));
}

/* Reads a Reply of `rank`; a refusal is an error with the rank's reason. */
static Status read_reply(const Joiner *j, Reply *r, int fd, int rank, bool *again)
{
    if (!socket_move(fd, &r->magic, sizeof r->magic, j->until + REFUSAL_SECONDS, false))
        return fail_unanswered(j, rank, again);
    if (r->magic != GREETING_MAGIC && greeting_version(r->magic) >= 0)
        return FAIL(E_DEVICE, WORLD_VERSIONS, rank, greeting_version(r->magic), greeting_version(GREETING_MAGIC));
    if (r->magic != GREETING_MAGIC)
        return FAIL(E_DEVICE, "rank %d: the process that answers at %s is not rank %d", j->world->rank,
                    address_of(j, rank), rank);
    if (!socket_move(fd, (char *)r + sizeof r->magic, sizeof *r - sizeof r->magic, j->until + REFUSAL_SECONDS, false))
        return fail_unanswered(j, rank, again);
    r->reason[WORLD_REASON - 1] = '\0';
    return r->refused ? FAIL(E_DEVICE, "rank %d of %d: %s", rank, j->world->size, r->reason) : ST_OK;
}

/* Lets both sides prove themselves over a new connection to `rank`. */
static Status greet(const Joiner *j, int fd, int rank, Channel channel, bool *again)
{
    const World *w = j->world;
    bool has = j->secret.n > 0;
    Hello h = { GREETING_MAGIC, j->id, j->machine, w->size, w->rank, rank, (int32_t)channel, j->port, has, { 0 } };
    Proof p = { .magic = GREETING_MAGIC };
    unsigned char right[GREETING_BYTES];
    Reply r;

    TRY(secret_nonce(h.nonce));
    if (!socket_move(fd, &h, sizeof h, j->until, true))
        return fail_unanswered(j, rank, again);
    TRY(read_reply(j, &r, fd, rank, again));
    if (!r.secured && has)
        return FAIL(E_DEVICE, "rank %d: the process that answers at %s has no secret (--world-secret)", w->rank,
                    address_of(j, rank));
    secret_prove(p.proof, &j->secret, SIDE_CLIENT, &h, r.nonce);
    secret_prove(right, &j->secret, SIDE_SERVER, &h, r.nonce);
    if (!socket_move(fd, &p, sizeof p, j->until, true))
        return fail_unanswered(j, rank, again);
    TRY(read_reply(j, &r, fd, rank, again));
    if (has && !secret_equal(right, r.proof))
        return FAIL(E_DEVICE, "rank %d: the process that answers at %s has another secret (--world-secret)", w->rank,
                    address_of(j, rank));
    return ST_OK;
}

/* Opens a connection to a lower rank, which lets this process in.  The first connection to rank 0 also sets where this
 * process listens. */
static Status open_channel(Joiner *j, int rank, Channel channel)
{
    World *w = j->world;
    Status st = ST_OK;
    bool again = true;

    for (long nap = FIRST_NAP; again; nap = next_nap(nap)) {
        int fd;

        again = false;
        TRY(rank ? connect_member(j, rank, &fd) : connect_rendezvous(j, &fd));
        st = rank || j->listener.fd >= 0 ? ST_OK : listen_for_higher(j, fd);
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

/* "rank 1, 3": the higher ranks that have not opened all of the first n channels. */
static const char *missing_text(const World *w, int n, char text[256])
{
    size_t len = (size_t)snprintf(text, 256, "rank ");
    const size_t begun = len;

    for (int r = w->rank + 1; r < w->size && len < 256; r++) {
        bool missing = false;

        for (int c = 0; c < n; c++)
            missing |= w->peer[r].fd[c] < 0;
        if (missing)
            len += (size_t)snprintf(text + len, 256 - len, "%s%d", len > begun ? ", " : "", r);
    }
    return text;
}

/* Logs the missing ranks, and sends them to the ranks that have come, which wait for rank 0's list. */
static void report_missing(Joiner *j)
{
    Reply r = { .magic = GREETING_MAGIC };
    char text[256];

    snprintf(r.reason, sizeof r.reason, "%s", missing_text(j->world, 1, text));
    for (int k = 1; k < j->world->size; k++)
        if (j->member[k].has_come)
            (void)!send(j->world->peer[k].fd[CHANNEL_DATA], &r, sizeof r, MSG_NOSIGNAL | MSG_DONTWAIT);
    waiting_log(&j->waiting, 0, "%s of %d processes at %s%s", r.reason, j->world->size, j->rendezvous,
                j->loopback_hint);
}

/* The error when `have` processes have come by the timeout. */
static Status fail_missing(const Joiner *j, int have)
{
    char text[256], refused[128] = "";

    if (j->listener.other_secret >= 0)
        snprintf(refused, sizeof refused, "; a process that said it was rank %d has another --world-secret",
                 j->listener.other_secret);
    else if (j->listener.other_version >= 0)
        snprintf(refused, sizeof refused, "; a process of another version came: start the same dpexec everywhere");
    return FAIL(E_DEVICE, "%d of %d processes came to %s within %g seconds: %s did not%s%s", have, j->world->size,
                j->rendezvous, j->world->timeout, missing_text(j->world, 1, text), refused, j->loopback_hint);
}

/* Notes a process that has come over connection fd, and its address.  *m changes only on success. */
static Status note_member(Member *m, const Hello *h, int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (getpeername(fd, (struct sockaddr *)&at, &n))
        return FAIL(E_DEVICE, "rank %d has gone while the processes joined: %s", h->rank, strerror(errno));
    *m = (Member){ .machine = h->machine, .has_come = 1, .port = h->port };
    if (at.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, m->address, sizeof m->address);
    else
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, m->address, sizeof m->address);
    return ST_OK;
}

/* Waits for all ranks and fills j->member.  If one does not belong, or some do not come, all others get the reason. */
static Status gather_members(Joiner *j)
{
    World *w = j->world;

    for (int have = 1; have < w->size;) {
        Hello h;
        int fd = listener_next(&j->listener, &h, waiting_until(&j->waiting, j->until));
        Status st = ST_OK;

        if (fd < 0 && socket_left_ms(j->until)) {
            report_missing(j);
            continue;
        }
        if (fd >= 0 && (h.id || h.channel != CHANNEL_DATA)) {
            listener_refuse(fd, h.id ? "this process has joined another world" : "the processes have not met yet");
            continue;
        }
        if (fd < 0)
            st = fail_missing(j, have);
        else if (h.size != w->size)
            st = FAIL(E_INVALID, "rank %d was started for a world of %d processes, rank 0 for one of %d", h.rank,
                      h.size, w->size);
        else if (h.rank < 1 || h.rank >= w->size)
            st = FAIL(E_INVALID, "rank %d: expected 1 to %d", h.rank, w->size - 1);
        else if (j->member[h.rank].has_come)
            st = FAIL(E_INVALID, "two processes say that they are rank %d", h.rank);
        else
            st = note_member(&j->member[h.rank], &h, fd);
        if (st) {
            for (int r = 1; r < w->size; r++)
                if (j->member[r].has_come) {
                    listener_refuse(w->peer[r].fd[CHANNEL_DATA], status_message());
                    w->peer[r].fd[CHANNEL_DATA] = -1;
                }
            if (fd >= 0)
                listener_refuse(fd, status_message());
            return st;
        }
        w->peer[h.rank].fd[CHANNEL_DATA] = fd;
        have++;
    }
    return ST_OK;
}

/* Rank 0: waits for all and sends everybody the list. */
static Status join_as_leader(Joiner *j)
{
    World *w = j->world;
    Reply reply = { .magic = GREETING_MAGIC };
    struct addrinfo *at;
    int why = 0;

    TRY(resolve_and_check_secret(j, &at));
    for (struct addrinfo *a = at; a && j->listener.fd < 0; a = a->ai_next)
        if ((j->listener.fd = socket_listen(a->ai_addr, a->ai_addrlen)) < 0)
            why = errno;
    freeaddrinfo(at);
    if (j->listener.fd < 0)
        return FAIL(E_DEVICE, "rendezvous %s: rank 0 cannot listen there: %s", j->rendezvous, strerror(why));
    j->member[0] = (Member){ .machine = j->machine, .has_come = 1 };
    TRY(gather_members(j));
    if (getrandom(&j->id, sizeof j->id, 0) != sizeof j->id)
        return FAIL(E_DEVICE, "no random numbers: %s", strerror(errno));
    reply.id = j->id |= 1; /* never 0, which means unknown */
    for (int r = 1; r < w->size; r++)
        if (!socket_move(w->peer[r].fd[CHANNEL_DATA], &reply, sizeof reply, j->until, true) ||
            !socket_move(w->peer[r].fd[CHANNEL_DATA], j->member, sizeof *j->member * (size_t)w->size, j->until, true))
            return FAIL(E_DEVICE, "rank %d of %d has gone while the processes joined: %s", r, w->size, strerror(errno));
    return ST_OK;
}

/* ---- the others ---- */

/* The other ranks: connect to rank 0 and wait for its list. */
static Status join_as_follower(Joiner *j)
{
    World *w = j->world;
    bool again;
    Reply reply;
    int fd;

    TRY(open_channel(j, 0, CHANNEL_DATA));
    fd = w->peer[0].fd[CHANNEL_DATA];
    for (reply.id = 0; !reply.id;) { /* until all have come, rank 0 says who has not */
        TRY(read_reply(j, &reply, fd, 0, &again));
        if (!reply.id)
            waiting_log(&j->waiting, w->rank, "%s of %d processes, as rank 0 at %s says", reply.reason, w->size,
                        j->rendezvous);
    }
    if (!socket_move(fd, j->member, sizeof *j->member * (size_t)w->size, j->until + REFUSAL_SECONDS, false))
        return FAIL(E_DEVICE, "rank %d: rank 0 at %s sent no list of the processes", w->rank, j->rendezvous);
    for (int r = 0; r < w->size; r++)
        j->member[r].address[ADDRESS - 1] = '\0';
    j->id = reply.id;
    return ST_OK;
}

/* Lets in the channels of all higher ranks, of which rank 0 has the data channels already. */
static Status accept_channels(Joiner *j)
{
    World *w = j->world;
    int wanted = (w->rank ? N_CHANNELS : 1) * (w->size - 1 - w->rank);

    while (wanted) {
        Hello h;
        int fd = listener_next(&j->listener, &h, j->until);
        char why[96] = "", missing[256];

        if (fd < 0)
            return FAIL(E_DEVICE, "rank %d: %s did not connect within %g seconds", w->rank,
                        missing_text(w, N_CHANNELS, missing), w->timeout);
        if (h.id != j->id)
            snprintf(why, sizeof why, "%s",
                     h.id ? "this process has joined another world" : "these processes have met already");
        else if (h.size != w->size || h.rank <= w->rank || h.rank >= w->size)
            snprintf(why, sizeof why, "expected a rank from %d to %d of %d, found %d of %d", w->rank + 1, w->size - 1,
                     w->size, h.rank, h.size);
        else if (h.channel < 0 || h.channel >= N_CHANNELS)
            snprintf(why, sizeof why, "there is no channel %d", h.channel);
        else if (w->peer[h.rank].fd[h.channel] >= 0)
            snprintf(why, sizeof why, "rank %d has connected already", h.rank);
        if (*why) {
            listener_refuse(fd, why);
            continue;
        }
        w->peer[h.rank].fd[h.channel] = fd;
        wanted--;
    }
    return ST_OK;
}

/* ---- entry ---- */

/* A hash of the host name and the id of the machine's last start. */
uint64_t machine_id(void)
{
    char text[512] = "", *boot;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (gethostname(text, 255))
        *text = '\0';
    boot = text + strlen(text);
    if (f && !fgets(boot, 128, f))
        *boot = '\0';
    if (f)
        fclose(f);
    return XXH3_64bits(text, strlen(text));
}

/* Connects this process to all others: first through rank 0, then to each. */
static Status join_over_sockets(World *w, const WorldOptions *opt)
{
    Joiner *j = calloc(1, sizeof *j);
    Status st;

    if (!j)
        return FAIL_NOMEM();
    j->world = w;
    j->rendezvous = opt->rendezvous;
    j->until = world_now() + opt->timeout;
    j->machine = machine_id();
    j->no_secret = opt->secret && !strcmp(opt->secret, WORLD_NO_SECRET);
    waiting_begin(&j->waiting, opt);
    listener_init(&j->listener, &j->secret, w->rank, w->size);
    if (!(j->member = calloc((size_t)w->size, sizeof *j->member)))
        TRY_TO(done, st, FAIL_NOMEM());
    if (opt->secret && *opt->secret && !j->no_secret)
        TRY_TO(done, st, secret_read(&j->secret, opt->secret));
    TRY_TO(done, st, split_rendezvous(j));
    TRY_TO(done, st, w->rank ? join_as_follower(j) : join_as_leader(j));
    for (int r = 0; r < w->rank; r++)
        for (int c = r ? CHANNEL_DATA : CHANNEL_NOTES; c < N_CHANNELS; c++)
            TRY_TO(done, st, open_channel(j, r, (Channel)c));
    TRY_TO(done, st, accept_channels(j));
    w->neighbours = 0;
    for (int r = 0; r < w->size; r++)
        w->neighbours += j->member[r].machine == j->member[w->rank].machine;
done:
    listener_close(&j->listener);
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
    if (!st && rendezvous_is_inherited(opt->rendezvous))
        st = inherit_connections(w, opt->rendezvous);
    else if (!st && opt->size > 1)
        st = join_over_sockets(w, opt);
    if (st) {
        world_release(w);
        return st;
    }
    *out = w;
    return ST_OK;
}
