/* Trainings on the CPU and on CUDA devices, simulated ones unless $DPX_TEST_CUDA names the plug-in (then on as many as there are),
 * and how far they may differ. */
#ifndef DPX_TESTS_GPU_TRAINING_H
#define DPX_TESTS_GPU_TRAINING_H

#include "passes/pass.h"
#include "tests/exec/training.h"

enum { MAX_STEPS = 20 };

typedef struct { NamedTensor *state; int n; } GpuSnapshot;

typedef struct {
    const char *model;
    int batch, steps, replicas, devices;
    bool cuda, uncaptured, begun;       /* begun: a step is waited for when the next one has begun */
    bool (*computes)(const Graph *, const Node *);
    DType precision;
    bool channels_last;
    double rate;                        /* of learning; 0: the one of verify_batch */
    const GpuSnapshot *lead;            /* each step begins with what another training had stored before it; NULL: it goes on */
} GpuRun;

/* States after the last step; of float32 also those before the first: momenta, then the others.  In 16 bits those before each step
 * and behind it. */
typedef struct {
    float loss[MAX_STEPS];
    char *state;
    size_t bytes;
    float *before, *after;
    size_t momenta, all;
    GpuSnapshot begin[MAX_STEPS], end[MAX_STEPS];
    int reorders;
} GpuOutcome;

/* CUDA devices that there are. */
int gpu_devices(void);
/* The model for a run; the inputs of its step k for the undivided graph `g`. */
Graph *gpu_run_build(const GpuRun *r, const BuildOptions *how, int replicas, int devices);
NamedTensor *gpu_run_batch(Arena *a, const GpuRun *r, const Graph *g, const BuildOptions *opt, int k);
/* What it gives is in the arena. */
GpuOutcome gpu_train(Arena *a, const GpuRun *r);

/* Of losses, relative. */
double gpu_run_tolerance(const GpuRun *r);
/* Fail the test where two outcomes differ: losses by more than the tolerance; steps of trainings in 16 bits, each of which began alike, by
 * more than `most` of what the step has changed, norm-wise, momenta and all else apart. */
void gpu_compare_losses(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected);
void gpu_compare_steps(const GpuRun *r, const GpuOutcome *found, const GpuOutcome *expected, double most);

/* Trains on the CPU and on CUDA devices, and compares; a model with several replicas and devices, `every` spread of them. */
void gpu_check_run(GpuRun r);
void gpu_check_model(const char *model, int batch, int steps, int every);

#endif
