/* The listening socket of a world: a rank of the world gets in at its first try, however many strangers connect. */
#include "exec/world/listener.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/world/socket.h"
#include "tests/harness/test.h"

enum { CROWD = 200, SIZE = 3, KEY = 16 };
static const double PATIENCE = 3; /* seconds: less than silent connections may stay */

typedef struct {
    Listener listener;
    Secret secret;
    struct sockaddr_in at;
    pthread_t thread;
    Hello met;
    int in; /* the connection that was let in */
    int crowd[CROWD];
} Fixture;

static Fixture fixture;

static void *keep(void *arg)
{
    Fixture *h = arg;

    h->in = listener_next(&h->listener, &h->met, world_now() + 2 * PATIENCE);
    return NULL;
}

static bool open_fixture(Fixture *h)
{
    socklen_t n = sizeof h->at;

    memset(h, 0, sizeof *h);
    h->secret.n = KEY;
    h->in = -1;
    listener_init(&h->listener, &h->secret, 0, SIZE);
    h->at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    h->listener.fd = socket_listen((struct sockaddr *)&h->at, n);
    return h->listener.fd >= 0 && !getsockname(h->listener.fd, (struct sockaddr *)&h->at, &n) &&
           !pthread_create(&h->thread, NULL, keep, h);
}

static void close_fixture(Fixture *h)
{
    pthread_join(h->thread, NULL);
    listener_close(&h->listener);
    for (int i = 0; i < CROWD; i++)
        close(h->crowd[i]);
    if (h->in >= 0)
        close(h->in);
}

static int connect_to(const Fixture *h)
{
    return socket_connect((const struct sockaddr *)&h->at, sizeof h->at, world_now() + PATIENCE);
}

static Hello greeting(int rank)
{
    return (Hello){ .magic = GREETING_MAGIC, .size = SIZE, .rank = rank, .secured = 1, .nonce = { 1, 2, 3 } };
}

/* Connects a crowd; each sends the first `bytes` of its Hello. */
static void connect_crowd(Fixture *h, size_t bytes)
{
    Hello hello = greeting(1);

    for (int i = 0; i < CROWD; i++) {
        h->crowd[i] = connect_to(h);
        if (h->crowd[i] >= 0 && bytes)
            (void)!socket_move(h->crowd[i], &hello, bytes, world_now() + PATIENCE, true);
    }
    usleep(200000); /* until all are accepted */
}

static bool join(const Fixture *h)
{
    double until = world_now() + PATIENCE;
    Hello hello = greeting(2);
    Proof proof = { .magic = GREETING_MAGIC };
    unsigned char right[GREETING_BYTES];
    Reply reply;
    int fd = connect_to(h);
    bool good = fd >= 0 && socket_move(fd, &hello, sizeof hello, until, true) &&
                socket_move(fd, &reply, sizeof reply, until, false) && !reply.refused && reply.secured;

    if (good) {
        secret_prove(proof.proof, &h->secret, SIDE_CLIENT, &hello, reply.nonce);
        secret_prove(right, &h->secret, SIDE_SERVER, &hello, reply.nonce);
        good = socket_move(fd, &proof, sizeof proof, until, true) &&
               socket_move(fd, &reply, sizeof reply, until, false) && !reply.refused &&
               secret_equal(right, reply.proof);
    }
    if (fd >= 0)
        close(fd);
    return good;
}

static void check_crowd(size_t bytes)
{
    Fixture *h = &fixture;

    CU_ASSERT_FATAL(open_fixture(h));
    connect_crowd(h, bytes);
    CU_ASSERT(join(h));
    close_fixture(h);
    CU_ASSERT(h->in >= 0 && h->met.rank == 2);
}

static void test_silent(void) { check_crowd(0); }
static void test_half(void) { check_crowd(sizeof(Hello) / 2); }
static void test_unproven(void) { check_crowd(sizeof(Hello)); }

/* The proofs of both sides differ, and depend on every byte of the Hello and the nonce. */
static void test_proofs(void)
{
    Secret s = { .n = KEY }, other = { .byte = { 1 }, .n = KEY }, none = { .n = 0 };
    Hello hello = greeting(1);
    unsigned char nonce[GREETING_BYTES] = { 7 }, first[GREETING_BYTES], p[GREETING_BYTES];

    secret_prove(first, &s, SIDE_CLIENT, &hello, nonce);
    secret_prove(p, &s, SIDE_CLIENT, &hello, nonce);
    CU_ASSERT(secret_equal(first, p));
    secret_prove(p, &s, SIDE_SERVER, &hello, nonce);
    CU_ASSERT(!secret_equal(first, p));
    secret_prove(p, &other, SIDE_CLIENT, &hello, nonce);
    CU_ASSERT(!secret_equal(first, p));
    nonce[GREETING_BYTES - 1] ^= 1;
    secret_prove(p, &s, SIDE_CLIENT, &hello, nonce);
    CU_ASSERT(!secret_equal(first, p));
    nonce[GREETING_BYTES - 1] ^= 1;
    for (size_t i = 0; i < sizeof hello; i++) {
        ((unsigned char *)&hello)[i] ^= 1;
        secret_prove(p, &s, SIDE_CLIENT, &hello, nonce);
        CU_ASSERT(!secret_equal(first, p));
        ((unsigned char *)&hello)[i] ^= 1;
    }
    secret_prove(p, &none, SIDE_CLIENT, &hello, nonce);
    memset(first, 0, sizeof first);
    CU_ASSERT(secret_equal(first, p));
}

/* A dpexec of another version sends its first number in a Hello of another length, and gets a refusal. */
static void check_version(int version, size_t bytes)
{
    double until = world_now() + PATIENCE;
    Fixture *h = &fixture;
    char bytes_sent[2 * sizeof(Hello)] = { 0 };
    Hello *hello = (Hello *)bytes_sent;
    Reply reply = { .magic = 0 };
    int fd;

    CU_ASSERT_FATAL(open_fixture(h));
    *hello = greeting(1);
    hello->magic += (uint64_t)version;
    fd = connect_to(h);
    CU_ASSERT(fd >= 0 && socket_move(fd, bytes_sent, bytes, until, true));
    CU_ASSERT(socket_move(fd, &reply, sizeof reply, until, false) && reply.refused);
    CHECK_STR("rank 0 speaks version 3 of the protocol between processes, this one version ",
              (reply.reason[76] = '\0', reply.reason));
    if (fd >= 0)
        close(fd);
    CU_ASSERT(join(h));
    close_fixture(h);
    CU_ASSERT(h->in >= 0 && h->met.rank == 2 && h->listener.other_version == 3 + version);
}

static void test_versions(void)
{
    check_version(-1, sizeof(Hello));
    check_version(1, 2 * sizeof(Hello));
    check_version(4, sizeof(uint64_t));
}

/* The kernel takes the ports of connections from a range.  When it takes the very port that is connected to, and where
 * nobody listens, the socket must not be connected to itself. */
static void test_own_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int low = 0, high = -1, n = 0, fd = -1;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");

    CU_ASSERT_FATAL(f && fscanf(f, "%d %d", &low, &high) == 2);
    (void)fclose(f);
    at.sin_port = htons((uint16_t)((low + high) / 2));
    for (int i = low; i <= high && fd < 0; i++, n++)
        fd = socket_connect((struct sockaddr *)&at, sizeof at, world_now() + PATIENCE);
    if (fd >= 0)
        TEST_FAIL("connected with itself at try %d", n);
}

DEFINE_SUITE(exec_listener, { "other versions are refused", test_versions },
             { "no socket is connected to itself", test_own_port }, { "a silent crowd", test_silent },
             { "a crowd of half a greeting", test_half }, { "a crowd without proofs", test_unproven },
             { "proofs", test_proofs });
