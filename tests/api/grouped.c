/* Steps of collated batches: groups are the parts of the replicas, and have the step's length or their own. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/samples.h"
#include "tests/harness/port.h"

/* ---- steps ---- */

/* Images of any size: a convolution and a sum over all places, trained by mse. */
static dpx_model *any_size(void)
{
    static const char text[] = "graph \"any\" {\n"
                               "  input %img : float32[\"N\"=?,1,\"H\"=?,\"W\"=?]\n"
                               "  const %conv.weight : float32[2,1,2,2] = {1, -0.5, 0.25, 2, -1, 0.5, 0.75, -0.25}\n"
                               "  const %head.weight : float32[2,1] = {0.5, -0.25}\n"
                               "  const %axes : int64[2] = {2, 3}\n"
                               "  %c = Conv(%img, %conv.weight, _) {pads=[1,1,0,0]}\n"
                               "  %r = Relu(%c)\n"
                               "  %s = ReduceSum(%r, %axes) {keepdims=0}\n"
                               "  %y = MatMul(%s, %head.weight)\n"
                               "  output \"y\" = %y\n"
                               "}\n";

    return model_of_text(text);
}

/* w NULL: of this process alone. */
static dpx_status create_trainer(dpx_trainer **out, const dpx_model *m, const char *split, const char *replicas,
                                 const char *pad_to, dpx_world *w)
{
    const char *const set[][2] = { { "loss", "mse" },        { "lr", "0.001" },  { "threads", "1" },
                                   { "replicas", replicas }, { "split", split }, { "pad-to", pad_to } };
    dpx_options *o = dpx_options_create();
    dpx_status st = DPX_OK;

    dpx_options_set_world(o, w);
    for (size_t i = 0; i < sizeof set / sizeof *set && !st; i++)
        st = dpx_options_set(o, set[i][0], set[i][1]);
    if (!st)
        st = dpx_trainer_create(out, m, o, NULL, NULL);
    dpx_options_free(o);
    return st;
}

static dpx_trainer *trainer_of(const dpx_model *m, const char *split, const char *replicas)
{
    dpx_trainer *t = NULL;

    CHECK_DPX(create_trainer(&t, m, split, replicas, "step", NULL));
    return t;
}

/* n images [1, 1 + i % 3, 1 + i % 2] of 1, 2 ... times i + 1, padded with i, targets i, and notes. */
static const dpx_data *images(int n, int each)
{
    dpx_data *s[MOST];

    for (int i = 0; i < n; i++) {
        dpx_data *d = NULL, *y = NULL;
        const float target = (float)i;

        CHECK_DPX(dpx_data_tensor(
            &y, &(dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 1, .dim = { 1 }, .data = (void *)(uintptr_t)&target }));
        CHECK_DPX(dpx_data_map(&d, (const char *[]){ "img", "target", "note" },
                               (const dpx_data *[]){ contained(FLOATS(i + 1, 1, 1 + i % 3, 1 + i % 2), 1, i, 2, 0),
                                                     keep(y), contained(scalar(0), 0, 0, 2, 1) },
                               3));
        s[i] = keep(d);
    }
    return collated(each, n, s);
}

/* The same images, padded by hand to [1, 3, 2]. */
static void whole_images(float img[MOST][3][2], float *target, int n)
{
    for (int i = 0; i < n; i++) {
        const int h = 1 + i % 3, w = 1 + i % 2;

        target[i] = (float)i;
        for (int y = 0; y < 3; y++)
            for (int x = 0; x < 2; x++)
                img[i][y][x] = y < h && x < w ? (float)((i + 1) * (y * w + x + 1)) : (float)i;
    }
}

enum { WEIGHTS = 10 }; /* of both layers */

static void get_weights(dpx_trainer *t, float out[WEIGHTS])
{
    CHECK_DPX(dpx_trainer_get_state(
        t, "conv.weight", &(dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 4, .dim = { 2, 1, 2, 2 }, .data = out }));
    CHECK_DPX(dpx_trainer_get_state(
        t, "head.weight", &(dpx_tensor){ .dtype = DPX_FLOAT32, .rank = 2, .dim = { 2, 1 }, .data = out + 8 }));
}

static int same_weights(dpx_trainer *a, dpx_trainer *b)
{
    float x[WEIGHTS] = { 0 }, y[WEIGHTS] = { 1 };

    get_weights(a, x);
    get_weights(b, y);
    return !memcmp(x, y, sizeof x);
}

/* Groups are the parts of the batch, whatever `split` says: the bits of the same parts by weight. */
static void train_groups(int n, int each, const char *weights)
{
    dpx_model *m = any_size();
    dpx_trainer *t = trainer_of(m, "balanced", "4"), *u = trainer_of(m, weights, "4");
    float img[MOST][3][2], target[MOST];
    dpx_tensor whole[] = { { .name = "img", .dtype = DPX_FLOAT32, .rank = 4, .dim = { n, 1, 3, 2 }, .data = img },
                           { .name = "target", .dtype = DPX_FLOAT32, .rank = 2, .dim = { n, 1 }, .data = target } };
    dpx_result a = { 0 }, b = { 0 };
    dpx_tensor y = { 0 };

    whole_images(img, target, n);
    for (int i = 0; i < 3; i++) {
        CHECK_DPX(dpx_train_data(t, images(n, each), &a));
        CHECK_DPX(dpx_train_step(u, whole, 2, &b));
        CU_ASSERT(a.samples == n && a.loss == b.loss && a.loss > 0);
    }
    CU_ASSERT(same_weights(t, u));
    CHECK_DPX(dpx_val_data(t, images(n, each), &a));
    CHECK_DPX(dpx_val_step(u, whole, 2, &b));
    CU_ASSERT(a.loss == b.loss);
    CHECK_DPX(dpx_run_data(t, images(n, each), &y, 1));
    CU_ASSERT(y.rank == 2 && y.dim[0] == n);
    dpx_trainer_free(t);
    dpx_trainer_free(u);
    dpx_model_free(m);
    free_made();
}

static void test_steps(void)
{
    train_groups(5, 3, "3,2,0,0"); /* fewer groups than replicas: two have nothing */
    train_groups(8, 2, "2,2,2,2");
    train_groups(7, 2, "2,2,2,1");
    train_groups(4, 5, "4,0,0,0");
}

/* ---- attention ---- */

enum { WIDE = 2, ATTENDED = 5, LONGEST = 6, LONGER = LONGEST + 5 };

/* Scores of positions [batch, T] of x [batch, 2, T], which attend to those that `mask` [batch, 1, T] has 1 for; their
 * mean over these positions. */
static dpx_model *attention(void)
{
    static const char text[] = "graph \"attention\" {\n"
                               "  input %x : float64[\"N\"=?,2,\"T\"=?]\n"
                               "  input %mask : float64[\"N\"=?,1,\"T\"=?]\n"
                               "  const %q.weight : float64[2,2] = {0.5, -0.25, 0.75, 1}\n"
                               "  const %k.weight : float64[2,2] = {-0.5, 0.125, 1, 0.25}\n"
                               "  const %v.weight : float64[2,2] = {1, 0.5, -0.75, 0.25}\n"
                               "  const %zero : float64[] = {0}\n"
                               "  const %never : float64[] = {-inf}\n"
                               "  const %time : int64[1] = {2}\n"
                               "  %t = Transpose(%x) {perm=[0,2,1]}\n"
                               "  %q = MatMul(%t, %q.weight)\n"
                               "  %k = MatMul(%t, %k.weight)\n"
                               "  %kt = Transpose(%k) {perm=[0,2,1]}\n"
                               "  %s = MatMul(%q, %kt)\n"
                               "  %there = Greater(%mask, %zero)\n"
                               "  %seen = Where(%there, %s, %never)\n"
                               "  %p = Softmax(%seen) {axis=2}\n"
                               "  %v = MatMul(%t, %v.weight)\n"
                               "  %o = MatMul(%p, %v)\n"
                               "  %ot = Transpose(%o) {perm=[0,2,1]}\n"
                               "  %kept = Where(%there, %ot, %zero)\n"
                               "  %sum = ReduceSum(%kept, %time) {keepdims=0}\n"
                               "  %count = ReduceSum(%mask, %time) {keepdims=0}\n"
                               "  %y = Div(%sum, %count)\n"
                               "  output \"y\" = %y\n"
                               "}\n";

    return model_of_text(text);
}

/* Sequence i has 2 + 3 i mod 6 positions. */
static int length_of(int i) { return 2 + 3 * i % LONGEST; }
static double element(int i, int row, int t) { return sin(7 * i + 3 * row + 11 * t) / 2; }

/* As many as there are positions, padded with `padding`; the mask with 0. */
static const dpx_data *sequences(int each, double padding)
{
    dpx_data *s[ATTENDED];

    for (int i = 0; i < ATTENDED; i++) {
        const int n = length_of(i);
        double x[WIDE * LONGEST], ones[LONGEST], target[WIDE] = { i, -i };
        const dpx_tensor t[] = { { .dtype = DPX_FLOAT64, .rank = 2, .dim = { WIDE, n }, .data = x },
                                 { .dtype = DPX_FLOAT64, .rank = 2, .dim = { 1, n }, .data = ones },
                                 { .dtype = DPX_FLOAT64, .rank = 1, .dim = { WIDE }, .data = target } };
        dpx_data *d[3] = { NULL }, *map = NULL;

        for (int k = 0; k < n; k++) {
            ones[k] = 1;
            for (int row = 0; row < WIDE; row++)
                x[row * n + k] = element(i, row, k);
        }
        for (int k = 0; k < 3; k++) {
            CHECK_DPX(dpx_data_tensor(&d[k], &t[k]));
            keep(d[k]);
        }
        CHECK_DPX(dpx_data_map(
            &map, (const char *[]){ "x", "mask", "target" },
            (const dpx_data *[]){ contained(d[0], 1, padding, 1, 0), contained(d[1], 1, 0, 1, 0), d[2] }, 3));
        s[i] = keep(map);
    }
    return collated(each, ATTENDED, s);
}

/* The same padded by hand, with zeros, to LONGER positions. */
static void step_by_hand(dpx_trainer *t, dpx_result *r)
{
    static double x[ATTENDED][WIDE][LONGER], mask[ATTENDED][LONGER], target[ATTENDED][WIDE];
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, 3, { ATTENDED, WIDE, LONGER }, x },
                           { "mask", DPX_FLOAT64, 3, { ATTENDED, 1, LONGER }, mask },
                           { "target", DPX_FLOAT64, 2, { ATTENDED, WIDE }, target } };

    for (int i = 0; i < ATTENDED; i++) {
        target[i][0] = i;
        target[i][1] = -i;
        for (int k = 0; k < length_of(i); k++) {
            mask[i][k] = 1;
            for (int row = 0; row < WIDE; row++)
                x[i][row][k] = element(i, row, k);
        }
    }
    CHECK_DPX(dpx_train_step(t, batch, 3, r));
}

/* Whatever is in the padding, no bit; another padded length, rounding; also in groups, whose lengths differ. */
static void test_attention(void)
{
    dpx_model *m = attention();

    for (int each = 1; m && each <= 3; each++) {
        dpx_trainer *zeros = trainer_of(m, "balanced", "5"), *huge = trainer_of(m, "balanced", "5"),
                    *longer = trainer_of(m, "balanced", "1");
        dpx_result a, b, c;

        for (int step = 0; step < 5; step++) {
            CHECK_DPX(dpx_train_data(zeros, sequences(each, 0), &a));
            CHECK_DPX(dpx_train_data(huge, sequences(each, 1e30), &b));
            step_by_hand(longer, &c);
            CU_ASSERT(a.loss == b.loss && a.samples == ATTENDED && isfinite(a.loss));
            CU_ASSERT(fabs(a.loss - c.loss) <= 1e-12 * fabs(c.loss));
            free_made();
        }
        dpx_trainer_free(zeros);
        dpx_trainer_free(huge);
        dpx_trainer_free(longer);
    }
    dpx_model_free(m);
}

/* ---- lengths of replicas ---- */

static dpx_trainer *padded_trainer(const dpx_model *m, const char *replicas, const char *to, const char *accumulate)
{
    const char *const set[][2] = { { "loss", "mse" },        { "lr", "0.001" }, { "threads", "1" },
                                   { "replicas", replicas }, { "pad-to", to },  { "accumulate", accumulate } };
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;

    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        CHECK_DPX(dpx_options_set(o, set[i][0], set[i][1]));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_options_free(o);
    return t;
}

static int near_weights(dpx_trainer *a, dpx_trainer *b)
{
    float x[WEIGHTS] = { 0 }, y[WEIGHTS] = { 1 };
    int near = 1;

    get_weights(a, x);
    get_weights(b, y);
    for (int k = 0; k < WEIGHTS; k++)
        near &= fabsf(x[k] - y[k]) <= 1e-5f * fabsf(y[k]) + 1e-6f;
    return near;
}

/* Each group computed at its own size, both axes: what the groups alone give, one after the other. */
static void compare_alone(dpx_model *m)
{
    enum { N = 6, EACH = 2, GROUPS = 3 };
    dpx_trainer *own = padded_trainer(m, "3", "auto", "1"), *step = padded_trainer(m, "3", "step", "1"),
                *alone = padded_trainer(m, "1", "step", "3");
    dpx_data *part[GROUPS] = { NULL };
    const dpx_data *batch = images(N, EACH);
    dpx_result a, b, c = { 0 };
    double sum = 0;

    CHECK_DPX(dpx_scatter(part, batch, GROUPS));
    for (int r = 0; r < GROUPS; r++) {
        keep(part[r]);
        part[r] = map_of("img", dpx_data_find(part[r], "img"), "target", dpx_data_find(part[r], "target"));
        CHECK_DPX(dpx_val_data(alone, part[r], &c));
        sum += c.loss_sum;
    }
    CHECK_DPX(dpx_val_data(own, batch, &a));
    CHECK_DPX(dpx_val_data(step, batch, &b));
    CU_ASSERT(fabs(a.loss_sum - sum) <= 1e-5 * sum);
    CU_ASSERT(fabs(b.loss_sum - sum) > 1e-3 * sum); /* the padding is data to this model */
    for (int i = 0; i < 3; i++) {
        CHECK_DPX(dpx_train_data(own, batch, &a));
        for (int r = 0; r < GROUPS; r++)
            CHECK_DPX(dpx_train_data(alone, part[r], &c));
        CU_ASSERT(fabs(a.loss - c.loss) <= 1e-5 * c.loss);
    }
    CU_ASSERT(near_weights(own, alone));
    dpx_trainer_free(own);
    dpx_trainer_free(step);
    dpx_trainer_free(alone);
    dpx_model_free(m);
    free_made();
}

/* One over the length, repeated over all positions: a constant of each group. */
static dpx_model *mean_by_length(void)
{
    static const char text[] = "graph \"mean\" {\n"
                               "  input %img : float32[\"N\"=?,1,\"H\"=?,\"W\"=?]\n"
                               "  const %conv.weight : float32[2,1,2,2] = {1, -0.5, 0.25, 2, -1, 0.5, 0.75, -0.25}\n"
                               "  const %head.weight : float32[2,1] = {0.5, -0.25}\n"
                               "  const %axes : int64[2] = {2, 3}\n"
                               "  const %one : float32[] = {1}\n"
                               "  const %at : int64[] = {2}\n"
                               "  %shape = Shape(%img)\n"
                               "  %h = Gather(%shape, %at)\n"
                               "  %hf = Cast(%h) {to=1}\n"
                               "  %share = Div(%one, %hf)\n"
                               "  %shares = Expand(%share, %shape)\n"
                               "  %x = Concat(%img, %shares) {axis=2}\n"
                               "  %c = Conv(%x, %conv.weight, _) {pads=[1,1,0,0]}\n"
                               "  %r = Relu(%c)\n"
                               "  %s = ReduceSum(%r, %axes) {keepdims=0}\n"
                               "  %y = MatMul(%s, %head.weight)\n"
                               "  output \"y\" = %y\n"
                               "}\n";

    return model_of_text(text);
}

static void test_own_lengths(void)
{
    compare_alone(any_size());
    compare_alone(mean_by_length());
}

/* Groups of one sample have no padding: what they would be padded with is nowhere, be it no number. */
static void test_no_padding(void)
{
    dpx_model *m = attention();
    dpx_trainer *zeros = padded_trainer(m, "5", "replica", "1"), *nan = padded_trainer(m, "5", "replica", "1"),
                *longer = padded_trainer(m, "1", "step", "1");
    int64_t positions = 0, there, computed;
    dpx_result a, b, c;

    for (int step = 0; step < 5; step++) {
        CHECK_DPX(dpx_train_data(zeros, sequences(1, 0), &a));
        CHECK_DPX(dpx_train_data(nan, sequences(1, (double)NAN), &b));
        step_by_hand(longer, &c);
        CU_ASSERT(a.loss == b.loss && isfinite(a.loss));
        CU_ASSERT(fabs(a.loss - c.loss) <= 1e-12 * fabs(c.loss));
        free_made();
    }
    for (int i = 0; i < ATTENDED; i++)
        positions += 5 * 2 * length_of(i); /* of x and the mask */
    dpx_trainer_padding(zeros, &there, &computed);
    CU_ASSERT(there == positions && computed == positions);
    dpx_trainer_free(zeros);
    dpx_trainer_free(nan);
    dpx_trainer_free(longer);
    dpx_model_free(m);
}

/* Of plain tensors the caller says it. */
static void test_said_lengths(void)
{
    enum { N = 4, T = 6 };
    static const int64_t length[N] = { 2, 3, 6, 5 }, wide[N] = { 2, 3, 7, 5 };
    static double x[N][WIDE][T], mask[N][T], target[N][WIDE];
    dpx_tensor batch[] = { { "x", DPX_FLOAT64, 3, { N, WIDE, T }, x },
                           { "mask", DPX_FLOAT64, 3, { N, 1, T }, mask },
                           { "target", DPX_FLOAT64, 2, { N, WIDE }, target } };
    dpx_model *m = attention();
    dpx_trainer *own = padded_trainer(m, "2", "replica", "1"), *step = padded_trainer(m, "2", "step", "1");
    int64_t there, computed;
    dpx_result a, b;

    for (int i = 0; i < N; i++)
        for (int k = 0; k < T; k++) {
            mask[i][k] = k < length[i];
            for (int row = 0; row < WIDE; row++)
                x[i][row][k] = k < length[i] ? element(i, row, k) : 1e30;
        }
    for (int i = 0; i < 3; i++) {
        dpx_trainer *both[] = { own, step };

        for (int k = 0; k < 2; k++) {
            CHECK_DPX(dpx_trainer_lengths(both[k], "x", 2, 2, length, N));
            CHECK_DPX(dpx_trainer_lengths(both[k], "mask", 2, 2, length, N));
            CHECK_DPX(dpx_trainer_lengths(both[k], "nobody's", 2, 2, length, N));
            CHECK_DPX(dpx_train_step(both[k], batch, 3, k ? &b : &a));
        }
        CU_ASSERT(fabs(a.loss - b.loss) <= 1e-12 * fabs(b.loss));
    }
    dpx_trainer_padding(own, &there, &computed); /* the first part to 4, in multiples of 2; the second to 6 */
    CU_ASSERT(there == 3 * 2 * 16 && computed == 3 * 2 * (2 * 4 + 2 * 6));
    dpx_trainer_padding(step, &there, &computed);
    CU_ASSERT(there == 3 * 2 * 16 && computed == 3 * 2 * 4 * 6);
    CHECK_DPX_FAILS(DPX_INVALID, "expected an axis from 0", dpx_trainer_lengths(own, "x", -1, 1, length, N));
    CHECK_DPX_FAILS(DPX_INVALID, "multiples from 1", dpx_trainer_lengths(own, "x", 2, 0, length, N));
    CHECK_DPX_FAILS(DPX_INVALID, "sample 1 has -3", dpx_trainer_lengths(own, "x", 2, 1, (int64_t[]){ 2, -3 }, 2));
    CHECK_DPX(dpx_trainer_lengths(own, "x", 2, 1, length, 3));
    CHECK_DPX_FAILS(DPX_INVALID, "3 are given, and the batch has 4 samples", dpx_train_step(own, batch, 3, &a));
    CHECK_DPX(dpx_trainer_lengths(own, "x", 3, 1, length, N));
    CHECK_DPX_FAILS(DPX_INVALID, "along axis 3, and its rank is 3", dpx_train_step(own, batch, 3, &a));
    CHECK_DPX(dpx_trainer_lengths(own, "x", 2, 1, wide, N));
    CHECK_DPX_FAILS(DPX_INVALID, "sample 2 has 7 of 6", dpx_train_step(own, batch, 3, &a));
    CHECK_DPX(dpx_trainer_lengths(own, "x", 2, 1, wide, N));
    CHECK_DPX_FAILS(DPX_INVALID, "a batch of -1 tensors", dpx_train_step(own, batch, -1, &a));
    CHECK_DPX(dpx_train_step(own, batch, 3, &a)); /* they were of that step */
    dpx_trainer_free(own);
    dpx_trainer_free(step);
    dpx_model_free(m);
}

enum { WORLD_STEPS = 3 };

typedef struct {
    int size, rank;
    const char *rendezvous, *pad_to;
    const dpx_model *m;
    const dpx_data *batch;
    dpx_status status;
    double loss[WORLD_STEPS + 1]; /* and of an evaluation */
} Process;

static void *train_in_world(void *arg)
{
    Process *p = arg;
    const dpx_world_options how = { .size = p->size, .rank = p->rank, .rendezvous = p->rendezvous, .timeout = 20 };
    dpx_world *w = NULL;
    dpx_trainer *t = NULL;
    dpx_result r = { 0 };

    if (!(p->status = dpx_world_join(&w, &how)))
        p->status = create_trainer(&t, p->m, "balanced", "4", p->pad_to, w);
    for (int i = 0; i <= WORLD_STEPS && !p->status; i++) {
        p->status = i < WORLD_STEPS ? dpx_train_data(t, p->batch, &r) : dpx_val_data(t, p->batch, &r);
        p->loss[i] = r.loss;
    }
    dpx_trainer_free(t);
    dpx_world_leave(w);
    return NULL;
}

/* Every process gives the whole batch: the bits of one process.  Of three groups the second process has one. */
static void train_together(const char *pad_to)
{
    dpx_model *m = any_size();
    char rendezvous[32];
    Process p[3] = { { .m = m, .batch = images(7, 3), .size = 1, .pad_to = pad_to } };
    pthread_t thread[2];

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", free_port());
    train_in_world(&p[0]);
    for (int r = 0; r < 2; r++) {
        p[1 + r] = p[0];
        p[1 + r].size = 2;
        p[1 + r].rank = r;
        p[1 + r].rendezvous = rendezvous;
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, train_in_world, &p[1 + r]));
    }
    for (int r = 0; r < 2; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < 3; r++)
        CU_ASSERT(!p[r].status && !memcmp(p[r].loss, p[0].loss, sizeof p[r].loss) && p[r].loss[0] > 0);
    dpx_model_free(m);
    free_made();
}

static void test_world(void)
{
    train_together("step");
    train_together("replica");
}

static void test_steps_refused(void)
{
    dpx_model *m = any_size();
    dpx_trainer *t = trainer_of(m, "balanced", "2");
    const dpx_data *b = images(6, 3), *img = dpx_data_find(b, "img"), *y = dpx_data_find(b, "target");
    dpx_result r;

    CHECK_DPX_FAILS(DPX_INVALID, "the batch has 3 groups, more than the 2 replicas",
                    dpx_train_data(t, images(6, 2), &r));
    CHECK_DPX_FAILS(DPX_INVALID, "the batch is groups, expected a map", dpx_train_data(t, img, &r));
    CHECK_DPX_FAILS(DPX_INVALID, "'img': a list, and an input is a tensor",
                    dpx_train_data(t, map_of("img", list_of(y, y), "target", y), &r));
    CHECK_DPX_FAILS(DPX_INVALID, "its container must stack",
                    dpx_train_data(t, map_of("img", COLLATE(1, contained(scalar(1), 0, 0, 2, 0)), NULL, NULL), &r));
    CHECK_DPX_FAILS(DPX_INVALID, "the model has no input 'image'",
                    dpx_train_data(t, map_of("image", img, "target", y), &r));
    CHECK_DPX_FAILS(
        DPX_SHAPE, "'img': group 1 is [1,2,1,1], group 0 [1,1,1,1]",
        dpx_train_data(
            t, map_of("img", COLLATE(1, STACKED(FLOATS(1, 1, 1, 1)), STACKED(FLOATS(1, 2, 1, 1))), NULL, NULL), &r));
    CHECK_DPX(dpx_train_data(t, b, &r)); /* nothing has harmed the trainer */
    CU_ASSERT_EQUAL(r.step, 1);
    dpx_trainer_free(t);
    dpx_model_free(m);
    free_made();
}

DEFINE_SUITE(grouped, { "steps of groups", test_steps }, { "attention", test_attention },
             { "each group at its own size", test_own_lengths }, { "groups without padding", test_no_padding },
             { "lengths that are said", test_said_lengths }, { "steps of groups in two processes", test_world },
             { "steps that are refused", test_steps_refused });
