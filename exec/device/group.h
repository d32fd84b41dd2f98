/* The accelerators of a session as a group: their streams, their communicators, the memory that programs share, and how
 * the failure of one ends the work of all. */
#ifndef DPX_GPU_GROUP_H
#define DPX_GPU_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/device/memory.h"
#include "passes/plan/plan_streams.h"

enum { GPU_MESSAGE = 1024 };

typedef struct {
    struct GpuGroup *group;
    Device *device; /* lent; NULL: of another process, and all else is NULL, too */
    const Runtime *runtime;
    GpuDevice *gpu;
    GpuStream *stream[N_STREAMS]; /* the compute stream is device_stream(device) */
    GpuStream *marks;             /* records a step's progress beside it; NULL: the only device */
    GpuEvent *drained;            /* for waiting until a stream is empty */
    GpuComm *comm;                /* NULL: the only device of all processes */
    Status other_failure;         /* why the others will not come to the communicator; ST_OK: they may */
    bool left;                    /* its work does not end even after an abort: the device is not used again */
    void *bucket;                 /* memory of the device's collectives, which run one after another */
    size_t bucket_bytes;
    void *host; /* pinned: the arena of the host's side */
    size_t host_bytes;
    atomic_int host_status; /* of the first kernel that failed on the host's side */
    char host_message[GPU_MESSAGE];
} GpuMember;

/* Returns from the caller with an error if a call of the member's runtime fails. */
#define TRY_MEMBER(m, call) TRY(device_check((m)->device, (m)->runtime->call))

/* A user of the group's devices, a program.  The group calls its functions under the group's lock. */
typedef struct GpuUser {
    const struct GpuUserClass *is;
    struct GpuUser *next;
} GpuUser;

/* A step that has not ended on all devices of this process. */
typedef struct {
    const GpuUser *user;
    int64_t number;      /* among the group's steps */
    int n_mark;          /* marks 1 to n_mark are its collectives, n_mark + 1 is its end */
    int at[MAX_DEVICES]; /* the mark that each device of this process has reached */
} GpuStepProgress;

typedef struct GpuUserClass {
    void (*release)(GpuUser *u);                            /* frees what holds a communicator, which is about to end */
    bool (*oldest)(const GpuUser *u, GpuStepProgress *out); /* the oldest unfinished step; false: there is none */
    const char *(*mark_name)(const GpuUser *u, int at);     /* the name of the collective that is the mark */
} GpuUserClass;

typedef struct GpuGroup {
    int n_device;        /* of all processes */
    struct World *world; /* lent; NULL: this process alone */
    GpuMember *member;
    GpuCommId comm_id;         /* of the communicator of all members */
    unsigned generation;       /* changes whenever a bucket or a host's arena moves */
    double timeout;            /* seconds that a step may take, where devices wait for each other */
    atomic_bool failed;        /* a device has failed: the others stop waiting */
    bool broken;               /* the communicators are gone: nothing runs any more */
    char message[GPU_MESSAGE]; /* why it is broken */
    bool order_noted;          /* the log says that sums depend on the order of devices */
    pthread_mutex_t lock;      /* of the fields below */
    GpuUser *users;
    int64_t n_step; /* steps begun by all users: the same number in all processes */
} GpuGroup;

/* Creates the group of n devices of all processes; device[d] is NULL for those of other processes.  All devices are
 * real ones of one runtime.  They and the world are lent.  All processes call this. */
Status gpu_group_create(GpuGroup **out, Device *const *device, int n, struct World *world) CHECKED;
void gpu_group_enter(GpuGroup *g, GpuUser *u); /* u is lent until it leaves */
void gpu_group_leave(GpuGroup *g, GpuUser *u); /* does nothing if u has not entered */
/* Waits for the work under way, and for the other processes unless they have failed.  NULL is legal. */
void gpu_group_free(GpuGroup *g);
/* Grow the bucket, and the host's arena, of device d to at least `bytes`. */
Status gpu_group_bucket(GpuGroup *g, int d, size_t bytes) CHECKED;
Status gpu_group_host_arena(GpuGroup *g, int d, size_t bytes) CHECKED;
/* Waits until nothing runs on device d, as gpu_group_wait does; no thread may give work to a device of the group
 * meanwhile.  On failure the group is aborted, so nothing runs either; a device on which a kernel still runs is given
 * up (GpuMember.left).  With a single device, failures show when its work is waited for. */
Status gpu_group_drain(GpuGroup *g, int d) CHECKED;
/* Lets the host wait for an event that was recorded on device d.  Returns the failure of a kernel on the host's side;
 * E_INTERRUPTED when another device has failed; E_DEVICE when a communicator has failed, or when the step took longer
 * than `timeout`: then the message says which device waits for which (hang_report.h).  A single device has no timeout.
 */
Status gpu_group_wait(GpuGroup *g, int d, GpuEvent *e) CHECKED;
/* A DeviceSync; `member` is a GpuMember.  Waits until all work on the device's own stream has run, as gpu_group_wait
 * does.  Aborts the group on failure, so no thread may give work to one of its devices meanwhile. */
Status gpu_group_sync(void *member) CHECKED;
/* Whether device d itself has failed, so that every call for it fails. */
bool gpu_group_faulted(const GpuGroup *g, int d);
/* Ends the group after a failure, whose message is this thread's: ends the collectives that still wait.  From then on
 * gpu_group_check fails. */
void gpu_group_abort(GpuGroup *g);
/* Gives up a device whose work does not end: it is not used again. */
void gpu_member_leave(GpuMember *m);
Status gpu_group_check(const GpuGroup *g) CHECKED;

#endif
