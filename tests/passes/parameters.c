/* find-parameters: which constants of a model are trained, by the evidence of its file.
 *
 * The graphs are what exporters write of small networks; what is
 * trained is what PyTorch's named_parameters() says of those. */
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "exec/run/interp.h"
#include "exec/train/parameter_list.h"
#include "exec/state/safetensors.h"
#include "graph/text/parse.h"
#include "passes/model/parameters.h"
#include "passes/build_options.h"
#include "passes/options/parameters.h"
#include "tests/harness/test.h"

extern const Pass pass_infer_shapes, pass_find_parameters;

typedef struct {
    const char *name;
    Origin origin;
    Evidence evidence;
    const char *folded_from;
} Mark;

static Graph *read_graph(const char *text, const char *producer, const Mark *mark)
{
    Graph *g = NULL;

    if (!CHECK_OK(graph_parse(&g, text, strlen(text))))
        return NULL;
    g->producer = producer;
    g->producer_version = "2.15.0";
    for (uint32_t i = 1; i < g->n_value; i++)
        g->value[i]->origin = g->value[i]->kind == V_CONST ? ORIGIN_INITIALIZER : ORIGIN_NONE;
    for (; mark && mark->name; mark++) {
        Value *v = value(g, graph_find(g, mark->name));

        v->origin = mark->origin;
        v->evidence = mark->evidence;
        v->folded_from = mark->folded_from;
    }
    return g;
}

static Status find(Graph *g, const BuildOptions *opt, Report *report)
{
    PassCtx ctx = { .scratch = arena_create(), .opt = opt, .eval = interp_node, .report = report };
    Status st = ctx.scratch ? pass_infer_shapes.run(g, &ctx) : FAIL_NOMEM();

    if (!st)
        st = pass_find_parameters.run(g, &ctx);
    arena_free(ctx.scratch);
    return st;
}

/* "name+" trained, "name-" fixed, with "?" behind it a guess; separated by spaces. */
static void check_decisions(const Report *r, const char *expected)
{
    char text[2048], *word;

    snprintf(text, sizeof text, "%s", expected);
    for (word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        bool guess = word[strlen(word) - 1] == '?', found = false;
        size_t n = strlen(word) - (guess ? 2 : 1);

        for (int i = 0; i < r->n_decision; i++) {
            const Decision *d = &r->decision[i];

            if (strlen(d->name) != n || strncmp(d->name, word, n))
                continue;
            found = true;
            if (d->trained != (word[n] == '+') || d->guess != guess)
                TEST_FAIL("%s: found %s%s (%s)", word, d->trained ? "trained" : "fixed", d->guess ? ", a guess" : "",
                          d->reason);
        }
        if (!found)
            TEST_FAIL("%s: no such tensor", word);
    }
}

static void check_notes(const Report *r, NoteKind kind, const char *const *wanted)
{
    int n = 0;

    for (int i = 0; i < r->n_note; i++)
        n += r->note[i].kind == kind;
    for (; wanted && *wanted; wanted++, n--) {
        bool found = false;

        for (int i = 0; i < r->n_note; i++)
            found |= r->note[i].kind == kind && strstr(r->note[i].text, *wanted);
        if (!found)
            TEST_FAIL("no note says '%s'", *wanted);
    }
    if (n)
        TEST_FAIL("%d notes that were not expected, or were and are not there", n);
}

/* A build that has options of parameters alone. */
typedef struct {
    BuildOptions build;
    ParameterOptions parameters;
} ParameterBuild;

static const BuildOptions *parameter_build(ParameterBuild *p)
{
    p->build.parameters = &p->parameters;
    return &p->build;
}

static Report *decisions(const char *text, const char *producer, const Mark *mark, const BuildOptions *opt)
{
    ParameterBuild none = { .build.mode = BUILD_TRAIN };
    Graph *g = read_graph(text, producer, mark);
    Report *r = report_create();

    if (g && r)
        CHECK_OK(find(g, opt ? opt : parameter_build(&none), r));
    graph_free(g);
    return r;
}

static void check(const char *text, const char *producer, const Mark *mark, const char *expected)
{
    Report *r = decisions(text, producer, mark, NULL);

    check_decisions(r, expected);
    report_free(r);
}

/* A class token, a memory bank, a temperature: what is concatenated or expanded is learned like what is multiplied. */
static const char tokens[] =
    "graph \"g\" { input %x : float32[2,3,4]\n"
    "const %bank : float32[5,4] = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2}\n const %cls_token : float32[1,1,4] = all "
    "0\n"
    "const %start : float32[1,1,4] = all 0\n const %s5 : int64[3] = {2,5,4}\n const %s1 : int64[3] = {2,1,4}\n"
    "const %logit_scale : float32[] = {2.6}\n const %eps : float32[] = {0.5}\n const %low : float32[] = {0.25}\n"
    "%b = Expand(%bank, %s5)\n %t = Expand(%cls_token, %s1)\n %h = Expand(%start, %s1)\n %c = Concat(%b, %t, %h, %x) "
    "{axis=1}\n"
    "%e = Exp(%logit_scale)\n %d = Mul(%c, %e)\n %f = Mul(%d, %eps)\n %k = Clip(%f, %low)\n output \"y\" = %k }";

/* Batch normalisation out of training as formulas, the three ways in which they are written; a weight that is
 * normalised by its own length, which also has a root, stays a parameter. */
static const char norm_formulas[] =
    "graph \"g\" { input %x : float32[4,3]\n const %mean : float32[3] = {1,2,3}\n const %var : float32[3] = {4,5,6}\n"
    "const %scale : float32[3] = {1,2,4}\n const %shift : float32[3] = {0,1,5}\n const %eps : float32[] = {0.001}\n"
    "const %one : float32[] = {1}\n const %w : float32[3,3] = {1,2,3,4,5,6,7,8,1}\n const %m : int64[1] = {0}\n"
    "%h = MatMul(%x, %w)\n %v = Add(%var, %eps)\n %root = Sqrt(%v)\n";

static void check_formula(const char *rest, const char *expected)
{
    bool norm = strstr(expected, "mean-?");
    const char *const wanted[] = { norm ? "batch normalisation is written as a formula" : NULL, NULL };
    char text[2048];
    Report *r;

    snprintf(text, sizeof text, "%s%s", norm_formulas, rest);
    r = decisions(text, "jax2onnx", NULL, NULL);
    check_decisions(r, expected);
    check_notes(r, NOTE_EXPORTER, wanted);
    report_free(r);
}

static void test_norm_formulas(void)
{
    const char *all = "mean-? var-? scale+ shift+ w+ eps-";

    check_formula(
        "%d = Sub(%h, %mean)\n %i = Div(%one, %root)\n %s = Mul(%i, %scale)\n %y = Mul(%d, %s)\n %z = Add(%y, %shift)\n"
        "output \"y\" = %z }",
        all);
    check_formula(
        "%i = Div(%scale, %root)\n %y = Mul(%h, %i)\n %o = Mul(%mean, %i)\n %p = Sub(%shift, %o)\n %z = Add(%y, %p)\n"
        "output \"y\" = %z }",
        all);
    check_formula(
        "%i = Div(%one, %root)\n %s = Mul(%i, %scale)\n %n = Neg(%mean)\n %o = Mul(%n, %s)\n %p = Add(%o, %shift)\n"
        "%y = Mul(%h, %s)\n %z = Add(%y, %p)\n output \"y\" = %z }",
        all);
    check_formula("%q = Mul(%w, %w)\n %l = ReduceSum(%q, %m) {keepdims=0}\n %le = Add(%l, %eps)\n %lr = Sqrt(%le)\n "
                  "%wn = Div(%w, %lr)\n"
                  "%u = MatMul(%h, %wn)\n %z = Add(%u, %shift)\n output \"y\" = %z }",
                  "w+ shift+");
}

static void test_reach(void)
{
    const Mark literal[] = { { "eps", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                             { "low", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                             { NULL, 0, 0, NULL } };

    check(tokens, "pytorch", literal, "bank+? cls_token+ start+? logit_scale+ eps- low-");
    check(tokens, "", NULL, "bank+? cls_token-? start-? logit_scale- eps- low-");
}

/* A GroupNorm: its ones and zeros are Constant nodes, scale and bias come by way of Unsqueeze. */
static const char group_norm[] =
    "graph \"g\" { input %x : float32[2,4,3,3]\n const %c.weight : float32[4,4,1,1] = "
    "{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}\n"
    "const %one : float32[2] = all 1\n const %zero : float32[2] = all 0\n const %g.weight : float32[4] = all 1\n"
    "const %g.bias : float32[4] = all 0\n const %axes : int64[2] = {1,2}\n const %split : int64[3] = {0,2,-1}\n"
    "const %whole : int64[4] = {2,4,3,3}\n"
    "%a = Conv(%x, %c.weight)\n %r = Reshape(%a, %split)\n %n = InstanceNormalization(%r, %one, %zero)\n %m = "
    "Reshape(%n, %whole)\n"
    "%u = Unsqueeze(%g.weight, %axes)\n %v = Unsqueeze(%g.bias, %axes)\n %s = Mul(%m, %u)\n %y = Add(%s, %v)\n output "
    "\"y\" = %y }";

/* A learned gain of the input has the place of a normalisation's deviation. */
static void test_colours(void)
{
    const char *model = "graph \"g\" { input %x : float32[4,3]\n const %mean : float32[3] = {1,2,3}\n"
                        "const %gain : float32[3] = {0.5,1.25,-0.75}\n const %std : float32[3] = {4,5,6}\n"
                        "const %w : float32[3,2] = {1,2,3,4,5,6}\n %c = Sub(%x, %mean)\n %d = Div(%c, %std)\n"
                        "%e = Mul(%d, %gain)\n %y = MatMul(%e, %w)\n output \"y\" = %y }";
    const Mark literal[] = { { "gain", ORIGIN_NODE, EVIDENCE_NONE, NULL }, { NULL, 0, 0, NULL } };
    const Mark said[] = { { "gain", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL }, { NULL, 0, 0, NULL } };

    check(model, "pytorch", NULL, "mean- std- gain-? w+?");
    check(model, "pytorch", literal, "mean- std- gain- w+?");
    check(model, "pytorch", said, "mean- std- gain+ w+");
}

static void test_origin(void)
{
    const Mark nodes[] = { { "one", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                           { "zero", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                           { NULL, 0, 0, NULL } };
    const Mark all_nodes[] = { { "one", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                               { "zero", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                               { "c.weight", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                               { NULL, 0, 0, NULL } };

    check(group_norm, "pytorch", nodes, "c.weight+ one- zero- g.weight+ g.bias+");
    check(group_norm, "", all_nodes, "c.weight+ one+ zero+ g.weight+ g.bias+"); /* weights are Constant nodes */
}

static const char values[] =
    "graph \"g\" { input %x : float32[2,4,4]\n const %swin : float32[4,4] = "
    "{0,-100,0,0,-100,0,0,0,0,0,0,-100,0,0,-100,0}\n"
    "const %inf : float32[4] = {0,-inf,0,0}\n const %attn.ones : float32[4] = {0,1,1,0}\n"
    "const %waves : float32[4,4] = {0,1,0,1, 0.8414709848,0.5403023059,0.0099998333,0.9999500004,"
    " 0.9092974268,-0.4161468365,0.0199986667,0.9998000067, 0.1411200081,-0.9899924966,0.0299955002,0.9995500337}\n"
    "const %pos : float32[4,4] = {3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3}\n const %encoder.pe : float32[4,4] = "
    "{3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3}\n"
    "%a = Add(%x, %swin)\n %b = Add(%a, %inf)\n %c = Mul(%b, %attn.ones)\n %d = Add(%c, %waves)\n %e = Add(%d, %pos)\n"
    "%f = Add(%e, %encoder.pe)\n output \"y\" = %f }";

static void test_values(void) { check(values, "pytorch", NULL, "swin- inf- attn.ones- waves-? pos+? encoder.pe-?"); }

/* Points of two grids, frequencies, distances that are multiplied as weights are, a grid that is added: buffers, which
 * PyTorch's older exporter does not tell from parameters.  Numbers that rise, but not evenly, may be learned. */
static void test_steps(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2,10]\n"
        "const %points : float32[10,2] = {1,1,3,1,5,1,1,3,3,3,5,3,0,2,4,2,8,2,12,2}\n"
        "const %rates : float32[10] = {1,0.5,0.25,0.125,0.0625,0.03125,0.015625,0.0078125,0.00390625,0.001953125}\n"
        "const %distances : float32[10,1] = {0,1,2,3,4,5,6,7,8,9}\n"
        "const %back : float32[10] = {0.9,0.7,0.5,0.3,0.1,-0.1,-0.3,-0.5,-0.7,-0.9}\n"
        "const %uneven : float32[10] = {0,1,2,4,7,8,9,11,14,15}\n const %short : float32[10] = {0,1,0,2,0,3,0,4,0,5}\n"
        "const %head.weight : float32[10,1] = {0,1,2,3,4,5,6,7,8,9}\n const %flat : int64[2] = {2,10}\n"
        "%p = Reshape(%points, %flat)\n %a = Sub(%p, %x)\n %b = Mul(%a, %rates)\n %c = Add(%b, %back)\n"
        "%d = Add(%c, %uneven)\n %e = Add(%d, %short)\n %y = MatMul(%e, %distances)\n %z = MatMul(%e, %head.weight)\n"
        "output \"y\" = %y\n output \"z\" = %z }";

    check(text, "pytorch", NULL, "points-? rates-? distances-? back-? uneven+? short+? head.weight+");
    check(text, "", NULL, "uneven+ short+ head.weight+ distances+ rates+");
}

/* The scale of attention as PyTorch's default exporter writes it is no parameter; one that scales a factor alone may
 * be. */
static void test_scale(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2,3]\n const %w : float32[3,3] = {1,2,3,4,5,6,7,8,9}\n"
        "const %val_59 : float32[1] = {0.42044820762685725}\n"
        "const %val_60 : float32[1] = {0.42044820762685725}\n"
        "%h = MatMul(%x, %w)\n %t = Transpose(%h) {perm=[1,0]}\n %q = Mul(%h, %val_59)\n"
        "%k = Mul(%val_59, %t)\n %s = MatMul(%q, %k)\n %p = Softmax(%s)\n %u = Mul(%h, %val_60)\n"
        "%y = MatMul(%p, %u)\n output \"y\" = %y }";

    const Mark mark[] = { { "val_59", ORIGIN_INITIALIZER, EVIDENCE_NONE, "['bank', 'val_0']" },
                          { "val_60", ORIGIN_INITIALIZER, EVIDENCE_NONE, "['bank', 'val_0']" },
                          { NULL, 0, 0, NULL } };

    check(text, "pytorch", mark, "val_59- val_60+?");
}

/* PyTorch's newer exporter describes what it did not touch, and says from what it computed the rest. */
static void test_said(void)
{
    const Mark mark[] = { { "pos", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                          { "encoder.pe", ORIGIN_INITIALIZER, EVIDENCE_BUFFER, NULL },
                          { "waves", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                          { "attn.ones", ORIGIN_INITIALIZER, EVIDENCE_NONE, "['g.weight', 'val_1']" },
                          { "swin", ORIGIN_INITIALIZER, EVIDENCE_NONE, "['val_3', 'val_4']" },
                          { NULL, 0, 0, NULL } };
    const Mark ours[] = { { "pos", ORIGIN_INITIALIZER, EVIDENCE_FIXED, NULL },
                          { "waves", ORIGIN_INITIALIZER, EVIDENCE_TRAINED, NULL },
                          { NULL, 0, 0, NULL } };

    check(values, "pytorch", mark, "pos+ encoder.pe- waves+? attn.ones+ swin-");
    check(values, "dpexec", ours, "pos- waves+ swin-");
}

static void test_folded(void)
{
    static const struct {
        const char *from;
        NameMeaning meaning;
    } cases[] = {
        { "['fc.weight']", MEANS_PARAMETER },
        { "['val_3', 'val_10']", MEANS_BUFFER },
        { "['bank', 'val_0']", MEANS_NOTHING },
        { "['arange_1', 'add', 'convert_element_type_default', 'val_2']", MEANS_BUFFER },
        { "['conv2d_1', 'val_24']", MEANS_BUFFER },
        { "['m.inv_freq', 'unsqueeze']", MEANS_BUFFER },
        { "['add', 'm.wpe.weight']", MEANS_PARAMETER },
    };

    static const struct {
        const char *from;
        NameMeaning meaning;
    } told[] = { { "['add', 'bn.weight', 'rsqrt', 'val_1']", MEANS_BUFFER },
                 { "['bn.weight', 'k']", MEANS_BUFFER },
                 { "['bn.weight', 'w']", MEANS_PARAMETER },
                 { "['bn.weight', 'other.weight']", MEANS_PARAMETER } };
    Graph *g = graph_create("signed");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (folded_meaning(g, cases[i].from) != cases[i].meaning)
            TEST_FAIL("%s: found %d", cases[i].from, (int)folded_meaning(g, cases[i].from));
    g->signature =
        "p_w: PARAMETER target='w'\nb_bn_weight: BUFFER target='bn.weight'\nc_k: CONSTANT_TENSOR target='k'\n";
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (folded_meaning(g, told[i].from) != told[i].meaning)
            TEST_FAIL("%s: found %d", told[i].from, (int)folded_meaning(g, told[i].from));
    graph_free(g);
}

/* Sines and cosines of positions, as frameworks lay them out: in pairs or halves, with a sine too many, with rows of
 * zeros for padding, in columns; as PatchTST does with its mean taken off and divided.  `noise`: as after training. */
static Looks looks_of(int64_t rows, int64_t width, bool pairs, int zeros, bool columns, double noise, double mean,
                      double divisor)
{
    Arena *a = arena_create();
    Shape s = columns ? SHAPE(width, rows) : SHAPE(rows, width);
    Tensor *t = tensor_create(a, DT_FLOAT32, &s);
    const int64_t sines = (width + 1) / 2;
    Looks looks;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) {
            const bool cosine = pairs ? k % 2 : k >= sines;
            const double x = (double)(i + 1) * pow(1e4, -(double)(pairs ? k / 2 : k % sines) / (double)sines);
            const double v = (cosine ? cos(x) : sin(x)) + noise * (double)(i * 7 % 5 + k * 3 % 7);

            tensor_set_float(t, columns ? k * rows + i : i * width + k, i < zeros ? 0 : (v - mean) / divisor);
        }
    looks = tensor_looks(t);
    arena_free(a);
    return looks;
}

static void test_waves(void)
{
    for (int k = 0; k < 32; k++) {
        const int64_t width = 8 + (k & 1);
        const int zeros = k >> 1 & 3;

        for (int way = 0; way < 3; way++) {
            const double mean = way ? 0.37 : 0, divisor = way ? way == 1 ? 5.2 : 0.04 : 1;

            if (looks_of(12, width, k & 8, zeros, k & 16, 0, mean, divisor) != LOOKS_WAVES)
                TEST_FAIL("table %d is none of sines, (v - %g) / %g", k, mean, divisor);
            if (looks_of(12, width, k & 8, zeros, k & 16, 0.01, mean, divisor) != LOOKS_PLAIN)
                TEST_FAIL("table %d is one of sines, though it was trained, (v - %g) / %g", k, mean, divisor);
        }
    }
    if (looks_of(12, 8, true, 7, false, 0, 0, 1) != LOOKS_PLAIN ||
        looks_of(12, 3, true, 0, false, 0, 0, 1) != LOOKS_PLAIN)
        TEST_FAIL("zeros, or three numbers a row, are taken for sines");
}

/* Pairs of two numbers, whichever, are on a circle; so is anything of few pairs, but for a third number. */
static void test_no_waves(void)
{
    Arena *a = arena_create();

    for (int k = 0; k < 64; k++) {
        Shape s = SHAPE(12, 8);
        Tensor *two = tensor_create(a, DT_FLOAT32, &s), *many = tensor_create(a, DT_FLOAT32, &s);

        for (int64_t i = 0; i < tensor_numel(two); i++) {
            const uint64_t r = (uint64_t)(i + 1) * (uint64_t)(2 * k + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40;

            tensor_set_float(two, i, r & 1 ? 0.7 : -0.3);
            tensor_set_float(many, i, (double)r * 0x1p-24 - 0.5);
        }
        if (tensor_looks(two) == LOOKS_WAVES)
            TEST_FAIL("a table of two numbers is taken for sines, %d", k);
        if (tensor_looks(many) == LOOKS_WAVES)
            TEST_FAIL("a table of random numbers is taken for sines, %d", k);
    }
    arena_free(a);
}

/* ---- what the user says ---- */

static void test_patterns(void)
{
    const char *const freeze[] = { "*" }, *const train[] = { "waves", "swin" };
    ParameterBuild opt = { .build.mode = BUILD_TRAIN,
                           .parameters.freeze = freeze,
                           .parameters.n_freeze = 1,
                           .parameters.train = train,
                           .parameters.n_train = 2 };
    Report *r = decisions(values, "pytorch", NULL, parameter_build(&opt));

    check_decisions(r, "waves+ swin+ pos- inf-");
    report_free(r);
    if (pattern_rule(parameter_build(&(ParameterBuild){ .parameters.freeze = train,
                                                        .parameters.n_freeze = 1,
                                                        .parameters.train = train,
                                                        .parameters.n_train = 1 }),
                     "waves", NULL) != PATTERN_FREEZE)
        TEST_FAIL("of two equal patterns --freeze decides");
}

static const char linear[] = "graph \"g\" { input %x : float32[2,2]\n const %val_5 : float32[2,3] = {1,3,5,2,4,6}\n "
                             "const %fc.bias : float32[3] = {7,8,9}\n"
                             "const %pe : float32[3] = {1,2,4}\n %a = MatMul(%x, %val_5)\n %b = Add(%a, %fc.bias)\n %y "
                             "= Add(%b, %pe)\n output \"y\" = %y }";

static Status with_list(Report *r, const char *path)
{
    ParameterBuild opt = { .build.mode = BUILD_TRAIN };
    Graph *g = read_graph(linear, "pytorch", NULL);
    Arena *a = arena_create();
    Status st = parameter_list_read(&opt.parameters.parameters, a, path);

    if (!st)
        st = find(g, parameter_build(&opt), r);
    graph_free(g);
    arena_free(a);
    return st;
}

static void test_state_dict(void)
{
    char path[] = "/tmp/dpexec-parameters-XXXXXX.safetensors";
    float weight[] = { 1, 2, 3, 4, 5, 6 }, bias[] = { 7, 8, 9 }, other[] = { 1, 1, 2 };
    int64_t count = 3;
    NamedTensor list[] = { { "fc.weight", { DT_FLOAT32, SHAPE(3, 2), weight } },
                           { "fc.bias", { DT_FLOAT32, SHAPE(3), bias } },
                           { "bn.num_batches_tracked", { DT_INT64, shape_scalar(), &count } },
                           { "bn.running_mean", { DT_FLOAT32, SHAPE(3), other } },
                           { "bn.weight", { DT_FLOAT32, SHAPE(3), other } } };
    Report *r = report_create();
    int fd = mkstemps(path, 12);

    if (fd < 0 || close(fd) || remove(path))
        TEST_FAIL("%s: cannot be made", path);
    if (CHECK_OK(safetensors_write(path, list, 4, NULL, NULL, NULL)) && CHECK_OK(with_list(r, path)))
        check_decisions(r, "val_5+ fc.bias+ pe-");
    remove(path);
    if (CHECK_OK(safetensors_write(path, list, 5, NULL, NULL, NULL)))
        CHECK_FAILS(E_INVALID, "'bn.weight'", with_list(r, path));
    remove(path);
    report_free(r);
}

static void test_name_list(void)
{
    char path[] = "/tmp/dpexec-parameters-XXXXXX";
    Report *r = report_create();
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

    if (!f) {
        TEST_FAIL("%s: cannot be made", path);
        return;
    }
    fprintf(f, "# of the head\n  val_5 \r\n\npe\n");
    fclose(f);
    if (CHECK_OK(with_list(r, path)))
        check_decisions(r, "val_5+ fc.bias- pe+");
    f = fopen(path, "a");
    fprintf(f, "fc.weight\n");
    fclose(f);
    CHECK_FAILS(E_INVALID, "'fc.weight'", with_list(r, path));
    remove(path);
    report_free(r);
}

/* ---- what exporters lose ---- */

static const char convs[] = "graph \"g\" { input %x : float32[2,1,3,3]\n const %a.weight : float32[1,1,1,1] = {2}\n "
                            "const %b.weight : float32[1,1,1,1] = {3}\n"
                            "const %c.weight : float32[1,1,1,1] = {4}\n %a = Conv(%x, %a.weight)\n %b = Conv(%a, "
                            "%b.weight)\n %c = Conv(%b, %c.weight)\n"
                            "output \"y\" = %c }";

static void test_exporter(void)
{
    const Mark described[] = { { "a.weight", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                               { "b.weight", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                               { "c.weight", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                               { NULL, 0, 0, NULL } };
    const Mark folded[] = { { "a.weight", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL }, { NULL, 0, 0, NULL } };
    const struct {
        const char *producer;
        const Mark *mark;
        const char *note;
    } cases[] = {
        { "pytorch", NULL, NULL },      /* the older exporter renames what it folds into */
        { "pytorch", described, NULL }, /* a squeezenet */
        { "pytorch", folded, "2 of 3 convolutions" },
        { "", NULL, "if the model had any" },
        { "dpexec", NULL, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Report *r = decisions(convs, cases[i].producer, cases[i].mark, NULL);
        const char *const wanted[] = { cases[i].note, NULL };

        check_notes(r, NOTE_EXPORTER, wanted);
        report_free(r);
    }
}

/* Embedding(3, 2, padding_idx=0) and what only resembles one: the rows are trained and looked up by the input. */
/* w ends at Round, of the others the bound is a parameter by its name and the filling value by nothing. */
static const char unreached[] =
    "graph \"g\" { input %x : float32[2,3]\n const %fc.weight : float32[3,3] = {1,2,3,4,5,6,7,8,1}\n"
    "const %q.weight : float32[3,3] = {1,2,3,4,5,6,7,8,9}\n const %act.scale : float32[] = {3}\n"
    "const %fill : float32[] = {0.5}\n const %pads : int64[4] = {0,1,0,1}\n const %low : float32[] = {0.25}\n"
    "%h = MatMul(%x, %fc.weight)\n %c = Clip(%h, %low, %act.scale)\n %r = Round(%q.weight)\n %m = MatMul(%c, %r)\n"
    "%p = Pad(%m, %pads, %fill)\n output \"y\" = %p }";

static void check_refused(const BuildOptions *opt, const char *message)
{
    Graph *g = read_graph(unreached, "pytorch", NULL);

    if (g)
        CHECK_FAILS(E_INVALID, message, find(g, opt, NULL));
    graph_free(g);
}

static void test_unreached(void)
{
    const ParameterKey key[] = { { .name = "q.weight" }, { .name = "fc.weight" } };
    const ParameterList list = { "list.txt", key, 1 }, both = { "list.txt", key, 2 };
    const char *const all[] = { "*" }, *const one[] = { "q.*" }, *const fill[] = { "fill" };
    const Mark literal[] = { { "low", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                             { "fill", ORIGIN_NODE, EVIDENCE_NONE, NULL },
                             { NULL, 0, 0, NULL } };
    ParameterBuild opt = { .build.mode = BUILD_TRAIN, .parameters.train = all, .parameters.n_train = 1 };
    Report *r = decisions(unreached, "pytorch", literal, NULL);

    check_decisions(r, "fc.weight+ q.weight- act.scale+ low- fill-");
    check_notes(r, NOTE_NO_GRADIENT, (const char *const[]){ "not trained: the path to the loss ends at Round", NULL });
    report_free(r);
    r = decisions(unreached, "", literal, NULL);
    check_decisions(r, "fc.weight+ act.scale+? low- fill-");
    report_free(r);
    r = decisions(unreached, "pytorch", literal,
                  parameter_build(&opt)); /* a wildcard means no numbers of the code, a name does */
    check_decisions(r, "fc.weight+ q.weight- act.scale+ low- fill-");
    check_notes(
        r, NOTE_OTHER,
        (const char *const[]){ "also matches tensors that no gradient reaches; they stay fixed: 'q.weight'", NULL });
    report_free(r);
    opt.parameters.train = fill;
    r = decisions(unreached, "pytorch", literal, parameter_build(&opt));
    check_decisions(r, "fill+ low-");
    report_free(r);
    opt.parameters.train = one;
    check_refused(
        parameter_build(&opt),
        "--train 'q.*' trains nothing: 'q.weight': no gradient reaches it: its path to the outputs ends at Round");
    opt = (ParameterBuild){ .build.mode = BUILD_TRAIN, .parameters.parameters = &list };
    check_refused(parameter_build(&opt), "--parameters list.txt trains nothing: 'q.weight'");
    opt.parameters.parameters = &both;
    r = decisions(unreached, "pytorch", literal, parameter_build(&opt));
    check_decisions(r, "fc.weight+ q.weight-");
    check_notes(r, NOTE_NO_GRADIENT, (const char *const[]){ "not trained: the path to the loss ends at Round", NULL });
    report_free(r);
}

/* The weights of classes multiply terms; a scale of the scores has a logarithm behind it, and other outputs see the
 * first. */
static const char weighed[] =
    "graph \"g\" { input %x : float32[2,3]\n input %t : float32[2,5]\n const %fc.weight : float32[3,5] = all 0.5\n"
    "const %crit.weight : float32[5] = {1,2,3,4,9}\n const %crit.temper : float32[5] = {1,2,3,4,9}\n"
    "const %crit.norm : float32[5] = {1,2,3,4,9}\n const %out.weight : float32[5] = {1,2,3,4,9}\n"
    "%h = MatMul(%x, %fc.weight)\n %y = Mul(%h, %out.weight)\n %s = Mul(%y, %crit.temper)\n %p = Sigmoid(%s)\n"
    "%l = Log(%p)\n %e = Mul(%l, %t)\n %w = Mul(%e, %crit.weight)\n %v = Mul(%w, %crit.norm)\n"
    "%a = ReduceMean(%v) {keepdims=0}\n %n = ReduceMean(%crit.norm) {keepdims=0}\n %loss = Div(%a, %n)\n"
    "output \"scores\" = %y\n output \"loss\" = %loss }";

static void test_loss_weights(void)
{
    const Mark said[] = { { "crit.weight", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                          { "crit.norm", ORIGIN_INITIALIZER, EVIDENCE_BUFFER, NULL },
                          { NULL, 0, 0, NULL } };

    check(weighed, "pytorch", NULL, "fc.weight+ out.weight+ crit.weight-? crit.norm-? crit.temper+?");
    check(weighed, "", NULL, "fc.weight+ out.weight+ crit.weight-? crit.norm-? crit.temper+?");
    check(weighed, "pytorch", said, "fc.weight+ crit.weight+ crit.norm- crit.temper+?");
}

static void test_padding(void)
{
    const struct {
        const char *table, *index, *freeze, *note;
    } cases[] = {
        { "{0,0,1,2,3,4}", "%y = Gather(%emb, %x)", NULL, "row 0 of 'emb' is zero, as PyTorch's padding_idx" },
        { "{1,2,0,0,3,4}", "%y = Gather(%emb, %x)\n %z = Gather(%emb, %x)", NULL, "row 1 of 'emb' is zero" },
        { "{1,2,0,0,3,4}", "%c = Cast(%x) {to=6}\n %y = Gather(%emb, %c)", NULL, "row 1 of 'emb' is zero" },
        { "{1,2,3,4,0,0}", "%m = Less(%x, %two)\n %c = Where(%m, %x, %two)\n %y = Gather(%emb, %c)", NULL,
          "row 2 of 'emb' is zero" },
        { "{0,0,1,2,3,4}", "%q = Mul(%more, %emb)\n %a = Gather(%emb, %x)\n %b = Gather(%more, %x)\n %y = Add(%a, %b)",
          NULL, "row 0 of 'emb' (and a row of 1 other table) is zero" },
        { "{0,0,1,2,0,0}", "%y = Gather(%emb, %x)", NULL, "row 0 of 'emb' is zero, as PyTorch's padding_idx" },
        { "{1,2,0,0,0,0}", "%y = Gather(%emb, %x)", NULL, "row 1 of 'emb' is zero" },
        { "{0,0,1,2,3,4}", "%y = Gather(%emb, %x)", "emb", NULL },  /* not trained */
        { "{0,1,1,0,3,4}", "%y = Gather(%emb, %x)", NULL, NULL },   /* no row */
        { "{0,0,0,0,0,0}", "%y = Gather(%emb, %x)", NULL, NULL },   /* a fresh table of zeros */
        { "{0,0,1,2,3,4}", "%y = Gather(%emb, %two)", NULL, NULL }, /* the same rows always */
        { "{0,0,1,2,3,4}", "%y = Gather(%emb, %x) {axis=1}", NULL, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const wanted[] = { cases[i].note, NULL }, *const freeze[] = { cases[i].freeze };
        ParameterBuild opt = { .build.mode = BUILD_TRAIN,
                               .parameters.freeze = freeze,
                               .parameters.n_freeze = cases[i].freeze != NULL };
        const Mark said[] = { { "emb", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                              { "more", ORIGIN_INITIALIZER, EVIDENCE_PARAMETER, NULL },
                              { NULL, 0, 0, NULL } };
        char text[1024];
        Report *r;

        snprintf(text, sizeof text,
                 "graph \"g\" { input %%x : int64[4]\n const %%emb : float32[3,2] = %s\n const %%two : int64[4] = all "
                 "2\n const %%more : float32[3,2] = {1,2,3,4,0,0}\n %s\n output \"y\" = %%y }",
                 cases[i].table, cases[i].index);
        r = decisions(text, "", said, parameter_build(&opt));
        check_notes(r, NOTE_EXPORTER, wanted);
        report_free(r);
    }
}

/* The forms in which code writes y = round(x) with the gradient of x, without their detach(), and others that are none.
 */
static void test_lost_detach(void)
{
    const struct {
        const char *form, *note;
    } cases[] = {
        { "%d = Sub(%q, %p)\n %y = Add(%p, %d)", "--stop-gradient 'd>last'" },
        { "%d = Sub(%q, %p)\n %y = Add(%d, %p)", "--stop-gradient 'd>last'" },
        { "%d = Sub(%p, %q)\n %y = Sub(%p, %d)", "--stop-gradient 'd>last'" },
        { "%d = Add(%p, %q)\n %y = Sub(%d, %p)", "--stop-gradient 'p>last'" },
        { "%d = Add(%q, %p)\n %y = Sub(%d, %p)", "--stop-gradient 'p>last'" },
        { "%d = Sub(%p, %q)\n %y = Add(%p, %d)", NULL }, /* 2 p - q */
        { "%d = Add(%p, %q)\n %y = Add(%p, %d)", NULL },
        { "%d = Sub(%q, %p)\n %y = Sub(%d, %p)", NULL }, /* q - 2 p */
        { "%d = Sub(%q, %p)\n %y = Sub(%p, %d)", NULL },
        { "%d = Mul(%q, %p)\n %y = Sub(%d, %p)", NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const wanted[] = { cases[i].note, NULL };
        char text[1024];
        Report *r;

        snprintf(
            text, sizeof text,
            "graph \"g\" { input %%x : float32[4]\n const %%w : float32[4] = {1,2,3,4}\n %%p = Mul(%%x, %%w)\n %%q = "
            "Round(%%p)\n %s \"last\"\n output \"y\" = %%y }",
            cases[i].form);
        r = decisions(text, "", NULL, NULL);
        check_notes(r, NOTE_EXPORTER, wanted);
        report_free(r);
    }
}

static void test_summary(void)
{
    Report *r = decisions(values, "pytorch", NULL, NULL);
    char text[REPORT_SUMMARY];

    report_summary(text, r);
    CHECK_STR("trains 16 parameters in 1 tensor; 5 constants are fixed", text);
    check_notes(r, NOTE_GUESS,
                (const char *const[]){ "guessed to be parameters: 'pos'; --freeze",
                                       "guessed to be constants: 'waves', 'encoder.pe'; --train", NULL });
    report_free(r);
}

DEFINE_SUITE(parameters, { "reach", test_reach }, { "colours", test_colours }, { "origin", test_origin },
             { "values", test_values }, { "steps", test_steps }, { "scale", test_scale }, { "said", test_said },
             { "folded", test_folded }, { "waves", test_waves }, { "no waves", test_no_waves },
             { "patterns", test_patterns }, { "state_dict", test_state_dict }, { "name_list", test_name_list },
             { "exporter", test_exporter }, { "padding", test_padding }, { "lost detach", test_lost_detach },
             { "summary", test_summary }, { "norms as formulas", test_norm_formulas }, { "unreached", test_unreached },
             { "loss weights", test_loss_weights });
