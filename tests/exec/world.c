/* Sessions of two ranks, which are threads of this process: collectives of every kind between them, inference, and
 * graphs that the interpreter runs. */
#include "exec/world/world.h"
#include "graph/ops/collective.gen.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/train/session.h"
#include "exec/world/internal.h"
#include "exec/world/socket.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/harness/port.h"
#include "tests/harness/test.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/collectives.h"
#include "passes/options/recipes.h"
#include "passes/options/replicas.h"

enum {
    RANKS = 2,
    CROWD = 4,
    LATE = 2 /* the rank that does not come */,
    STEPS = 3,
    BATCH = 7,
    FEATURES = 4,
    OUTCOMES = 1 << 10
};

/* Samples are mixed: what is gathered has gradients that are reduced and scattered. */
static const char mixing[] =
    "graph \"mixing\" {\n"
    "  input %x : float32[7,4]\n"
    "  state %w trainable : float32[4,3] = {0.1, -0.2, 0.3, 0.4, 0.15, -0.6, 0.7, 0.8, -0.9, 1, 0.11, 0.12}\n"
    "  %h = MatMul(%x, %w)\n"
    "  %over = Softmax(%h) {axis=0}\n"
    "  %ht = Transpose(%h) {perm=[1,0]}\n"
    "  %pairs = MatMul(%h, %ht)\n"
    "  %s = Tanh(%pairs)\n"
    "  %a = ReduceSum(%s) {keepdims=0}\n"
    "  %sq = Mul(%over, %over)\n"
    "  %b = ReduceSum(%sq) {keepdims=0}\n"
    "  %loss = Add(%a, %b)\n"
    "  output \"loss\" = %loss\n"
    "  output \"over\" = %over\n"
    "}\n";

/* Of all samples, a column at a time: computed whole of what is gathered, or in slices. */
static const char columns[] =
    "graph \"columns\" {\n"
    "  input %x : float32[7,4]\n"
    "  state %w trainable : float32[4,3] = {0.1, -0.2, 0.3, 0.4, 0.15, -0.6, 0.7, 0.8, -0.9, 1, 0.11, 0.12}\n"
    "  %h = MatMul(%x, %w)\n"
    "  %over = Softmax(%h) {axis=0}\n"
    "  %sq = Mul(%over, %h)\n"
    "  %loss = ReduceSum(%sq) {keepdims=0}\n"
    "  output \"loss\" = %loss\n"
    "  output \"over\" = %over\n"
    "}\n";

static const char dynamic[] = "graph \"dynamic\" {\n"
                              "  input %x : float32[7,4]\n"
                              "  state %w trainable : float32[4] = {1, 2, 3, 4}\n"
                              "  %y = Mul(%x, %w)\n"
                              "  %z = NonZero(%y)\n"
                              "  output \"over\" = %z\n"
                              "}\n";

typedef struct {
    const char *text, *devices;
    int rank, size, port;
    bool trains, is_late;
    MixMode mix;
    Transport counting; /* the world's, but that its exchanges are counted */
    Status status;
    char message[1024];
    int scattered;                   /* ReduceScatter nodes of the training step */
    unsigned char outcome[OUTCOMES]; /* losses, the trained weights, an output of inference, as bytes */
    size_t bytes;
} Process;

static void keep(Process *p, const Tensor *t)
{
    CU_ASSERT_FATAL(p->bytes + tensor_bytes(t) <= OUTCOMES);
    memcpy(p->outcome + p->bytes, t->data, tensor_bytes(t));
    p->bytes += tensor_bytes(t);
}

static _Atomic(const Transport *) plain;
static _Atomic int64_t sent[CROWD]; /* by rank: bytes of its exchanges, by whichever thread */

static Status count_exchange(World *w, const Parcel *send, const Parcel *recv, const atomic_bool *cancelled)
{
    for (int r = 0; r < w->size; r++)
        sent[w->rank] += (int64_t)parcel_bytes(&send[r]);
    return plain->exchange(w, send, recv, cancelled);
}

static void count_sent(Process *p, World *w)
{
    if (!w || p->size < 2)
        return;
    plain = w->transport;
    p->counting = *w->transport;
    p->counting.exchange = count_exchange;
    w->transport = &p->counting;
    sent[p->rank] = 0;
}

static NamedTensor *batch(Arena *a, int k)
{
    Shape x = SHAPE(BATCH, FEATURES), scalar = shape_scalar();
    NamedTensor *in = ARENA_NEW(a, NamedTensor, 2);

    in[0] = (NamedTensor){ "x", *tensor_create(a, DT_FLOAT32, &x) };
    in[1] = (NamedTensor){ IN_LR, *tensor_create(a, DT_FLOAT32, &scalar) };
    for (int i = 0; i < BATCH * FEATURES; i++)
        ((float *)in[0].tensor.data)[i] = (float)((i * 37 + k * 11) % 23) / 23 - 0.5f;
    *(float *)in[1].tensor.data = 0.05f;
    return in;
}

static Status step(Process *p, Session *s, BuildMode mode, const NamedTensor *in, const char *output)
{
    const NamedTensor *out;
    const Tensor *t;
    int n;

    TRY(session_step(&out, &n, s, mode, in, 2));
    if (!(t = named_find(out, n, output)))
        return FAIL(E_INTERNAL, "no output '%s'", output);
    keep(p, t);
    return ST_OK;
}

static Status train(Process *p, Session *s, Arena *a)
{
    float w[12];
    Shape shape = SHAPE(4, 3);
    Tensor t = { DT_FLOAT32, shape, w };
    const Graph *g;

    for (int k = 0; k < STEPS; k++) {
        if (p->is_late && k == 1)
            sleep(4);
        TRY(step(p, s, BUILD_TRAIN, batch(a, k), OUT_LOSS));
    }
    g = program_graph(session_program(s, BUILD_TRAIN));
    FOR_NODES(g, n)
        p->scattered += n->op == &op_ReduceScatter;
    TRY(states_check_mirrors(session_states(s)));
    TRY(states_get(session_states(s), "w", &t));
    keep(p, &t);
    return ST_OK;
}

static Status run_session(Process *p, World *w, Arena *a)
{
    const BuildOptions opt = { .batch = &(BatchOptions){ .batch = BATCH },
                               .recipes =
                                   &(RecipeOptions){ .loss = p->trains ? &loss_output : NULL, .loss_args = "loss" },
                               .replicas = &(ReplicaOptions){ .replicas = 5 },
                               .collectives = &(CollectiveOptions){ .mix = p->mix } };
    Session *s = NULL;
    DeviceList list;
    Graph *g;
    Status st;

    TRY(graph_parse(&g, p->text, strlen(p->text)));
    st = device_list_parse(&list, p->devices, 1);
    list.world = w;
    if (!st)
        st = session_create(&s, g, &opt, &list, NULL, NULL);
    count_sent(p, w);
    if (!st && p->trains)
        st = train(p, s, a);
    if (!st)
        st = step(p, s, BUILD_INFER, batch(a, STEPS), "over");
    if (st)
        world_abort(w, status_message());
    session_free(s);
    graph_free(g);
    return st;
}

static void *run(void *arg)
{
    Process *p = arg;
    char rendezvous[32];
    WorldOptions how = { .size = p->size, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    Arena *a = arena_create();
    World *w = NULL;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    p->status = world_join(&w, &how);
    if (!p->status)
        p->status = run_session(p, w, a);
    if (p->status)
        snprintf(p->message, sizeof p->message, "%s", status_message());
    world_leave(w);
    arena_free(a);
    return NULL;
}

/* The same bytes from one process with four devices and from two with two. */
static void check_world(const char *text, bool trains)
{
    static Process p[RANKS], alone;
    pthread_t thread[RANKS];
    const int port = free_port();

    alone = (Process){ .text = text, .devices = "cpu*4", .size = 1, .trains = trains };
    run(&alone);
    for (int r = 0; r < RANKS; r++) {
        p[r] = (Process){ .text = text, .devices = "cpu*2", .rank = r, .size = RANKS, .port = port, .trains = trains };
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    if (alone.status)
        TEST_FAIL("alone: %s", alone.message);
    CU_ASSERT(alone.bytes > 0 && (!trains || alone.scattered > 0));
    for (int r = 0; r < RANKS; r++) {
        if (p[r].status)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        CU_ASSERT(p[r].bytes == alone.bytes && !memcmp(p[r].outcome, alone.outcome, alone.bytes));
    }
}

/* In slices three processes or more send less than when all is gathered, and get the bytes of one process either way.
 */
static void test_slices(void)
{
    static Process p[CROWD], alone;
    pthread_t thread[CROWD];

    for (int size = 2; size <= CROWD; size++) {
        int64_t all[MIX_EXCHANGE + 1] = { 0 };

        for (MixMode mix = MIX_GATHER; mix <= MIX_EXCHANGE; mix++) {
            const int port = free_port();

            alone = (Process){ .text = columns, .devices = "cpu", .size = 1, .trains = true, .mix = mix };
            run(&alone);
            for (int r = 0; r < size; r++) {
                p[r] = (Process){
                    .text = columns, .devices = "cpu", .rank = r, .size = size, .port = port, .trains = true, .mix = mix
                };
                CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
            }
            for (int r = 0; r < size; r++)
                pthread_join(thread[r], NULL);
            for (int r = 0; r < size; r++) {
                if (p[r].status)
                    TEST_FAIL("rank %d of %d: %s", r, size, p[r].message);
                CU_ASSERT(p[r].bytes == alone.bytes && !memcmp(p[r].outcome, alone.outcome, alone.bytes));
                all[mix] += sent[r];
            }
        }
        if (size > 2 && !(all[MIX_EXCHANGE] < all[MIX_GATHER]))
            TEST_FAIL("%d processes send %lld bytes, gathered %lld", size, (long long)all[MIX_EXCHANGE],
                      (long long)all[MIX_GATHER]);
    }
}

/* More devices than there may be, of all processes together: every one says so. */
static void test_crowd(void)
{
    static Process p[CROWD];
    pthread_t thread[CROWD];
    const int port = free_port();

    for (int r = 0; r < CROWD; r++) {
        p[r] = (Process){ .text = mixing, .devices = "cpu*256", .rank = r, .size = CROWD, .port = port };
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    }
    for (int r = 0; r < CROWD; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < CROWD; r++)
        if (p[r].status != E_INVALID || !strstr(p[r].message, "4 processes of 256 devices each"))
            TEST_FAIL("rank %d: status %d, %s", r, (int)p[r].status, p[r].message);
}

static bool names_node(const char *message)
{
    return !strncmp(message, "AllReduce ", 10) || !strncmp(message, "AllGather ", 10) ||
           !strncmp(message, "ReduceScatter ", 14) || !strncmp(message, "AllToAll ", 9);
}

/* One of several does not come to a step's collectives: all others name the node at which they wait, who waits, and for
 * whom; it is told when it comes. */
static void *run_late(void *arg)
{
    Process *p = arg;
    char rendezvous[32];
    WorldOptions how = { .size = p->size, .rank = p->rank, .rendezvous = rendezvous, .timeout = 1 };
    Arena *a = arena_create();
    World *w = NULL;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    p->status = world_join(&w, &how);
    p->is_late = p->rank == LATE;
    if (!p->status)
        p->status = run_session(p, w, a);
    if (p->status)
        snprintf(p->message, sizeof p->message, "%s", status_message());
    world_leave(w);
    arena_free(a);
    return NULL;
}

static void test_late(void)
{
    static const char text[] = "nothing has come from rank 2 of 4 for 1 seconds; waiting: rank 0, 1, 3";
    static Process p[CROWD];
    pthread_t thread[CROWD];
    const int port = free_port();

    for (int r = 0; r < CROWD; r++) {
        p[r] = (Process){ .text = mixing, .devices = "cpu", .rank = r, .size = CROWD, .port = port, .trains = true };
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run_late, &p[r]));
    }
    for (int r = 0; r < CROWD; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < CROWD; r++)
        if (p[r].status != E_DEVICE || !strstr(p[r].message, text) || (r != LATE && !names_node(p[r].message)))
            TEST_FAIL("rank %d: status %d, %s", r, (int)p[r].status, p[r].message);
}

/* One rank says how long its facts are: a length that nobody may believe. */
typedef struct {
    int rank, port;
    int64_t lie;
    const char *purpose; /* of the one number that it exchanges; NULL: it lies */
    Status status;
    char message[1024];
} Liar;

static Status compare_facts(World *w, const Liar *p)
{
    int64_t most;
    Facts *f;
    Status st;

    if (p->purpose) {
        world_set_purpose(w, "%s", p->purpose);
        return world_max(w, 1, &most);
    }
    if (p->rank) /* the first exchange of world_agree is of this form */
        return world_max(w, p->lie, &most);
    if (!(f = facts_create()))
        return FAIL_NOMEM();
    if (!(st = facts_add(f, "colour", "red")))
        st = world_agree(w, f, "processes differ");
    facts_free(f);
    return st;
}

static void *run_liar(void *arg)
{
    Liar *p = arg;
    char rendezvous[32];
    WorldOptions how = { .size = RANKS, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };
    World *w = NULL;

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    p->status = world_join(&w, &how);
    if (!p->status)
        p->status = compare_facts(w, p);
    if (p->status)
        snprintf(p->message, sizeof p->message, "%s", status_message());
    world_leave(w);
    return NULL;
}

static void run_liars(Liar p[RANKS])
{
    const int port = free_port();
    pthread_t thread[RANKS];

    for (int r = 0; r < RANKS; r++) {
        p[r].rank = r;
        p[r].port = port;
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run_liar, &p[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

static void test_lying(void)
{
    static const int64_t lies[] = { -2, INT64_MAX - 1, (64 << 20) + 1 };

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        Liar p[RANKS] = { { .lie = lies[i] }, { .lie = lies[i] } };

        run_liars(p);
        if (p[0].status != E_INVALID || !strstr(p[0].message, "rank 1 of 2: facts of"))
            TEST_FAIL("%lld bytes: status %d, %s", (long long)lies[i], (int)p[0].status, p[0].message);
        CU_ASSERT(!p[1].status);
    }
}

/* Neither takes the other's number for its own. */
static void test_apart(void)
{
    static const char *const purpose[RANKS] = { "the check of --val", "the digest of --data" };
    Liar p[RANKS] = { { .purpose = purpose[0] }, { .purpose = purpose[1] } };

    run_liars(p);
    for (int r = 0; r < RANKS; r++)
        if (p[r].status != E_INVALID || !strstr(p[r].message, purpose[0]) || !strstr(p[r].message, purpose[1]))
            TEST_FAIL("rank %d: status %d, %s", r, (int)p[r].status, p[r].message);
}

typedef struct {
    int rank, port;
    World *world;
    int64_t most;
    Status status;
} Forked;

static void *join_forked(void *arg)
{
    Forked *p = arg;
    char rendezvous[32];
    WorldOptions how = { .size = RANKS, .rank = p->rank, .rendezvous = rendezvous, .timeout = 20 };

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", p->port);
    p->status = world_join(&p->world, &how);
    return NULL;
}

static void *exchange_forked(void *arg)
{
    Forked *p = arg;

    p->status = world_max(p->world, p->rank, &p->most);
    return NULL;
}

static void run_threads(void *(*run)(void *), Forked p[RANKS])
{
    pthread_t thread[RANKS];

    for (int r = 0; r < RANKS; r++)
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

/* A fork has the parent's connections: what it would send or read there would be the parent's. */
static void test_forked(void)
{
    const int port = free_port();
    int status = -1;
    Forked p[RANKS];
    int64_t most;
    pid_t child;

    for (int r = 0; r < RANKS; r++)
        p[r] = (Forked){ .rank = r, .port = port };
    run_threads(join_forked, p);
    CU_ASSERT_FATAL(!p[0].status && !p[1].status);
    if (!(child = fork())) {
        const bool told = world_max(p[0].world, 1, &most) == E_DEVICE && strstr(status_message(), "is a fork");

        world_abort(p[0].world, "the child gives up");
        world_leave(p[1].world);
        _exit(told ? 0 : 1);
    }
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    run_threads(exchange_forked, p);
    for (int r = 0; r < RANKS; r++) {
        CU_ASSERT(!p[r].status && p[r].most == RANKS - 1);
        world_leave(p[r].world);
    }
}

/* What poll() is given never wraps. */
static void test_patience(void)
{
    CU_ASSERT(socket_left_ms(world_now() + 1e12) == INT_MAX);
    CU_ASSERT(socket_left_ms(world_now() + 100) > 90000 && socket_left_ms(world_now() + 100) <= 100001);
    CU_ASSERT(socket_left_ms(world_now() - 1) == 0);
}

static void test_collectives(void) { check_world(mixing, true); }
static void test_interpreted(void) { check_world(dynamic, false); }

DEFINE_SUITE(exec_world, { "a fork of a process", test_forked },
             { "gathers, scatters and sums between processes", test_collectives },
             { "graphs without static shapes", test_interpreted }, { "more devices than there may be", test_crowd },
             { "slices of all samples", test_slices }, { "one of four does not come", test_late },
             { "facts of an impossible length", test_lying }, { "processes at different places", test_apart },
             { "long timeouts", test_patience });
