/* Small training graphs, and steps of them by the interpreter and by programs, for the tests of the executor. */
#ifndef DPX_TESTS_TRAINING_H
#define DPX_TESTS_TRAINING_H

#include "exec/device/group.h"
#include "exec/run/program.h"
#include "exec/state/state.h"

enum { IN_FEATURES = 6, HIDDEN = 37, CLASSES = 5 };

/* A graph as programs take it: sorted, partitioned over the replicas, scheduled. */
void training_partition(Graph *g, int replicas, int devices);
/* x [batch,6], target [batch], learning_rate -> loss; two layers, SGD with momentum; partitioned over the replicas. */
Graph *training_mlp(int batch, int replicas, int devices);
/* The inputs of step `k`: data in `arena`. */
NamedTensor *training_batch(Arena *arena, int batch, int k);
enum { N_BATCH = 3 };

/* Devices, arenas and state with one program on them. */
typedef struct {
    int n_device;
    Device *device[MAX_DEVICES];
    Arenas arenas;
    GpuGroup *group; /* of simulated CUDA devices, else NULL */
    States *states;
    Program *program;
} Rig;

/* Takes the graph. */
Status rig_open(Rig *r, Graph *g, int n_device, int threads);
/* The same on CUDA devices: simulated ones, or those of the plug-in that $DPEXEC_CUDA_PLUGIN or $DPX_TEST_CUDA
 * names. */
Status rig_open_cuda(Rig *r, Graph *g, int n_device, bool uncaptured);
/* program_begin, of inputs in any order. */
Status rig_begin(Rig *r, const NamedTensor *in, int n);
void rig_close(Rig *r);
/* An output of the last step; fails the test when there is none. */
const Tensor *rig_output(const Rig *r, const char *name);

#endif
