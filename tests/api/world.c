/* Worlds: their processes are threads of this one, which share nothing but the connections. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/api/api.h"
#include "tests/harness/gpu.h"
#include "tests/harness/port.h"

enum { RANKS = 2, STEPS = 6, PARAMETERS = 1 << 16 };

/* What a rank does otherwise than the others; GROWS: what all do, whose third batch is of four samples, the rest of
 * three; BY_TREE: all have six replicas and are reproducible; IN_CALL: rank 1 gives up when the others have no step
 * under way; from IN_PIECES on, of several processes each has a piece of the momentum: all read it, rank 1 sets what it
 * begins with, or is alone in reading, saving or exporting it (parameters are in pieces then too); RESUMES_WHOLE and
 * RESUMES: all go on from `folder`, and evaluate before they train, for nothing is compiled until then; of the former
 * rank 1 sets what the momentum goes on with. */
typedef enum {
    ALIKE,
    OTHER_LR,
    OTHER_STATE,
    OTHER_STEP,
    OTHER_MODEL,
    GIVES_UP,
    BAD_BATCH,
    STALLS,
    MISTYPES,
    GROWS,
    BY_TREE,
    IN_CALL,
    RESUMES_WHOLE,
    IN_PIECES,
    OTHER_PIECES,
    RESUMES,
    READS_ALONE,
    SAVES_ALONE,
    EXPORTS_ALONE
} Fault;

typedef struct {
    int rank;
    const char *devices, *rendezvous, *folder; /* folder: what of another run is in, for faults of that kind */
    Fault fault;
    double timeout;
    bool at_once; /* every step's result before the next begins */
    dpx_status status;
    char message[2048], warning[2048];
    double loss[STEPS];
    float weight[PARAMETERS];
    size_t n_weight;
    int64_t read[2]; /* of a checkpoint: by the evaluation, by all steps */
} Process;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dpx_status set(dpx_options *o, const char *name, const char *value) { return dpx_options_set(o, name, value); }

static dpx_status read_weights(Process *p, dpx_trainer *t)
{
    for (int i = 0; i < dpx_trainer_state_count(t); i++) {
        dpx_tensor view;
        dpx_info info;
        size_t n = 1;
        dpx_status st = dpx_trainer_state_info(t, i, &info);

        for (int k = 0; k < info.rank; k++)
            n *= (size_t)info.dim[k];
        if (st || info.dtype != DPX_FLOAT32 || !(info.trainable || p->fault == IN_PIECES || p->fault == RESUMES) ||
            p->n_weight + n > PARAMETERS)
            continue;
        view =
            (dpx_tensor){ .name = info.name, .dtype = info.dtype, .rank = info.rank, .data = p->weight + p->n_weight };
        memcpy(view.dim, info.dim, sizeof view.dim);
        if ((st = dpx_trainer_get_state(t, info.name, &view)))
            return st;
        p->n_weight += n;
    }
    return DPX_OK;
}

/* Of a parameter, or of what is kept beside one. */
static dpx_status disturb_state(dpx_trainer *t, int trainable)
{
    static float zero[PARAMETERS];
    dpx_info info;
    dpx_tensor view;
    int i = 0;

    do {
        dpx_status st = dpx_trainer_state_info(t, i++, &info);

        if (st)
            return st;
    } while (info.trainable != trainable || info.rank != 2);
    view = (dpx_tensor){ .name = info.name, .dtype = info.dtype, .rank = info.rank, .data = zero };
    memcpy(view.dim, info.dim, sizeof view.dim);
    return dpx_trainer_set_state(t, info.name, &view);
}

/* Rank 1 reads, saves or exports what rank 0, which is busy elsewhere, has a piece of. */
static dpx_status read_alone(const Process *p, dpx_trainer *t)
{
    static float momentum[PARAMETERS];
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { 128, 64 }, .data = momentum };

    char path[300];

    snprintf(path, sizeof path, "%s/alone.onnx", p->folder ? p->folder : "");
    if (!p->rank)
        sleep(4);
    if (p->fault == SAVES_ALONE)
        return dpx_trainer_save(t, p->folder, NULL);
    if (p->fault == EXPORTS_ALONE)
        return dpx_trainer_export(t, path);
    return dpx_trainer_get_state(t, "fc1.weight.momentum", p->rank ? &view : NULL);
}

/* A name that no state has, and a shape that it has not: both are refused. */
static dpx_status mistype(dpx_trainer *t)
{
    float x = 0;
    dpx_tensor view = { .dtype = DPX_FLOAT32, .rank = 1, .dim = { 1 }, .data = &x };

    return dpx_trainer_set_state(t, "fc1.wieght", &view) != DPX_INVALID ||
                   dpx_trainer_set_state(t, "fc1.weight", &view) != DPX_SHAPE
               ? DPX_INTERNAL
               : DPX_OK;
}

static bool resumes(const Process *p) { return p->fault == RESUMES || p->fault == RESUMES_WHOLE; }

static dpx_status go_on(Process *p, dpx_trainer *t)
{
    dpx_status st = dpx_trainer_resume(t, p->folder, NULL);
    dpx_result r;
    Batch b;

    make_batch(&b, 99);
    if (!st && p->fault == RESUMES_WHOLE && p->rank)
        st = disturb_state(t, 0);
    if (!st)
        st = dpx_val_step(t, b.tensor, 2, &r);
    p->read[0] = dpx_trainer_bytes_resumed(t);
    return st;
}

static dpx_status train(Process *p, dpx_trainer *t, dpx_world *w)
{
    dpx_status st = p->fault == OTHER_STATE               ? disturb_state(t, 1)
                    : p->fault == OTHER_PIECES && p->rank ? disturb_state(t, 0)
                    : p->fault == OTHER_STEP              ? dpx_trainer_resume(t, p->folder, NULL)
                    : resumes(p)                          ? go_on(p, t)
                                                          : DPX_OK;
    dpx_result r;
    Batch b;

    for (int k = 0; k < STEPS && !st; k++) {
        make_batch(&b, (unsigned)k + 1);
        if (p->fault == GROWS)
            b.tensor[0].dim[0] = b.tensor[1].dim[0] = k == 2 ? 4 : 3;
        if (k == 2 && p->fault == GIVES_UP) {
            dpx_world_abort(w, "the coffee is finished");
            return DPX_IO;
        }
        if (k == 4 && p->fault == IN_CALL) {
            int64_t most;

            if (!p->rank)
                return dpx_world_max(w, 0, &most);
            dpx_world_abort(w, "the tea is finished");
            return DPX_IO;
        }
        if (k == 2 && p->fault == BAD_BATCH)
            b.tensor[0].rank = 1;
        if (k == 3 && p->fault == STALLS) /* its steps are captured: nothing is agreed on before it */
            sleep(10);
        if (k == 3 && p->fault == MISTYPES)
            st = mistype(t);
        if (!st)
            st = dpx_train_step(t, b.tensor, 2,
                                p->at_once ? &r : NULL); /* else its result is taken after the next has begun */
        if (!st && k && !p->at_once)
            st = dpx_train_result(t, &r);
        if (!st && k && !p->at_once)
            p->loss[k - 1] = r.loss;
    }
    if (!st && !p->at_once && !(st = dpx_train_result(t, &r)))
        p->loss[STEPS - 1] = r.loss;
    p->read[1] = dpx_trainer_bytes_resumed(t);
    if (!st && p->fault >= READS_ALONE)
        return read_alone(p, t);
    return st ? st : read_weights(p, t);
}

static void keep_warning(void *user, int level, const char *line)
{
    Process *p = user;

    if (level == DPX_LOG_WARNING)
        snprintf(p->warning, sizeof p->warning, "%s", line);
}

static dpx_status run_in(Process *p, dpx_options *o, dpx_world *w, dpx_model *m)
{
    static const char *const settings[][2] = {
        { "loss", "cross-entropy" }, { "lr", "0.1" }, { "momentum", "0.9" }, { "threads", "1" }, { "batch-size", "6" }
    };
    dpx_trainer *t;
    dpx_status st = set(o, "devices", p->devices);

    for (size_t i = 0; i < sizeof settings / sizeof *settings - resumes(p) && !st; i++)
        st = set(o, settings[i][0], settings[i][1]);
    if (!st && p->fault == GROWS)
        st = set(o, "batch-size", "3");
    if (!st && p->fault == BY_TREE && !(st = set(o, "replicas", "6")))
        st = set(o, "reproducible", "true");
    if (!st && p->fault >= IN_PIECES && p->rendezvous)
        st = set(o, "shard", p->fault == EXPORTS_ALONE ? "parameters" : "optimizer");
    if (!st && p->fault == OTHER_LR)
        st = set(o, "lr", "0.2");
    if (!st)
        st = dpx_trainer_create(&t, m, o, keep_warning, p);
    if (st)
        return st;
    st = train(p, t, w);
    if (st)
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_trainer_free(t);
    return st;
}

static void *run(void *arg)
{
    Process *p = arg;
    dpx_world_options how = { .size = RANKS, .rank = p->rank, .rendezvous = p->rendezvous, .timeout = p->timeout };
    dpx_options *o = dpx_options_create();
    dpx_world *w = NULL;
    dpx_model *m = NULL;
    char other[300];

    snprintf(other, sizeof other, "%s/model.onnx", p->folder ? p->folder : "");
    if (!(p->status = dpx_model_load(&m, p->fault == OTHER_MODEL ? other : MLP)) && p->rendezvous)
        p->status = dpx_world_join(&w, &how);
    dpx_options_set_world(o, w);
    if (!p->status)
        p->status = run_in(p, o, w, m);
    if (p->status && !*p->message)
        snprintf(p->message, sizeof p->message, "%s", dpx_error());
    dpx_model_free(m);
    dpx_options_free(o);
    dpx_world_leave(w);
    return NULL;
}

/* Rank r on devices[r]; rank 1 with the fault. */
static void run_patient_world(Process *p, const char *const *devices, Fault fault, double timeout, const char *folder)
{
    char rendezvous[32];
    pthread_t thread[RANKS];

    snprintf(rendezvous, sizeof rendezvous, "127.0.0.1:%d", free_port());
    for (int r = 0; r < RANKS; r++) {
        p[r] = (Process){ .rank = r,
                          .devices = devices[r],
                          .rendezvous = rendezvous,
                          .fault = r || fault >= GROWS ? fault : ALIKE,
                          .timeout = timeout,
                          .at_once = fault == STALLS || fault == IN_CALL,
                          .folder = folder };
        CU_ASSERT_FATAL(!pthread_create(&thread[r], NULL, run, &p[r]));
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
}

static void run_world(Process *p, const char *const *devices, Fault fault)
{
    run_patient_world(p, devices, fault, 20, NULL);
}

/* The same losses and weights, to the bit, as of one process with all the devices. */
static void check_bits_of(Process *p, const char *const *devices, const char *all, Fault fault, const char *folder)
{
    static Process alone;

    run_patient_world(p, devices, fault, 20, folder);
    alone = (Process){ .devices = all, .fault = fault, .folder = folder };
    run(&alone);
    if (alone.status)
        TEST_FAIL("%s: %s", all, alone.message);
    CU_ASSERT(alone.n_weight > 0 && alone.loss[0] != alone.loss[STEPS - 1]);
    for (int r = 0; r < RANKS; r++) {
        if (p[r].status)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        CU_ASSERT(p[r].n_weight == alone.n_weight && !memcmp(p[r].weight, alone.weight, sizeof alone.weight));
        CU_ASSERT(!memcmp(p[r].loss, alone.loss, sizeof alone.loss));
    }
}

static void check_bits(const char *const *devices, const char *all, Fault fault)
{
    static Process p[RANKS];

    check_bits_of(p, devices, all, fault, NULL);
}

static const char *const cpus[RANKS] = { "cpu", "cpu" }, *const pairs[RANKS] = { "cpu*2", "cpu*2" };
static const char *const gpus[RANKS] = { "cuda:0", "cuda:1" };
static const char *const gpu_pairs[RANKS] = { "cuda:0,cuda:1", "cuda:2,cuda:3" };

static void test_bits(void)
{
    check_bits(cpus, "cpu*2", ALIKE);
    check_bits(pairs, "cpu*4", ALIKE);
}

/* Both fail with `status` and `text`. */
static void check_refused(Fault fault, dpx_status status, const char *text, const char *folder)
{
    static Process p[RANKS];

    run_patient_world(p, cpus, fault, 20, folder);
    for (int r = 0; r < RANKS; r++)
        if (p[r].status != status || !strstr(p[r].message, text))
            TEST_FAIL("rank %d: status %d: %s", r, p[r].status, p[r].message);
}

/* A checkpoint after one step, and the model trained so far. */
static void make_other_run(char folder[256])
{
    static const char *const settings[] = { "loss=cross-entropy", "lr=0.1",       "momentum=0.9",
                                            "threads=1",          "batch-size=6", NULL };
    dpx_trainer *t = make_trainer(settings);
    char path[300];
    dpx_result r;
    Batch b;

    make_folder(folder);
    make_batch(&b, 7);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CHECK_DPX(dpx_trainer_save(t, folder, NULL));
    CHECK_DPX(dpx_trainer_export(t, path));
    dpx_trainer_free(t);
}

static void test_differences(void)
{
    char folder[256];

    make_other_run(folder);
    check_refused(OTHER_LR, DPX_INVALID, "rank 1 has --lr '0.2', rank 0 '0.1'", NULL);
    check_refused(OTHER_STEP, DPX_INVALID,
                  "the processes begin with different values: rank 1 has steps done '1', rank 0 '0'", folder);
    remove_folder(folder);
}

/* Rank 1 begins with other values of states: both train rank 0's, to the bit, and say so. */
static void check_state(const char *const *devices, Fault fault, const char *text)
{
    static Process p[RANKS], whole[RANKS];
    char folder[256];

    make_other_run(folder);
    run_world(whole, devices, ALIKE);
    run_patient_world(p, devices, fault, 20, folder);
    remove_folder(folder);
    for (int r = 0; r < RANKS; r++) {
        if (p[r].status || !strstr(p[r].warning, text))
            TEST_FAIL("rank %d: %s, warns: '%s'", r, p[r].message, p[r].warning);
        CU_ASSERT(p[r].n_weight > 0 && !memcmp(p[r].weight, whole[r].weight, sizeof whole[r].weight));
        CU_ASSERT(!memcmp(p[r].loss, whole[r].loss, sizeof whole[r].loss) && !*whole[r].warning);
    }
}

/* What rank 1 failed of is what rank 0 says. */
static void check_told(const char *const *devices)
{
    static Process p[RANKS];

    run_world(p, devices, GIVES_UP);
    if (p[0].status != DPX_DEVICE || !strstr(p[0].message, "rank 1 of 2: the coffee is finished"))
        TEST_FAIL("%s: status %d: %s", devices[0], p[0].status, p[0].message);
    CU_ASSERT_EQUAL(p[1].status, DPX_IO);
    run_world(p, devices, BAD_BATCH);
    CU_ASSERT(p[1].status && p[0].status);
    if (!strstr(p[0].message, "rank 1 of 2: ") || !strstr(p[0].message, p[1].message))
        TEST_FAIL("%s: '%s', where rank 1 says '%s'", devices[0], p[0].message, p[1].message);
}

static void test_state(void)
{
    check_state(cpus, OTHER_STATE, "different values of 1 of ");
    check_state(cpus, OTHER_MODEL, "different values of 6 of 13 states");
    check_state(pairs, OTHER_MODEL, "different values of 6 of 13 states");
}

/* Rank 1 is told that it is alone, and with which state of what, in time; rank 0 that it is not waited for. */
static void check_alone(Fault fault, const char *state, const char *what, const char *folder)
{
    static Process p[RANKS];
    const double begin = seconds();
    static const char late[] = "nothing has come from rank 0 of 2 for 2 seconds; waiting: rank 1";
    char text[512];

    snprintf(text, sizeof text, "state '%s' is in pieces that all processes read together: %s: %s", state, what, late);
    run_patient_world(p, cpus, fault, 2, folder);
    CU_ASSERT(seconds() - begin < 20);
    if (p[1].status != DPX_DEVICE || !strstr(p[1].message, text))
        TEST_FAIL("rank 1, status %d: %s", p[1].status, p[1].message);
    snprintf(text, sizeof text, "%s: rank 1 of 2: %s", what, late); /* it has come, too late */
    if (p[0].status != DPX_DEVICE || !strstr(p[0].message, text))
        TEST_FAIL("rank 0, status %d: %s", p[0].status, p[0].message);
}

/* Read together they are whole; nothing goes on from pieces of different tensors; who reads, saves or exports alone
 * is told so, and what of, in time. */
static void test_pieces(void)
{
    char folder[256];

    check_bits(cpus, "cpu*2", IN_PIECES);
    check_bits(pairs, "cpu*4", IN_PIECES);
    check_refused(OTHER_PIECES, DPX_INVALID, "what was given to states in pieces, of digest", NULL);
    make_folder(folder);
    check_alone(READS_ALONE, "fc1.weight.momentum", "dpx_trainer_get_state of 'fc1.weight.momentum'", NULL);
    check_alone(SAVES_ALONE, "fc1.weight.momentum", "the checkpoint of step 6", folder);
    check_alone(EXPORTS_ALONE, "fc1.weight", "the exported model", folder);
    remove_folder(folder);
}

/* An evaluation reads what it needs of a checkpoint, which is no momentum; of that each process then reads its pieces,
 * which end where blocks do: all of it once, and nothing else. */
static void test_resumed_pieces(void)
{
    enum { PARAMETERS_BYTES = 4 * 17226, BESIDE = 4096 }; /* of mlp.onnx; header, digests, counters */
    static Process p[RANKS];
    char folder[256];

    make_other_run(folder);
    check_bits_of(p, cpus, "cpu*2", RESUMES, folder);
    remove_folder(folder);
    for (int r = 0; r < RANKS; r++)
        CU_ASSERT(p[r].read[0] >= PARAMETERS_BYTES && p[r].read[0] < PARAMETERS_BYTES + BESIDE);
    CU_ASSERT(p[0].read[1] > p[0].read[0] && p[1].read[1] > p[1].read[0]);
    CU_ASSERT(p[0].read[1] - p[0].read[0] + p[1].read[1] - p[1].read[0] >= PARAMETERS_BYTES);
    CU_ASSERT(p[0].read[1] - p[0].read[0] + p[1].read[1] - p[1].read[0] < PARAMETERS_BYTES + BESIDE);
}

/* What no program had when the processes first compared their states is compared when one has it. */
static void test_resumed_whole(void)
{
    static Process p[RANKS];
    char folder[256];

    make_other_run(folder);
    check_bits_of(p, cpus, "cpu*2", RESUMES_WHOLE, folder);
    remove_folder(folder);
    for (int r = 0; r < RANKS; r++)
        CU_ASSERT(strstr(p[r].warning, "different values of 1 of ") != NULL);
}

/* What was refused changed nothing: nobody but rank 1 knows of it, all go on. */
static void test_mistyped(void) { check_bits(cpus, "cpu*2", MISTYPES); }

static void test_failures(void) { check_told(cpus); }

static void test_cuda(void)
{
    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    check_bits(gpus, "cuda:0,cuda:1", ALIKE);
    check_bits(gpus, "cuda:0", BY_TREE);
    check_bits(gpu_pairs, "cuda*4", ALIKE);
    check_bits(gpus, "cuda:0,cuda:1", GROWS); /* rank 1's memory moves, rank 0's does not: both capture anew */
    check_told(gpus);
    check_state(gpus, OTHER_MODEL, "different values of 6 of 13 states");
}

/* One process that cannot capture a step: none does, both say whose fault it is, and the bits are those of a run that
 * asked for it. */
static void test_uncaptured(void)
{
    static Process p[RANKS], whole[RANKS];

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    run_world(whole, gpus, ALIKE);
    setenv("DPEXEC_SIM_FAIL", "capture_end@1:2", 1);
    run_world(p, gpus, ALIKE);
    unsetenv("DPEXEC_SIM_FAIL");
    for (int r = 0; r < RANKS; r++) {
        const char *why = r ? "given to the GPU: cuda:1: capture_end: injected"
                            : "given to the GPU: rank 1 of 2: cuda:1: capture_end: injected";

        if (p[r].status)
            TEST_FAIL("rank %d: %s", r, p[r].message);
        if (!strstr(p[r].warning, why))
            TEST_FAIL("rank %d warns: '%s'", r, p[r].warning);
        CU_ASSERT(p[r].n_weight > 0 && !memcmp(p[r].weight, whole[r].weight, sizeof whole[r].weight));
        CU_ASSERT(!memcmp(p[r].loss, whole[r].loss, sizeof whole[r].loss));
    }
}

/* A communicator that fails while a step is captured ends all, with what it failed of. */
static void test_lost_in_capture(void)
{
    static Process p[RANKS];

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    setenv("DPEXEC_SIM_FAIL", "all_reduce_sum@1:2", 1);
    run_world(p, gpus, ALIKE);
    unsetenv("DPEXEC_SIM_FAIL");
    for (int r = 0; r < RANKS; r++)
        if (p[r].status != DPX_DEVICE || *p[r].warning ||
            !strstr(p[r].message, r ? "cuda:1: AllReduce " : "rank 1 of 2: cuda:1: AllReduce ") ||
            !strstr(p[r].message, "all_reduce_sum: injected failure of rank 1"))
            TEST_FAIL("rank %d, status %d: '%s', warns: '%s'", r, p[r].status, p[r].message, p[r].warning);
}

/* Rank 0, which hears of it from a call of the world, does not wait for rank 1 to leave the communicator; nor does
 * rank 1. */
static void test_leave(void)
{
    static Process p[RANKS];
    double begin = seconds();

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    setenv("DPEXEC_SIM_FAIL", "comm_free@0:1:hang,comm_free@1:1:hang", 1);
    run_patient_world(p, gpus, IN_CALL, 60, NULL);
    unsetenv("DPEXEC_SIM_FAIL");
    CU_ASSERT(seconds() - begin < 30);
    CU_ASSERT_EQUAL(p[1].status, DPX_IO);
    if (p[0].status != DPX_DEVICE || !strstr(p[0].message, "rank 1 of 2: the tea is finished"))
        TEST_FAIL("rank 0, status %d: %s", p[0].status, p[0].message);
}

/* Rank 0 waits in vain, for a process that is busy elsewhere and for one whose device hangs: it says for whom, and at
 * which node. */
static void test_late(void)
{
    static Process p[RANKS];

    setenv("DPEXEC_CUDA_PLUGIN", gpu_plugin(), 1);
    run_patient_world(p, gpus, STALLS, 3, NULL);
    if (!p[0].status || !strstr(p[0].message, "cuda:0: the step has not ended within 3 seconds: AllReduce ") ||
        !strstr(p[0].message, " waits for rank 1 of 2 (does not answer); waiting: cuda:"))
        TEST_FAIL("rank 0, status %d: %s", p[0].status, p[0].message);
    if (!p[1].status || !strstr(p[1].message, "rank 0 of 2: cuda:0: the step has not ended"))
        TEST_FAIL("rank 1, status %d: %s", p[1].status, p[1].message);
    setenv("DPEXEC_SIM_FAIL", "launch@1:3:hang", 1);
    setenv("DPEXEC_SIM_TIMEOUT", "4", 1);
    run_patient_world(p, gpus, ALIKE, 3, NULL);
    unsetenv("DPEXEC_SIM_FAIL");
    unsetenv("DPEXEC_SIM_TIMEOUT");
    for (int r = 0; r < RANKS; r++)
        if (!p[r].status || (!strstr(p[r].message, " waits for rank 1 of 2 (has come to no collective)") &&
                             !strstr(p[r].message, " waits for cuda:1 (has come to no collective)")))
            TEST_FAIL("rank %d, status %d: %s", r, p[r].status, p[r].message);
}

static void test_bad_options(void)
{
    static const struct {
        dpx_world_options o;
        const char *text;
    } bad[] = {
        { { .size = 0, .rank = 0, .rendezvous = "localhost:1", .timeout = 1 }, "expected 1 to 256" },
        { { .size = 2, .rank = 2, .rendezvous = "localhost:1", .timeout = 1 }, "expected 0 to 1" },
        { { .size = 2, .rank = 1, .rendezvous = "localhost", .timeout = 1 }, "HOST:PORT" },
        { { .size = 2, .rank = 1, .rendezvous = "localhost:0", .timeout = 1 }, "from 1 to 65535" },
        { { .size = 2, .rank = 1, .rendezvous = "[::1:80", .timeout = 1 }, "" },
        { { .size = 2, .rank = 1, .rendezvous = NULL, .timeout = 1 }, "HOST:PORT" },
        { { .size = 2, .rank = 1, .rendezvous = "localhost:1", .timeout = -1 }, "positive" },
        { { .mpi = "lam", .timeout = 1 }, "mpi: expected openmpi or mpich, found 'lam'" },
        { { .size = 1, .mpi_comm = "", .timeout = 1 }, "mpi_comm: the library that it belongs to" },
        { { .size = 2, .rendezvous = "192.0.2.1:1", .timeout = 1 }, "--world-secret FILE" },
        { { .size = 2, .rank = 1, .rendezvous = "192.0.2.1:1", .timeout = 1, .secret = "" }, "--world-secret FILE" },
        { { .size = 2, .rank = 1, .rendezvous = "[::]:1", .timeout = 1 }, "--world-secret FILE" },
        { { .size = 2, .rank = 1, .rendezvous = "localhost:1", .timeout = 1, .secret = "/nowhere/secret" },
          "secret /nowhere/secret: " },
        { { .size = 2, .rank = 1, .rendezvous = "localhost:1", .timeout = 1, .secret = "/dev/zero" },
          "expected a regular file" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dpx_world *w = NULL;
        dpx_status st = dpx_world_join(&w, &bad[i].o);

        CU_ASSERT(st && strstr(dpx_error(), bad[i].text) && !w);
    }
}

static void test_alone(void)
{
    dpx_world_options o = { .size = 1 };
    dpx_world *w = NULL;
    int64_t most;
    void *all = NULL;
    size_t size;

    if (!CHECK_DPX(dpx_world_join(&w, &o)))
        return;
    CHECK_DPX(dpx_world_max(w, 7, &most));
    CU_ASSERT_EQUAL(most, 7);
    CHECK_DPX(dpx_world_sum(w, 7, &most));
    CU_ASSERT_EQUAL(most, 7);
    if (CHECK_DPX(dpx_world_gather(w, "bytes", 5, &all, &size)))
        CU_ASSERT(size == 5 && !memcmp(all, "bytes", 5));
    free(all);
    CHECK_DPX(dpx_world_share(w, 0, &most, sizeof most));
    CU_ASSERT_EQUAL(most, 7);
    CHECK_FAILS(E_INVALID, "root is 1: expected 0 to 0", (Status)dpx_world_share(w, 1, &most, sizeof most));
    dpx_world_abort(w, "nobody hears it");
    dpx_world_leave(w);
}

DEFINE_SUITE(world, { "two processes give the bits of one", test_bits },
             { "differences are refused by all", test_differences }, { "rank 0's state goes to all", test_state },
             { "state that one cannot set", test_mistyped }, { "state in pieces", test_pieces },
             { "pieces of a checkpoint", test_resumed_pieces },
             { "a checkpoint and another momentum", test_resumed_whole },
             { "a failure ends all with its reason", test_failures }, { "CUDA devices of two processes", test_cuda },
             { "a step that one process cannot capture", test_uncaptured },
             { "a communicator that fails while a step is captured", test_lost_in_capture },
             { "a process that does not come", test_late },
             { "one that leaves when others wait in a call", test_leave },
             { "options that cannot be", test_bad_options }, { "a world of one", test_alone });
