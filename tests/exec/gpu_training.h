/* Trainings on the CPU and on CUDA devices, simulated ones unless $DPX_TEST_CUDA names the plug-in (then on as many as
 * there are), and how far they may differ. */
#ifndef DPX_TESTS_GPU_TRAINING_H
#define DPX_TESTS_GPU_TRAINING_H

#include "passes/pass.h"
#include "tests/exec/training.h"

enum { MAX_STEPS = 20 };

typedef struct {
    NamedTensor *state;
    int n;
} GpuSnapshot;

typedef struct {
    const char *model;
    int batch, steps, replicas, devices;
    bool native;                  /* on the CPU: fused and stored as its target wants it; else as by the reference */
    bool cuda, uncaptured, begun; /* begun: a step is waited for when the next one has begun */
    bool (*computes)(const Graph *, const Node *);
    DType precision;
    bool channels_last;
    double rate;             /* of learning; 0: the one of verify_batch */
    const GpuSnapshot *lead; /* each step begins with what another training had stored before it; NULL: it goes on */
} GpuRun;

/* States after the last step; of float32 also those before the first: momenta, then the others.  Those before each step
 * and behind it, unless it is begun before the last one has been waited for. */
typedef struct {
    float loss[MAX_STEPS];
    char *state;
    size_t bytes;
    float *before, *after;
    size_t momenta, all;
    GpuSnapshot begin[MAX_STEPS], end[MAX_STEPS];
    int reorders, conv_relus;
} GpuOutcome;

/* CUDA devices that there are, and whether they are simulated: they add in the CPU's order, and are held to the bounds
 * without what another order does. */
int gpu_devices(void);
bool gpu_simulated(void);
/* The model for a run; the inputs of its step k for the undivided graph `g`. */
Graph *gpu_run_build(const GpuRun *r, const BuildOptions *how, int replicas, int devices);
NamedTensor *gpu_run_batch(Arena *a, const GpuRun *r, const Graph *g, const BuildOptions *opt, int k);
/* What it gives is in the arena. */
GpuOutcome gpu_train(Arena *a, const GpuRun *r);
/* The same steps on the CPU in float32, each from where the other training began it. */
GpuOutcome gpu_train_exact(Arena *a, const GpuRun *r, const GpuOutcome *led);

/* Of losses, relative. */
double gpu_run_tolerance(const GpuRun *r);
/* Fail the test where two outcomes differ: losses by more than the tolerance; steps of trainings in 16 bits, each of
 * which began alike, by more than `most` of what the step has changed, norm-wise, momenta and all else apart, and by
 * more than the root of 2 times what `exact`, in float32, is away. */
void gpu_compare_losses(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected);
void gpu_compare_steps(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const GpuOutcome *exact,
                       double most);

/* Fails the test where any one state differs, norm-wise, by more than a part of what the training has changed in it.
 *
 * In float32 both train on by themselves.  The roundings of a step move what it changes by no more than 1e-5, a hundred
 * epsilons: those of sums of some hundred terms, about the root of that for each of the few products and norms that a
 * gradient comes through.  Those of a run add up: n steps may differ by n times that, where a gradient that is lost
 * differs by 1.
 *
 * In 16 bits nothing feeds back, for each step begins alike; the two round in places that are only partly the same. All
 * roundings of a step together move what is smooth in its gradients, and so what it changes, by less than 4 epsilons
 * (tests/exec/precision.c): no more do those that one of the two makes and the other does not, all states taken
 * together.  Single ones may differ by twice that: the sum over rows that a bias changes by is small beside its terms.
 * What windows and Relu decide by both round in the same places, of sums that differ by their order alone, which turns
 * over some last bits of 16 and so some decisions.  How much that can move a state shows in `exact`, the same steps in
 * float32: two that round independently are expected to be the root of 2 times as far apart as rounding has taken one
 * of them, and more than that is told.
 *
 * Besides, each of the two rounds a state that it has changed to float32, by half an epsilon of it in every step. */
void gpu_compare_each(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, const GpuOutcome *exact);

/* Trains on the CPU and on CUDA devices, and compares; a model with several replicas and devices, `every` spread of
 * them. */
void gpu_check_run(GpuRun r);
void gpu_check_model(const char *model, int batch, int steps, int every);

#endif
