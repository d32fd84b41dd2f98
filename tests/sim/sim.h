/* The simulation of CUDA devices on the CPU: libdpexec_cudasim.so, the same table as the plug-in's
 * (kernels/cuda/driver.h).
 *
 * It is meant to be worse than a GPU.  Work is queued and runs only when the host waits, in a random order of all that
 * the events allow; device memory cannot be touched by the host; freed memory is garbage; guards stand around every
 * allocation.
 *
 *   DPEXEC_SIM_DEVICES=4     devices                     DPEXEC_SIM_SEED=1       of the order
 *   DPEXEC_SIM_MEMORY=1G     bytes of each               DPEXEC_SIM_TIMEOUT=20   seconds until waiting for nothing is
 * an error DPEXEC_SIM_CAPABILITY=90                             DPEXEC_SIM_CACHE=DIR    of compiled modules
 *   DPEXEC_SIM_REFUSE=sums   matrix products have no sums in their epilogue; "epilogues": they have none at all;
 * "relu": convolutions have no Relu, and nothing that is added before it but a bias; "strides": attention has no
 * tensors but those without gaps DPEXEC_SIM_FAIL=CALL[@RANK]:N[:HOW],...              the Nth call of CALL ("alloc",
 * "launch", "all_reduce_sum" ...) fails: HOW error: it returns one (default), and a communicator keeps it; async: the
 * device fails when the work runs; lost: the communicator fails, comm_poll says so; hang: the member never arrives or
 * leaves, the kernel never ends.  RANK is a communicator's; of launch and of captures the device
 *
 * Everything happens under one lock, in whichever host thread waits. */
#ifndef DPX_TESTS_SIM_H
#define DPX_TESTS_SIM_H

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "kernels/cuda/driver.h"
}

namespace sim
{

/* ---- memory ---- */

enum Where { DEVICE_MEMORY, PINNED_MEMORY, COMM_MEMORY };

struct Block {
    size_t bytes;
    Where where;
    GpuDevice *owner;
};

[[noreturn]] void misuse(const char *what, const void *p);
Status memory_alloc(GpuDevice *d, void **out, size_t bytes, Where where);
void memory_free(GpuDevice *d, void *p, Where where);
/* ST_OK when [p, p + bytes) lies in one live allocation that `d` can reach, or, unless `device_only`, in the host's own
 * memory. */
Status memory_check(const GpuDevice *d, const void *p, size_t bytes, bool device_only, const char *what);
bool memory_is_host(const void *p);      /* the host's, not allocated here */
const void *memory_block(const void *p); /* where the allocation that holds it (or ends there) begins; NULL: none */
Status memory_check_guards(const char *after); /* names the allocation whose guard has changed */
size_t memory_used(int device_index);
size_t memory_count(const GpuDevice *d); /* live allocations */
/* The host cannot touch device memory but while one of these lives. */
struct Unlocked {
    Unlocked();
    ~Unlocked();
};

/* ---- work ---- */

struct Capture;
struct Member; /* of a communicator */

/* What an event stands for: one call of event_record. */
struct Record {
    bool done = false, timed = false;
    double time = 0;
    std::shared_ptr<Capture> capture; /* recorded there, after these nodes */
    std::set<int> nodes;
};

enum Kind { WORK, HOST, RECORD, AWAIT, COLLECTIVE };
enum Reduction { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST };

struct Collective {
    std::shared_ptr<Member> member;
    Reduction what;
    const void *send;
    void *recv;
    size_t n; /* elements, or bytes for DT_NONE */
    DType dtype;
    int root;
    bool hang;
    bool registered = false; /* what it reads and writes: all of it, or nothing */
};

/* One piece of work, as it was given. */
struct Op {
    Kind kind;
    std::string label;
    std::function<Status()> run;
    std::vector<const void *> uses; /* device memory */
    bool hang = false;              /* it never ends */
    std::shared_ptr<Record> record;
    Collective collective{};
};

/* An op that waits to run: in a stream or in a launch of a graph. */
struct Instance : std::enable_shared_from_this<Instance> {
    std::shared_ptr<const Op> op;
    uint64_t turn = 0; /* of a collective: the how manyth of its member */
    bool captured = false, done = false;
};

struct Graph {
    struct Node {
        std::shared_ptr<const Op> op;
        std::vector<int> after;
    };
    std::vector<Node> node;
};

struct GraphRun {
    std::shared_ptr<const Graph> graph;
    std::vector<std::shared_ptr<Instance>> inst;
    std::vector<int> missing; /* how many predecessors have not run */
    std::vector<int> ready;
    size_t left = 0;
};

/* One of the two. */
struct Entry {
    std::shared_ptr<Instance> inst;
    std::shared_ptr<GraphRun> run;
};

struct Capture {
    GpuStream *origin;
    Graph graph;
    std::set<GpuStream *> streams;
    bool ended = false;
    std::string broken; /* why it cannot become a graph */
};

/* ---- the world: what all devices share ---- */

struct World {
    std::mutex lock;
    std::condition_variable changed;
    std::set<GpuDevice *> devices;
    std::mt19937_64 random;
    uint64_t seed;
    World();
};
World &world();
double now();
int64_t env_number(const char *name, int64_t otherwise); /* with K, M, G */
enum How { HOW_FINE, HOW_ERROR, HOW_ASYNC, HOW_LOST, HOW_HANG };
How injected(const char *call, int rank = -1);         /* counts the call */
How injected_on(const char *call, const GpuDevice *d); /* named with the device, or without */
#define SIM_INJECT(call)                                         \
    do {                                                         \
        if (injected(call) == HOW_ERROR)                         \
            return FAIL(E_DEVICE, "%s: injected failure", call); \
    } while (0)

using Guard = std::unique_lock<std::mutex>;

/* Gives work to a stream, or to the capture that it is part of.  The world is locked. */
Status submit(GpuStream *s, std::shared_ptr<Op> op);
/* Runs what can run, in random order, until `until` holds; the device's error when it has failed.  `g` holds the
 * world's lock. */
Status drain(Guard &g, GpuDevice *d, const char *what, const std::function<bool()> &until);
/* Runs a few random pieces, perhaps none: time goes by. */
Status drain_some(Guard &g, GpuDevice *d, const char *what);
Status device_fail(GpuDevice *d, Status st); /* keeps this thread's message as the device's; all its work is dropped */
Status device_check(const GpuDevice *d, const char *what);
std::shared_ptr<Op> make_op(Kind kind, std::string label, std::function<Status()> run = {},
                            std::vector<const void *> uses = {});

/* ---- collectives ---- */

/* Marks the instance as arrived; true when its whole group is there. */
bool collective_ready(Instance *i);
bool collective_gone(const Op &op);  /* its member has been freed */
Status collective_run(Instance *i);  /* of all members */
void collective_number(Instance *i); /* gives it its turn */

/* ---- kernels ---- */

struct Launch {
    unsigned grid[3], block[3];
    size_t shared;
};
/* Runs all blocks, one after another.  Fails when threads disagree about a barrier or a guard has changed. */
Status run_blocks(const char *name, void (*call)(void *const *), const Launch &l, void *const *args);

} // namespace sim

struct GpuDevice {
    int index = 0;
    bool described = false;
    bool tf32 = false; /* products of float32 round their operands */
    GpuInfo info{};
    std::string cache_dir;
    std::set<GpuStream *> streams;
    Status error = ST_OK;
    std::string error_text;
    std::set<GpuGraph *> graphs; /* that live */
    int objects = 0;             /* events, graphs, plans, modules, communicators that live */
    std::map<std::string, std::shared_ptr<GpuKernel>> kernels;
};

struct GpuStream {
    GpuDevice *device;
    std::deque<sim::Entry> queue;
    bool busy = false; /* its head runs without the lock */
    std::shared_ptr<sim::Capture> capture;
    std::set<int> frontier; /* of the capture: what comes next follows these nodes */
};

struct GpuEvent {
    GpuDevice *device;
    bool timed;
    std::shared_ptr<sim::Record> last;
};

struct GpuGraph {
    GpuDevice *device;
    std::shared_ptr<sim::Graph> graph;
};

struct GpuPlan {
    struct Buffer {
        int index;
        size_t bytes;
    }; /* needed */
    GpuDevice *device;
    std::string label;
    std::vector<Buffer> buffers;
    int n_buffers;
    size_t workspace;
    int align;
    std::function<void(void *const *)> compute;
};

/* ---- the table's functions, by file ---- */
extern "C" {
Status sim_stream_create(GpuDevice *d, GpuStream **out, bool urgent);
void sim_stream_free(GpuStream *s);
Status sim_stream_wait(GpuStream *s);
Status sim_event_create(GpuDevice *d, GpuEvent **out, bool timed);
void sim_event_free(GpuEvent *e);
Status sim_event_record(GpuEvent *e, GpuStream *s);
Status sim_event_await(GpuEvent *e, GpuStream *s);
Status sim_event_wait(GpuEvent *e);
Status sim_event_query(GpuEvent *e, bool *done);
Status sim_event_elapsed(GpuEvent *from, GpuEvent *to, double *seconds);
Status sim_zero(GpuStream *s, void *p, size_t bytes);
Status sim_copy(GpuStream *s, void *to, const void *from, size_t bytes);
Status sim_copy_rows(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                     size_t rows);
Status sim_host_call(GpuStream *s, void (*fn)(void *), void *arg);
Status sim_capture_begin(GpuStream *s);
Status sim_capture_end(GpuStream *s, GpuGraph **out);
Status sim_graph_launch(GpuGraph *g, GpuStream *s);
void sim_graph_free(GpuGraph *g);
Status sim_comm_id(GpuCommId *out);
Status sim_comm_create(GpuComm **out, GpuDevice *d, const GpuCommId *id, int rank, int n_rank, const GpuCommWait *wait);
bool sim_comm_free(GpuComm *c, const GpuCommWait *wait);
void sim_comm_abort(GpuComm *c);
bool sim_comm_abort_end(GpuComm *c);
Status sim_comm_poll(GpuComm *c);
Status sim_comm_alloc(GpuDevice *d, void **out, size_t bytes);
void sim_comm_release(GpuDevice *d, GpuComm *c, void *p);
Status sim_comm_register(GpuComm *c, void *p, size_t bytes);
Status sim_all_reduce_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
Status sim_reduce_scatter_sum(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t n, DType dtype);
Status sim_all_gather(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
Status sim_all_to_all(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes);
Status sim_broadcast(GpuComm *c, GpuStream *s, const void *send, void *recv, size_t bytes, int root);
Status sim_kernel(GpuDevice *d, const char *name, GpuKernel **out);
Status sim_compile(GpuDevice *d, const char *source, const char *name, GpuModule **out);
Status sim_module_kernel(GpuModule *m, const char *name, GpuKernel **out);
void sim_module_free(GpuModule *m);
Status sim_kernel_shared(GpuKernel *k, size_t bytes);
Status sim_launch(GpuStream *s, GpuKernel *k, const unsigned grid[3], const unsigned block[3], size_t shared,
                  void *const *args);
Status sim_gemm(GpuDevice *d, const GpuGemm *desc, GpuPlan **out, size_t *workspace);
Status sim_conv(GpuDevice *d, const GpuConv *desc, GpuPlan **out, size_t *workspace);
Status sim_attention(GpuDevice *d, const GpuAttention *desc, GpuPlan **out, size_t *workspace);
Status sim_plan_run(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace);
void sim_plan_free(GpuPlan *p);
}

#endif
