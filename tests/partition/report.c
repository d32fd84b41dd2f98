/* What the user is told. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"
#include "passes/build_options.h"

extern const Pass pass_autodiff;

static const char unreached[] = "graph \"g\" {\n"
                                "  input %x : float32[4,2]\n"
                                "  state %w trainable : float32[2] = {1, 2}\n"
                                "  state %rounded trainable : float32[2] = {1, 2}\n"
                                "  state %unused trainable : float32[3] = {1, 2, 3}\n"
                                "  state %aside trainable : float32[2] = {1, 2}\n"
                                "  %s = Mul(%x, %aside)\n"
                                "  %n = Exp(%s) \"a head\"\n"
                                "  %f = Floor(%rounded) \"the floor\"\n"
                                "  %y = Mul(%x, %w)\n"
                                "  %z = Add(%y, %f)\n"
                                "  %loss = ReduceSum(%z) {keepdims=0}\n"
                                "  output \"loss\" = %loss\n"
                                "}\n";

static const char *note_of(const Report *r, NoteKind kind, const char *subject)
{
    for (int i = 0; i < r->n_note; i++)
        if (r->note[i].kind == kind && !strcmp(r->note[i].subject, subject))
            return r->note[i].text;
    return "";
}

static void test_unreached_parameters(void)
{
    Graph *g = NULL;
    Report *r = report_create();
    PassCtx ctx = { .scratch = arena_create(), .opt = &(BuildOptions){ .mode = BUILD_TRAIN }, .report = r };

    if (CHECK_OK(graph_parse(&g, unreached, strlen(unreached))) && CHECK_OK(pass_autodiff.run(g, &ctx))) {
        CHECK_STR("", note_of(r, NOTE_NO_GRADIENT, "w"));
        CU_ASSERT_PTR_NOT_NULL(
            strstr(note_of(r, NOTE_NO_GRADIENT, "rounded"), "shape [2]: the path to the loss ends at Floor the floor"));
        CHECK_STR("shape [3]: the forward pass does not use it", note_of(r, NOTE_NO_GRADIENT, "unused"));
        CHECK_STR("shape [2]: used, but not for the loss: its path ends at Exp a head (output 'n')",
                  note_of(r, NOTE_NO_GRADIENT, "aside"));
    }
    graph_free(g);
    report_free(r);
    arena_free(ctx.scratch);
}

static void test_nothing_to_split(void)
{
    static const char text[] = "graph \"g\" {\n"
                               "  input %x : float32[]\n"
                               "  state %w trainable : float32[] = {1}\n"
                               "  %loss = Mul(%x, %w)\n"
                               "  output \"loss\" = %loss\n"
                               "}\n";
    Graph *one = train_graph(text, 1), *many = NULL;
    Report *r = report_create();

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 2, .devices = 2 }, r)))
        CHECK_STR("no input carries the batch: every device computes all of it", note_of(r, NOTE_OTHER, "g"));
    train_check(text, 1, &(Division){ .replicas = 2, .devices = 2 }, 1e-6);
    graph_free(one);
    graph_free(many);
    report_free(r);
}

/* y = x w over 6 samples of 3 values, 4 replicas on 2 devices. */
static const char linear[] = "graph \"g\" {\n"
                             "  input %x : float32[%B,3]\n"
                             "  state %w trainable : float32[3,1] = all 0\n"
                             "  %y = MatMul(%x, %w)\n"
                             "  %loss = ReduceSum(%y) {keepdims=0}\n"
                             "  output \"loss\" = %loss\n"
                             "}\n";

/* 6 samples go to the replicas, the loss and the gradient of w come from the devices as one sum, and the learning rate
 * goes to both; no pass made the update, so it has no phase of its own. */
static void check_step(const Report *r)
{
    static const char *const kind[] = { "scatter", "all-reduce" };
    static const char *const reason[] = { "what the caller gives", "partial sums over the batch are needed whole" };
    static const int phase[] = { PHASE_FORWARD, PHASE_BACKWARD }, tensors[] = { 1, 2 }, bytes[] = { 72, 32 };
    int seen = 0;

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(r->device_of[i], i / 2);
    for (int i = 0; i < r->collectives; i++)
        for (int k = 0; k < 2; k++)
            if (!strcmp(r->collective[i].kind, kind[k])) {
                CHECK_STR(reason[k], r->collective[i].reason);
                CU_ASSERT_EQUAL(r->collective[i].phase, phase[k]);
                CU_ASSERT_EQUAL(r->collective[i].tensors, tensors[k]);
                CU_ASSERT_EQUAL(r->collective[i].bytes, bytes[k]);
                seen++;
            }
    CU_ASSERT_EQUAL(seen, 2);
    CU_ASSERT_EQUAL(r->phase[PHASE_FORWARD].collectives, 1);
    CU_ASSERT_EQUAL(r->phase[PHASE_FORWARD].sent, 72);
    CU_ASSERT_EQUAL(r->phase[PHASE_BACKWARD].collectives, 2);
    CU_ASSERT_EQUAL(r->phase[PHASE_BACKWARD].sent, 32 + 4);
    CU_ASSERT_EQUAL(r->phase[PHASE_UPDATE].nodes, 0);
}

static void test_loads(void)
{
    Graph *one = train_graph(linear, 6), *many = NULL;
    Report *r = report_create();

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 4, .devices = 2, .bucket = true }, r)) &&
        CHECK_OK(report_graph(r, many, &(Target){ 0 }))) {
        CU_ASSERT_EQUAL(r->replicas, 4);
        CU_ASSERT_EQUAL(r->count[0] + r->count[1] + r->count[2] + r->count[3], 6);
        CU_ASSERT_EQUAL(r->n_load, 2);
        for (int d = 0; d < 2 && d < r->n_load; d++) {
            CU_ASSERT_EQUAL(r->load[d].parameters, 3);
            CU_ASSERT_EQUAL(r->load[d].state_bytes, 12);
            CU_ASSERT_EQUAL(r->load[d].sent_bytes, 16); /* gradient and loss, 4 floats: half of them there, half back */
        }
        check_step(r);
    }
    graph_free(one);
    graph_free(many);
    report_free(r);
}

/* A bucket of more tensors than its name has room for lists them all on a line of their own. */
static void test_bucket_of_many(void)
{
    static const char text_of[] = "graph \"g\" {\n"
                                  "  input %x : float32[%B,2]\n"
                                  "  state %v trainable : float32[2] = {1, 2}\n"
                                  "  state %w trainable : float32[2] = {1, 2}\n"
                                  "  state %z trainable : float32[2] = {1, 2}\n"
                                  "  %a = Mul(%x, %v)\n"
                                  "  %b = Mul(%a, %w)\n"
                                  "  %y = Mul(%b, %z)\n"
                                  "  %loss = ReduceSum(%y) {keepdims=0}\n"
                                  "  output \"loss\" = %loss\n"
                                  "}\n";
    Graph *one = train_graph(text_of, 6), *many = NULL;
    Report *r = report_create();
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 2, .devices = 2, .bucket = true }, r)) &&
        CHECK_OK(report_graph(r, many, &(Target){ 0 })) && CHECK_OK(report_print(r, f))) {
        fflush(f);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, " in 4 tensors"));
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n                           of z, w, v, loss\n"));
    }
    fclose(f);
    free(text);
    graph_free(one);
    graph_free(many);
    report_free(r);
}

/* The softmax over the batch makes its rows whole on every device: what that costs is told with it. */
static const char mixing[] = "graph \"g\" {\n"
                             "  input %x : float32[%B,2]\n"
                             "  state %w trainable : float32[2] = {1, 2}\n"
                             "  %h = Mul(%x, %w)\n"
                             "  %y = Softmax(%h) {axis=0} \"over all\"\n"
                             "  %z = Mul(%y, %x)\n"
                             "  %loss = ReduceSum(%z) {keepdims=0}\n"
                             "  output \"loss\" = %loss\n"
                             "}\n";

static void test_mixing(void)
{
    Graph *one = train_graph(mixing, 6), *many = NULL;
    Report *r = report_create();
    int forward = 0;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (one && CHECK_OK(train_divide(&many, one, &(Division){ .replicas = 2, .devices = 2 }, r)) &&
        CHECK_OK(report_graph(r, many, &(Target){ 0 })) && CHECK_OK(report_print(r, f))) {
        for (int i = 0; i < r->collectives; i++)
            if (r->collective[i].phase == PHASE_FORWARD && r->collective[i].subject) {
                CHECK_STR("over all", r->collective[i].subject);
                CHECK_STR("over all mixes samples of the batch", r->collective[i].reason);
                forward++;
            }
        CU_ASSERT(forward >= 1);
        fflush(f);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "; costs "));
    }
    fclose(f);
    free(text);
    graph_free(one);
    graph_free(many);
    report_free(r);
}

static void test_json(void)
{
    Report *r = report_create();
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    json_t *doc, *notes;

    CHECK_OK(report_note(r, NOTE_MIXES, "a \"node\"\n\x01\xff", "why \\ not"));
    CHECK_OK(report_note(r, NOTE_OTHER, "b", "%d", 1));
    CHECK_OK(report_print_json(r, f));
    fclose(f);
    doc = json_loadb(text, len, 0, NULL);
    notes = json_object_get(doc, "mixes");
    CU_ASSERT_EQUAL(json_array_size(notes), 1);
    CHECK_STR("why \\ not", json_string_value(json_object_get(json_array_get(notes, 0), "text")));
    CU_ASSERT_EQUAL(json_array_size(json_object_get(doc, "notes")), 1);
    json_decref(doc);
    free(text);
    report_free(r);
}

/* A full disk is an error, not a short report. */
static void test_write_failure(void)
{
    Report *r = report_create();
    FILE *full = fopen("/dev/full", "w");

    CHECK_OK(report_note(r, NOTE_OTHER, "a", "b"));
    if (full) {
        CHECK_FAILS(E_IO, "could not be written", report_print(r, full));
        fclose(full);
    }
    report_free(r);
}

DEFINE_SUITE(report, { "parameters without a gradient", test_unreached_parameters },
             { "nothing to split", test_nothing_to_split }, { "loads", test_loads }, { "mixing", test_mixing },
             { "a bucket of many tensors", test_bucket_of_many }, { "JSON", test_json },
             { "write failure", test_write_failure });
