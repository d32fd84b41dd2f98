/* One process of a world that trains row after row of the table of worlds (tests/worlds/rows.sh), each on another
 * mapping:
 *
 *     world_rows references ROWS              what one device without shards gives, which must be near one replica's
 *     world_rows verify ROWS                  the graphs alone, in float64, to the limit of graph-transform --verify
 *     world_rows alone ROWS REFERENCES        one process
 *     world_rows launch:N ROWS REFERENCES     starts N processes, joined as those of `dpexec launch` are
 *     world_rows tcp:N ROWS REFERENCES        starts N processes, which meet at a port of this machine
 *     world_rows openmpi ROWS REFERENCES      one of those that the library's launcher starts; mpich alike
 *
 * A row is a line "NET PROCESSES DEVICES REPLICAS ACCUMULATE CLIP SPLIT OPTIMIZER LEVEL
 * DTYPE"; for each a line goes to
 * standard output, "ROW: ok" or what is wrong; of `references` "KEY: DIGESTS".  A failure of a call ends all processes,
 * so what follows the last line printed is the row that failed.  Files of a row lie below $ROWS_SCRATCH. */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "exec/api/trainer.h"
#include "exec/inspect/transform.h"
#include "exec/inspect/transform_build.h"
#include "exec/inspect/verify.h"
#include "exec/run/interp.h"

#define DPX(e) TRY((Status)(e))

enum { STEPS = 3, CLASSES = 3, MOST = 4, CHANNELS = 2 };
enum { BATCH = 10, SAMPLE = 64, STATES = 64, NUMBERS = 512, PATH = 512 }; /* the most of each */

/* ---- rows ---- */

/* What makes the replicas' shares differ: labels that do not count, weights of classes, dropout, batches of fewer
 * samples than there are replicas, and every other micro-batch of another size.  `whole`: every process is given all of
 * a batch, not its part. */
typedef struct {
    const char *name, *file;
    int batch, other;
    bool ignored, whole;
} Net;

static const Net nets[] = { { "mlp", "mlp", 10, 10, false, false },
                            { "few", "mlp", 5, 2, false, false },
                            { "ignored", "mlp", 7, 7, true, true },
                            { "cnn", "cnn", 9, 9, false, false },
                            { "dropout", "dropout", 6, 6, false, true } };
enum { NETS = sizeof nets / sizeof *nets };

static dpx_model *models[NETS];

typedef struct {
    int net, processes, devices, replicas, accumulate;
    char clip[8], split[16], optimizer[8], level[16], dtype[16];
    char text[128], key[96]; /* as it was given; what its reference depends on */
} Row;

static Status read_row(Row *r, const char *line)
{
    char net[16];

    *r = (Row){ .net = -1 };
    snprintf(r->text, sizeof r->text, "%.*s", (int)strcspn(line, "\n"), line);
    if (sscanf(line, "%15s %d %d %d %d %7s %15s %7s %15s %15s", net, &r->processes, &r->devices, &r->replicas,
               &r->accumulate, r->clip, r->split, r->optimizer, r->level, r->dtype) != 10)
        return FAIL(E_INVALID, "expected a row, found '%s'", r->text);
    for (int i = 0; i < NETS; i++)
        if (!strcmp(nets[i].name, net))
            r->net = i;
    if (r->net < 0)
        return FAIL(E_INVALID, "there is no net '%s'", net);
    snprintf(r->key, sizeof r->key, "%s %d %d %s %s %s %s", net, r->replicas, r->accumulate, r->clip, r->split,
             r->optimizer, r->dtype);
    return ST_OK;
}

static bool is_wide(const Row *r) { return !strcmp(r->dtype, "float64"); }

static Status load_models(void)
{
    char path[PATH];

    for (int i = 0; i < NETS; i++) {
        snprintf(path, sizeof path, "tests/worlds/%s.onnx", nets[i].file);
        DPX(dpx_model_load(&models[i], path));
    }
    return ST_OK;
}

static void free_models(void)
{
    for (int i = 0; i < NETS; i++)
        dpx_model_free(models[i]);
}

static Status set_split(dpx_options *o, const Row *r)
{
    static const char weights[] = "3,0,1,2,5,1,0.5,4";
    char text[sizeof weights] = "";
    const char *end = weights;

    if (strcmp(r->split, "weights"))
        return (Status)dpx_options_set(o, "split", r->split);
    for (int i = 0; i < r->replicas; i++)
        end += strcspn(end, ",") + (i + 1 < r->replicas);
    memcpy(text, weights, (size_t)(end - weights));
    return (Status)dpx_options_set(o, "split", text);
}

static Status set_number(dpx_options *o, const char *name, const char *form, int n)
{
    char text[32];

    snprintf(text, sizeof text, form, n);
    return (Status)dpx_options_set(o, name, text);
}

static Status set_options(dpx_options *o, const Row *r, int devices)
{
    static float weight[CLASSES] = { 0.5F, 2, 1.25F };
    const dpx_tensor weights = { "weights", DPX_FLOAT32, 1, { CLASSES }, weight };

    DPX(dpx_options_set(o, "loss", "cross-entropy"));
    DPX(dpx_options_set(o, "lr", "0.01"));
    DPX(dpx_options_set(o, "threads", "1"));
    DPX(dpx_options_set(o, "optimizer", r->optimizer));
    DPX(dpx_options_set(o, "dtype", r->dtype));
    if ((r->replicas + r->accumulate) %
        2) /* bytes cost so much there that small sums are shared out as large ones are */
        DPX(dpx_options_set(o, "links", "1e-9,1,1e10,0"));
    if (!strcmp(r->optimizer, "sgd"))
        DPX(dpx_options_set(o, "momentum", "0.9"));
    DPX(dpx_options_set(o, "shard", r->level));
    if (strcmp(r->clip, "0"))
        DPX(dpx_options_set(o, "clip-norm", r->clip));
    if (nets[r->net].ignored) {
        DPX(dpx_options_set(o, "ignore-index", "-1"));
        DPX(dpx_options_set_class_weights(o, &weights));
    }
    TRY(set_number(o, "accumulate", "%d", r->accumulate));
    TRY(set_number(o, "replicas", "%d", r->replicas));
    TRY(set_number(o, "devices", "cpu*%d", devices));
    return set_split(o, r);
}

/* ---- batches ---- */

static uint32_t noise(uint32_t a, uint32_t b)
{
    uint32_t x = a * 2654435761U ^ b * 2246822519U ^ 374761393U;

    x = (x ^ x >> 15) * 2654435761U;
    x = (x ^ x >> 13) * 3266489917U;
    return x ^ x >> 16;
}

typedef struct {
    float narrow[BATCH * SAMPLE];
    double wide[BATCH * SAMPLE];
    int64_t label[BATCH];
    dpx_tensor tensor[2];
    int64_t samples, elements; /* of a sample */
} Batch;

static Status make_batch(Batch *b, const Row *r, int k)
{
    dpx_info info;

    DPX(dpx_model_info(models[r->net], DPX_INPUT, 0, &info));
    b->samples = k & 1 ? nets[r->net].other : nets[r->net].batch;
    b->elements = 1;
    b->tensor[0] = (dpx_tensor){ info.name, DPX_FLOAT32, info.rank, { b->samples }, b->narrow };
    if (is_wide(r)) {
        b->tensor[0].dtype = DPX_FLOAT64;
        b->tensor[0].data = b->wide;
    }
    for (int i = 1; i < info.rank; i++) {
        b->tensor[0].dim[i] = info.dim[i];
        b->elements *= info.dim[i];
    }
    b->tensor[1] = (dpx_tensor){ "target", DPX_INT64, 1, { b->samples }, b->label };
    for (uint32_t i = 0; i < (uint32_t)(b->samples * b->elements); i++)
        b->wide[i] = b->narrow[i] = (float)(noise((uint32_t)k, i) >> 8) * 0x1p-23F - 1;
    for (uint32_t i = 0; i < (uint32_t)b->samples; i++) {
        uint32_t draw = noise((uint32_t)k + 1000, i);

        b->label[i] = nets[r->net].ignored && draw % 4 == 0 ? -1 : (int64_t)(draw / 4 % CLASSES);
    }
    return ST_OK;
}

static Status micro_batch(dpx_trainer *t, const Row *r, int k, dpx_result *out)
{
    Batch b;
    dpx_part own;

    TRY(make_batch(&b, r, k));
    if (nets[r->net].whole)
        return (Status)dpx_train_step(t, b.tensor, 2, out);
    DPX(dpx_trainer_part(t, b.samples, &own));
    b.tensor[0].data = (char *)b.tensor[0].data + (size_t)(own.from * b.elements) * dpx_dtype_size(b.tensor[0].dtype);
    b.tensor[1].data = b.label + own.from;
    b.tensor[0].dim[0] = b.tensor[1].dim[0] = own.to - own.from;
    return (Status)dpx_train_part(t, b.samples, b.tensor, 2, out);
}

/* Step `step`, counted from 0, of `accumulate` micro-batches. */
static Status step(dpx_trainer *t, const Row *r, int step, dpx_result *out)
{
    for (int i = 0; i < r->accumulate; i++)
        TRY(micro_batch(t, r, step * r->accumulate + i, out));
    return out->updated && out->step == step + 1
               ? ST_OK
               : FAIL(E_INTERNAL, "step %d: %d micro-batches did not complete it", step, r->accumulate);
}

/* ---- what a run has become ---- */

enum { AFTER_ONE, AFTER_ALL, RESULTS, CHECKPOINT, MODEL, DIGESTS };
static const char *const digest_names[] = { "the states after a step", "the states after all", "the results of steps",
                                            "the checkpoint", "the model" };

typedef struct {
    uint64_t of[DIGESTS];
} Digests;

typedef struct {
    char name[48];
    double value[NUMBERS];
    int64_t n;
} Copy;

typedef struct {
    Copy state[STATES];
    int n;
} Copies;

static void keep_copy(Copy *out, const dpx_info *info, const void *values, int64_t n)
{
    snprintf(out->name, sizeof out->name, "%s", info->name);
    out->n = n;
    for (int64_t i = 0; i < n; i++)
        out->value[i] = info->dtype == DPX_FLOAT32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

/* All states but sums that a step leaves behind; every process gets them whole, and this one's copies are equal.  The
 * digest does not depend on their order.  `copies` may be NULL. */
static Status look_at_states(dpx_trainer *t, uint64_t *digest, Copies *copies)
{
    const States *states = session_states(t->session);

    *digest = 0;
    TRY(states_check_mirrors(states));
    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        dpx_info info;
        int64_t n = 1, values[NUMBERS];
        size_t bytes;
        dpx_tensor out;

        if (states_at(states, i)->transient)
            continue;
        DPX(dpx_trainer_state_info(t, i, &info));
        for (int d = 0; d < info.rank; d++)
            n *= info.dim[d];
        if (n > NUMBERS || i >= STATES)
            return FAIL(E_INTERNAL, "state %d, '%s', is larger than this test has room for", i, info.name);
        out = (dpx_tensor){ info.name, info.dtype, info.rank, { 0 }, values };
        memcpy(out.dim, info.dim, sizeof out.dim);
        DPX(dpx_trainer_get_state(t, info.name, &out));
        bytes = (size_t)n * dpx_dtype_size(info.dtype);
        *digest += XXH3_64bits_withSeed(values, bytes, XXH3_64bits(info.name, strlen(info.name)));
        if (copies && (info.dtype == DPX_FLOAT32 || info.dtype == DPX_FLOAT64))
            keep_copy(&copies->state[copies->n++], &info, values, n);
    }
    return ST_OK;
}

static Status digest_file(uint64_t *digest, const char *path)
{
    static char data[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;

    if (f)
        fclose(f);
    if (!n || n == sizeof data)
        return FAIL(E_IO, "%s: %s", path, n ? "larger than this test has room for" : "cannot be read");
    *digest = XXH3_64bits(data, n);
    return ST_OK;
}

/* Of its files rank 0 alone sees digests. */
static Status look_at_files(dpx_trainer *t, Digests *d)
{
    static const char *const files[] = { "state.safetensors", "state.digests", "manifest.json" };
    const char *scratch = getenv("ROWS_SCRATCH");
    char path[PATH];

    snprintf(path, sizeof path, "%s/model.onnx", scratch);
    DPX(dpx_trainer_save(t, scratch, NULL));
    DPX(dpx_trainer_export(t, path));
    TRY(digest_file(&d->of[MODEL], path));
    snprintf(path, sizeof path, "%s/step-%09d/state.safetensors", scratch, STEPS);
    TRY(digest_file(&d->of[CHECKPOINT], path));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/step-%09d/%s", scratch, STEPS, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/step-%09d", scratch, STEPS);
    return rmdir(path) ? FAIL(E_IO, "%s: %s", path, strerror(errno)) : ST_OK;
}

static Status look_on(dpx_trainer *t)
{
    DPX(dpx_trainer_save(t, NULL, NULL));
    return (Status)dpx_trainer_export(t, NULL);
}

static void add_result(uint64_t *digest, const dpx_result *r)
{
    const double all[] = { (double)r->step, (double)r->samples, r->loss, r->loss_sum, r->loss_weight,
                           r->lr,           r->grad_norm };

    *digest = XXH3_64bits_withSeed(all, sizeof all, *digest);
}

static Status train(dpx_trainer *t, const Row *r, int steps, int rank, Digests *d, Copies *first)
{
    dpx_result result;

    for (int k = 0; k < steps; k++) {
        TRY(step(t, r, k, &result));
        add_result(&d->of[RESULTS], &result);
        if (!k)
            TRY(look_at_states(t, &d->of[AFTER_ONE], first));
    }
    if (steps < STEPS)
        return ST_OK;
    TRY(look_at_states(t, &d->of[AFTER_ALL], NULL));
    return rank ? look_on(t) : look_at_files(t, d);
}

/* What the row's training comes to; `world` and `first`, the states after a step, may be NULL. */
static Status run(Digests *d, const Row *r, dpx_world *world, int steps, Copies *first)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;
    Status st = o ? set_options(o, r, r->devices) : FAIL_NOMEM();

    *d = (Digests){ { 0 } };
    if (!st) {
        dpx_options_set_world(o, world);
        st = (Status)dpx_trainer_create(&t, models[r->net], o, NULL, NULL);
    }
    if (!st)
        st = train(t, r, steps, dpx_world_rank(world), d, first);
    dpx_trainer_free(t);
    dpx_options_free(o);
    return st;
}

/* ---- references ---- */

typedef struct {
    Row row;
    Copies copies;
} Single;

/* What one replica has after a step; kept for the rows that ask for the same. */
static Status single(const Copies **out, const Row *r)
{
    static Single *kept[128];
    Row one = *r;
    Digests d;
    int n = 0;

    for (; n < 127 && kept[n]; n++)
        if (kept[n]->row.net == r->net && kept[n]->row.accumulate == r->accumulate &&
            !strcmp(kept[n]->row.clip, r->clip) && !strcmp(kept[n]->row.dtype, r->dtype))
            break;
    if (!kept[n]) {
        if (!(kept[n] = calloc(1, sizeof *kept[n])))
            return FAIL_NOMEM();
        one.replicas = 1;
        strcpy(one.split, "balanced");
        kept[n]->row = one;
        TRY(run(&d, &one, NULL, 1, &kept[n]->copies));
    }
    *out = &kept[n]->copies;
    return ST_OK;
}

static double norm(const Copy *a, const Copy *b)
{
    double sum = 0;

    for (int64_t i = 0; i < a->n; i++) {
        const double d = a->value[i] - (b ? b->value[i] : 0);

        sum += d * d;
    }
    return sqrt(sum);
}

/* Each tensor within `limit` of the other, relative to its norm; where its exact value may be zero, relative to the
 * norm of the largest. */
static Status check_near(const Copies *a, const Copies *b, double limit)
{
    double largest = 0;

    if (a->n != b->n || !a->n)
        return FAIL(E_INTERNAL, "%d states, of one replica %d", a->n, b->n);
    for (int i = 0; i < a->n; i++)
        largest = fmax(largest, norm(&b->state[i], NULL));
    for (int i = 0; i < a->n; i++) {
        const Copy *x = &a->state[i], *y = b->state;

        while (y < b->state + b->n && strcmp(x->name, y->name))
            y++;
        if (y == b->state + b->n || x->n != y->n)
            return FAIL(E_INTERNAL, "one replica has no state '%s' of %lld numbers", x->name, (long long)x->n);
        if (!(norm(x, y) <= fmax(limit * norm(y, NULL), 1e-2 * limit * largest)))
            return FAIL(E_INTERNAL, "after a step '%s' is %.3g away from that of one replica, of %.3g", x->name,
                        norm(x, y), norm(y, NULL));
    }
    return ST_OK;
}

/* Adam divides a first gradient by its own size, so that rounding becomes a step of full length. */
static Status refer(const Row *r)
{
    static Copies mine;
    const Copies *one;
    Digests d;

    mine.n = 0;
    TRY(run(&d, r, NULL, STEPS, &mine));
    if (!strcmp(r->optimizer, "sgd")) {
        TRY(single(&one, r));
        TRY(check_near(&mine, one, is_wide(r) ? 1e-12 : 1e-5));
    }
    printf("%s:", r->key);
    for (int i = 0; i < DIGESTS; i++)
        printf(" %016llx", (unsigned long long)d.of[i]);
    printf("\n");
    return ST_OK;
}

typedef struct {
    char key[96];
    Digests digests;
} Reference;

static Reference *references;
static int n_reference;

static Status read_references(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[256];

    if (!f)
        return FAIL(E_IO, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        Reference *all = realloc(references, sizeof *all * (size_t)(n_reference + 1)), *r;
        char *at = strchr(line, ':');

        if (!all || !at)
            break;
        references = all;
        r = &references[n_reference++];
        snprintf(r->key, sizeof r->key, "%.*s", (int)(at - line), line);
        at++;
        for (int i = 0; i < DIGESTS; i++)
            r->digests.of[i] = strtoull(at, &at, 16);
    }
    fclose(f);
    return n_reference ? ST_OK : FAIL(E_INVALID, "%s: no references", path);
}

static Status find_reference(const Digests **out, const Row *r)
{
    for (int i = 0; i < n_reference; i++)
        if (!strcmp(references[i].key, r->key)) {
            *out = &references[i].digests;
            return ST_OK;
        }
    return FAIL(E_INVALID, "there is no reference of '%s'", r->key);
}

/* ---- what is done with a row ---- */

static Status verify_row(const Row *r)
{
    Options *o = options_create();
    Arena *a = arena_create();
    TransformBuild decided;
    Verify v = { 0 };
    Status st = o && a ? set_options((dpx_options *)o, r, r->processes * r->devices) : FAIL_NOMEM();

    if (!st)
        st = transform_options(&decided, o, BUILD_TRAIN);
    if (!st) {
        decided.parts.batch.batch = nets[r->net].batch;
        st = verify_partition(&v, a, models[r->net]->graph, &decided.parts.build, interp_node, decided.parts.step.seed);
    }
    if (!st && !(v.n_row && v.times <= VERIFY_TIMES))
        st = FAIL(E_INTERNAL, "'%s' differs by %.3g, %.3g times what rounding does", v.n_row ? v.row[0].name : "",
                  v.worst, v.times);
    for (int i = 0; !st && i < v.n_row; i++)
        if (v.row[i].not_a_number)
            st = FAIL(E_INTERNAL, "'%s' holds NaN in both graphs", v.row[i].name);
    arena_free(a);
    options_free(o);
    return st;
}

/* All processes agree on whether the row is well; each says what is not. */
static Status compare(const Row *r, dpx_world *w)
{
    const int rank = dpx_world_rank(w);
    const Digests *expected;
    Digests found;
    int64_t wrong = 0;

    TRY(find_reference(&expected, r));
    if (r->processes != (w ? dpx_world_size(w) : 1))
        return FAIL(E_INVALID, "the world has %d processes", dpx_world_size(w));
    TRY(run(&found, r, w, STEPS, NULL));
    for (int i = 0; i < (rank ? CHECKPOINT : DIGESTS); i++)
        if (found.of[i] != expected->of[i]) {
            fprintf(stderr, "%s: rank %d: %s\n", r->text, rank, digest_names[i]);
            wrong++;
        }
    if (w)
        DPX(dpx_world_sum(w, wrong, &wrong));
    if (!rank)
        printf("%s: %s\n", r->text, wrong ? "differs from one device" : "ok");
    return ST_OK;
}

typedef enum { REFER, VERIFY, COMPARE } What;

static Status one_row(const Row *r, What what, dpx_world *w)
{
    Status st;

    if (what == COMPARE)
        return compare(r, w);
    st = what == REFER ? refer(r) : verify_row(r);
    if (st)
        printf("%s: %s\n", r->text, status_message());
    else if (what == VERIFY)
        printf("%s: ok\n", r->text);
    return ST_OK;
}

/* Every row of the file. */
static Status rows(const char *path, What what, dpx_world *w)
{
    FILE *f = fopen(path, "r");
    char line[128];
    Status st = f ? load_models() : FAIL(E_IO, "%s: %s", path, strerror(errno));

    while (!st && fgets(line, sizeof line, f)) {
        Row r;

        if (!(st = read_row(&r, line)))
            st = one_row(&r, what, w);
        fflush(stdout);
    }
    if (f)
        fclose(f);
    free_models();
    return st;
}

/* ---- processes ---- */

static int member(const dpx_world_options *opt, const char *path)
{
    dpx_world *w = NULL;
    Status st = (Status)dpx_world_join(&w, opt);

    if (!st)
        st = rows(path, COMPARE, w);
    if (st) {
        fprintf(stderr, "rank %d: %s\n", dpx_world_rank(w), status_message());
        dpx_world_abort(w, status_message());
        dpx_world_end(w, 3);
    }
    dpx_world_leave(w);
    return st ? 3 : 0;
}

/* A port where nobody listens, as "HOST:PORT". */
static int find_port(char text[32])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0), bad;

    bad = fd < 0 || bind(fd, (struct sockaddr *)&at, n) || getsockname(fd, (struct sockaddr *)&at, &n);
    if (fd >= 0)
        close(fd);
    snprintf(text, 32, "127.0.0.1:%d", ntohs(at.sin_port));
    return bad;
}

static int met(int rank, int size, const char *rendezvous, const char *path)
{
    return member(&(dpx_world_options){ .size = size, .rank = rank, .rendezvous = rendezvous, .timeout = 60 }, path);
}

static int launched(int rank, int size, int (*end)[MOST][CHANNELS], const char *path)
{
    char text[16 * MOST * CHANNELS] = "fd=";
    const dpx_world_options opt = { .size = size, .rank = rank, .rendezvous = text, .timeout = 60 };

    for (int r = 0; r < size; r++)
        for (int s = 0; s < size; s++)
            for (int c = 0; c < CHANNELS && r != s; c++)
                if (r == rank)
                    sprintf(text + strlen(text), "%s%d", text[3] ? "," : "", end[r][s][c]);
                else
                    close(end[r][s][c]);
    return member(&opt, path);
}

/* Starts `size` processes that are joined in pairs, or meet, and waits for them. */
static int launch(int size, bool meet, const char *path)
{
    int end[MOST][MOST][CHANNELS], pair[2], worst = 0, status;
    pid_t launcher = getpid();
    char rendezvous[32];

    if (find_port(rendezvous))
        return 1;
    for (int r = 0; r < size; r++)
        for (int s = r + 1; s < size; s++)
            for (int c = 0; c < CHANNELS; c++) {
                if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
                    return 1;
                end[r][s][c] = pair[0];
                end[s][r][c] = pair[1];
            }
    for (int r = 0; r < size; r++)
        switch (fork()) {
        case -1: return 1;
        case 0:
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
                _exit(1);
            exit(meet ? met(r, size, rendezvous, path) : launched(r, size, end, path));
        default: break;
        }
    for (int r = 0; r < size; r++)
        for (int s = 0; s < size; s++)
            for (int c = 0; c < CHANNELS && r != s; c++)
                close(end[r][s][c]);
    while (wait(&status) > 0)
        worst = WIFEXITED(status) && WEXITSTATUS(status) <= worst ? worst : 3;
    return worst;
}

static int alone(const char *path, What what)
{
    Status st = rows(path, what, NULL);

    if (st)
        fprintf(stderr, "%s\n", status_message());
    return st ? 3 : 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[1] : "";
    int size = 0, status;

    if (!getenv("ROWS_SCRATCH") || argc != (!strcmp(how, "references") || !strcmp(how, "verify") ? 3 : 4) ||
        (argc == 4 && read_references(argv[3]))) {
        fprintf(stderr, "usage: ROWS_SCRATCH=FOLDER world_rows HOW ROWS [REFERENCES]: %s\n", status_message());
        return 2;
    }
    if (argc == 3)
        return alone(argv[2], *how == 'v' ? VERIFY : REFER);
    if (sscanf(how, "launch:%d", &size) == 1 || sscanf(how, "tcp:%d", &size) == 1)
        status = size > 1 && size <= MOST ? launch(size, *how == 't', argv[2]) : 2;
    else if (!strcmp(how, "alone"))
        status = alone(argv[2], COMPARE);
    else
        status = member(&(dpx_world_options){ .mpi = how, .timeout = 60 }, argv[2]);
    free(references);
    return status;
}
