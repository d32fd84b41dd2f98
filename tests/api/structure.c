/* Inputs that are sequences, optional, lists and maps; the values against closed forms, or the same tensors by names of
 * their own (tests/cli/structure.sh has PyTorch's). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/api/api.h"

#define FOLDER SOURCE_DIR "/tests/cli/structure/"

enum { MOST = 5, WIDE = 2 };

static double x[MOST * WIDE], scale = -1.5;

static dpx_tensor rows(const char *name, int n)
{
    for (int i = 0; i < MOST * WIDE; i++)
        x[i] = sin(0.7 * i * i + 0.1);
    return (dpx_tensor){ name, DPX_FLOAT64, 2, { n, WIDE }, x };
}

static dpx_tensor number(const char *name) { return (dpx_tensor){ name, DPX_FLOAT64, 0, { 0 }, &scale }; }

/* `members`: "NAME=N", ended by NULL. */
static dpx_model *load(const char *file, const char *const *members)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    char path[512];

    snprintf(path, sizeof path, FOLDER "%s", file);
    for (; *members; members++)
        CHECK_DPX(dpx_options_set(o, "input-members", *members));
    CHECK_DPX(dpx_model_load_within(&m, path, o));
    dpx_options_free(o);
    return m;
}

/* x scale + more, over the rows. */
static void check_scores(const dpx_tensor *y, int n, double more)
{
    CU_ASSERT_FATAL(y->rank == 2 && y->dim[0] == n && y->dim[1] == WIDE);
    for (int i = 0; i < n * WIDE; i++)
        CU_ASSERT(((double *)y->data)[i] == x[i] * scale + more);
}

static dpx_trainer *trainer_on(const dpx_model *m, const char *devices)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;

    CHECK_DPX(dpx_options_set(o, "devices", devices));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_options_free(o);
    return t;
}

static void test_names(void)
{
    static const char *const names[] = { "xs.0", "xs.1", "m" };
    dpx_model *m = load("sequences.onnx", (const char *[]){ "xs=2", "m=present", NULL });
    dpx_info in;

    CU_ASSERT_EQUAL_FATAL(dpx_model_count(m, DPX_INPUT), 3);
    for (int i = 0; i < 3; i++) {
        CHECK_DPX(dpx_model_info(m, DPX_INPUT, i, &in));
        CHECK_STR(names[i], in.name);
        CU_ASSERT(in.rank == 2 && in.dim[0] == -1 && !strcmp(in.dim_name[0], "N"));
    }
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_OUTPUT), 4); /* scores, all.0, all.1, gate */
    dpx_model_free(m);
    m = load("sequences.onnx", (const char *[]){ "xs=3", "m=absent", NULL });
    CU_ASSERT(dpx_model_count(m, DPX_INPUT) == 3 && dpx_model_count(m, DPX_OUTPUT) == 4);
    dpx_model_free(m);
}

/* One without axes goes to every device; a sequence without tensors is none. */
static void test_one_call(void)
{
    for (int more = 0; more < 3; more++) {
        dpx_model *m =
            load("scaled.onnx", (const char *[]){ "xs=2", more ? more > 1 ? "more=2" : "more=1" : "more=0", NULL });
        dpx_tensor in[4] = { rows("xs.0", 0), number("xs.1"), rows("more.0", 0), rows("more.1", 0) }, y;
        dpx_trainer *keep = NULL;

        for (int n = MOST; n > 0; n -= 3)
            for (int d = 0; d < 2; d++) {
                in[0].dim[0] = in[2].dim[0] = in[3].dim[0] = n;
                CHECK_DPX(dpx_data_parallel(&keep, m, in, 2 + more, d ? "cpu*3" : "cpu:0", -1, 0, &y, 1));
                check_scores(&y, n, more);
            }
        dpx_trainer_free(keep);
        dpx_model_free(m);
    }
}

static void test_members_disagree(void)
{
    dpx_model *m = load("scaled.onnx", (const char *[]){ "xs=2", "more=0", NULL });
    dpx_tensor in[2] = { rows("xs.0", 5), rows("xs.1", 3) }, y;
    dpx_trainer *keep = NULL;

    for (int d = 0; d < 2; d++) {
        dpx_trainer *t = trainer_on(m, d ? "cpu*2" : "cpu:0");

        CHECK_DPX_FAILS(DPX_SHAPE, "input 'xs.1' has 3, 'xs.0' of the same sequence 5", dpx_run(t, in, 2, &y, 1));
        dpx_trainer_free(t);
    }
    CHECK_DPX_FAILS(DPX_SHAPE,
                    "input 'xs.1' has another size along axis -2 than 'xs.0' of the same sequence, which has 5",
                    dpx_data_parallel(&keep, m, in, 2, "cpu*2", 0, -2, &y, 1));
    dpx_trainer_free(keep);
    dpx_model_free(m);
}

static dpx_data *tensor(const dpx_tensor *t)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_tensor(&d, t));
    return d;
}

static dpx_data *list(dpx_data *a, dpx_data *b)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_list(&d, (const dpx_data *[]){ a, b }, !!a + !!b));
    dpx_data_free(a);
    dpx_data_free(b);
    return d;
}

static dpx_data *map(const char *k, dpx_data *a, const char *l, dpx_data *b)
{
    dpx_data *d = NULL;

    CHECK_DPX(dpx_data_map(&d, (const char *[]){ k, l }, (const dpx_data *[]){ a, b }, 1 + !!b));
    dpx_data_free(a);
    dpx_data_free(b);
    return d;
}

static void test_lists(void)
{
    dpx_model *m = load("scaled.onnx", (const char *[]){ "xs=2", "more=0", NULL });
    dpx_trainer *t = trainer_on(m, "cpu*3");
    dpx_tensor a = rows(NULL, 5), b = number(NULL), y, more[3];
    dpx_data *batch = map("xs", list(tensor(&a), tensor(&b)), "more", list(NULL, NULL));

    CHECK_DPX(dpx_run_data(t, batch, &y, 1));
    check_scores(&y, 5, 0);
    dpx_data_free(batch);
    b = rows(NULL, 3);
    batch = map("xs", list(tensor(&a), tensor(&b)), NULL, NULL);
    CHECK_DPX_FAILS(DPX_INVALID, "xs[1]: 3 samples along axis 0, others of the batch have 5",
                    dpx_run_data(t, batch, &y, 1));
    dpx_data_free(batch);
    batch = map("xs", list(tensor(&a), NULL), NULL, NULL);
    CHECK_DPX_FAILS(
        DPX_INVALID,
        "sequence 'xs' has 1 tensors in this batch, and 2 in this model: a trainer has one structure, which "
        "\"input-members\" \"xs=1\" gives",
        dpx_run_data(t, batch, &y, 1));
    dpx_data_free(batch);
    more[0] = more[1] = a;
    more[2] = b;
    more[0].name = "xs.0";
    more[1].name = "xs.2";
    more[2].name = "xs.1";
    CHECK_DPX_FAILS(DPX_INVALID, "sequence 'xs' has 3 tensors in this batch, and 2 in this model",
                    dpx_run(t, more, 3, &y, 1));
    batch = map("xs", list(tensor(&a), tensor(&a)), "more", list(tensor(&a), NULL));
    CHECK_DPX_FAILS(DPX_INVALID, "the model has no input 'more.0'", dpx_run_data(t, batch, &y, 1));
    dpx_data_free(batch);
    dpx_trainer_free(t);
    dpx_model_free(m);
}

static dpx_trainer *mapped_trainer(const dpx_model *m)
{
    dpx_options *o = dpx_options_create();
    dpx_trainer *t = NULL;

    CHECK_DPX(dpx_options_set(o, "loss", "mse"));
    CHECK_DPX(dpx_options_set(o, "logits", "scores"));
    CHECK_DPX(dpx_options_set(o, "devices", "cpu*3"));
    CHECK_DPX(dpx_trainer_create(&t, m, o, NULL, NULL));
    dpx_options_free(o);
    return t;
}

/* What PyTorch's exporter took apart, put together again. */
static void test_lists_and_maps_of_pytorch(void)
{
    static double wide[MOST * 3], shift[MOST * 4], target[MOST * 4];
    dpx_tensor in[4] = { { "pair_0", DPX_FLOAT64, 2, { MOST, 3 }, wide },
                         { "pair_1", DPX_FLOAT64, 2, { MOST, 3 }, wide },
                         { "more_shift", DPX_FLOAT64, 2, { MOST, 4 }, shift },
                         { "target", DPX_FLOAT64, 2, { MOST, 4 }, target } };
    dpx_model *m = load("exported.onnx", (const char *[]){ NULL });
    dpx_trainer *one = mapped_trainer(m), *two = mapped_trainer(m);
    dpx_result a = { .loss = 0 }, b = { .loss = 1 };
    dpx_data *inputs, *all, *both, *goal;

    for (int i = 0; i < MOST * 4; i++) {
        target[i] = cos(i);
        shift[i] = sin(3 * i);
        wide[i % (MOST * 3)] = sin(i + 1);
    }
    inputs = list(tensor(&in[0]), tensor(&in[1]));
    both = map("shift", tensor(&in[2]), NULL, NULL);
    goal = tensor(&in[3]);
    CHECK_DPX(dpx_data_map(&all, (const char *[]){ "pair", "more", "target" },
                           (const dpx_data *[]){ inputs, both, goal }, 3));
    for (int step = 0; step < 3; step++) {
        CHECK_DPX(dpx_train_step(one, in, 4, &a));
        CHECK_DPX(dpx_train_data(two, all, &b));
        CU_ASSERT(a.loss == b.loss && a.loss > 0);
    }
    dpx_data_free(inputs);
    dpx_data_free(both);
    dpx_data_free(goal);
    dpx_data_free(all);
    dpx_trainer_free(one);
    dpx_trainer_free(two);
    dpx_model_free(m);
}

/* A batch of another length goes on with what a trainer of the first one has learned. */
static void test_other_structure(void)
{
    static double wide[MOST * 3], target[MOST * 4];
    const dpx_tensor goal = { "target", DPX_FLOAT64, 2, { MOST, 4 }, target };
    double w[2][3 * 4];
    char folder[256];

    make_folder(folder);
    for (int i = 0; i < MOST * 3; i++)
        wide[i] = sin(i);
    for (int i = 0; i < MOST * 4; i++)
        target[i] = cos(i);
    for (int n = 2; n <= 3; n++) {
        dpx_model *m = load("sequences.onnx", (const char *[]){ n == 2 ? "xs=2" : "xs=3", "m=absent", NULL });
        dpx_trainer *t = mapped_trainer(m);
        const dpx_tensor state = { "w", DPX_FLOAT64, 2, { 3, 4 }, w[n - 2] };
        dpx_tensor in[4];
        dpx_result r;

        for (int i = 0; i < 3; i++)
            in[i] = (dpx_tensor){ (const char *[]){ "xs.0", "xs.1", "xs.2" }[i], DPX_FLOAT64, 2, { MOST, 3 }, wide };
        in[n] = goal;
        if (n == 3)
            CHECK_DPX(dpx_trainer_resume(t, folder, NULL));
        else
            CHECK_DPX(dpx_train_step(t, in, n + 1, &r));
        CHECK_DPX(dpx_trainer_get_state(t, "w", &state));
        if (n == 2)
            CHECK_DPX(dpx_trainer_save(t, folder, NULL));
        CHECK_DPX(dpx_train_step(t, in, n + 1, &r));
        CU_ASSERT(r.step == 2);
        dpx_trainer_free(t);
        dpx_model_free(m);
    }
    CU_ASSERT(!memcmp(w[0], w[1], sizeof *w) && w[0][0] != 0);
    remove_folder(folder);
}

typedef struct {
    int n, asked, sequences, optionals;
} Asked;

static int count(void *user, const char *input, int sequence, int optional)
{
    Asked *a = user;

    a->asked++;
    a->sequences += sequence && !strcmp(input, "xs");
    a->optionals += optional && !strcmp(input, "m");
    return sequence ? a->n : DPX_ABSENT;
}

static void test_asked(void)
{
    dpx_options *o = dpx_options_create();
    dpx_model *m = NULL;
    Asked a = { .n = DPX_UNSET };

    dpx_options_set_members(o, count, &a);
    CHECK_DPX_FAILS(DPX_UNSUPPORTED,
                    "input 'xs': the number of tensors of this sequence is unknown: give --input-members xs=N",
                    dpx_model_load_within(&m, FOLDER "sequences.onnx", o));
    CU_ASSERT(a.asked == 2 && a.sequences == 1 && a.optionals == 1);
    a.n = DPX_ABSENT;
    CHECK_DPX_FAILS(DPX_INVALID, "input 'xs' cannot be absent", dpx_model_load_within(&m, FOLDER "sequences.onnx", o));
    a.n = 5000;
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "input 'xs': a sequence of more than 4096 tensors",
                    dpx_model_load_within(&m, FOLDER "sequences.onnx", o));
    a.n = 2;
    CHECK_DPX(dpx_model_load_within(&m, FOLDER "sequences.onnx", o));
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_INPUT), 2);
    dpx_model_free(m);
    CHECK_DPX(dpx_options_set(o, "input-members", "xs=4")); /* which is said, and not asked */
    CHECK_DPX(dpx_model_load_within(&m, FOLDER "sequences.onnx", o));
    CU_ASSERT_EQUAL(dpx_model_count(m, DPX_INPUT), 4);
    dpx_model_free(m);
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "input 'xs'", dpx_model_load(&m, FOLDER "sequences.onnx"));
    CHECK_DPX_FAILS(DPX_UNSUPPORTED, "input 'm': this optional may be present or absent",
                    dpx_model_load(&m, FOLDER "sequences.onnx"));
    dpx_options_free(o);
}

/* The interpreter takes a sequence as a list, or by its tensors' names. */
static void test_interpreted(void)
{
    dpx_options *o = dpx_options_create();
    dpx_tensor a = rows(NULL, 5), b = number(NULL), y;
    dpx_data *given[3] = { map("xs", list(tensor(&a), tensor(&b)), "more", list(NULL, NULL)),
                           map("xs.0", tensor(&a), "xs.1", tensor(&b)),
                           map("xs.0", tensor(&a), "more", list(NULL, NULL)) },
             *out = NULL;

    CHECK_DPX(dpx_interpret(&out, FOLDER "scaled.onnx", o, given[0]));
    CHECK_DPX(dpx_data_view(dpx_data_find(out, "scores"), &y));
    check_scores(&y, 5, 0);
    dpx_data_free(out);
    CHECK_DPX_FAILS(DPX_INVALID, "input 'more' was not given, as a list or as 'more.0', 'more.1' ...",
                    dpx_interpret(&out, FOLDER "scaled.onnx", o, given[1]));
    CHECK_DPX_FAILS(DPX_MODEL, "index 1 is outside of a sequence of 1",
                    dpx_interpret(&out, FOLDER "scaled.onnx", o, given[2]));
    for (int i = 0; i < 3; i++)
        dpx_data_free(given[i]);
    dpx_options_free(o);
}

DEFINE_SUITE(structure, { "names of members", test_names }, { "one call", test_one_call },
             { "members that disagree", test_members_disagree }, { "lists", test_lists },
             { "lists and maps of PyTorch", test_lists_and_maps_of_pytorch },
             { "another structure", test_other_structure }, { "who is asked", test_asked },
             { "interpreted", test_interpreted });
