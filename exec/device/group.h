/* The accelerators of a session as one: their streams, the communicators between them, the memory that programs share,
 * and how a failure of one ends the work of all. */
#ifndef DPX_GPU_GROUP_H
#define DPX_GPU_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/device/memory.h"
#include "passes/plan/plan_streams.h"

enum { GPU_MESSAGE = 1024 };

typedef struct {
    struct GpuGroup *group;
    Device *device; /* lent; NULL, and so is all else: another process's */
    const Runtime *runtime;
    GpuDevice *gpu;
    GpuStream *stream[N_STREAMS]; /* the compute stream is device_stream(device) */
    GpuStream *marks;             /* beside a step: tells how far it has come; NULL: the only device */
    GpuEvent *drained;
    GpuComm *comm; /* NULL: the only device of all processes */
    bool left;     /* what runs there does not end even now: the device is left to it until the process ends */
    void *bucket;  /* what collectives of the device work in, one after another */
    size_t bucket_bytes;
    void *host; /* pinned: the arena of the host's side */
    size_t host_bytes;
    atomic_int host_status; /* of the first kernel that failed on the host's side, and its message */
    char host_message[GPU_MESSAGE];
} GpuMember;

/* A call of the member's runtime, and its failure as ours. */
#define TRY_MEMBER(m, call) TRY(device_check((m)->device, (m)->runtime->call))

/* What uses the group's devices, a program: the group tells and asks it through these, under its lock, and knows no
 * more of it. */
typedef struct GpuUser {
    const struct GpuUserClass *is;
    struct GpuUser *next;
} GpuUser;

/* A step that has not ended on all devices of this process. */
typedef struct {
    const GpuUser *user;
    int64_t number;      /* of the group's steps */
    int n_mark;          /* its collectives, which are marks 1 to n_mark; n_mark + 1 is its end */
    int at[MAX_DEVICES]; /* the mark to which each device of this process has come */
} GpuLag;

typedef struct GpuUserClass {
    void (*release)(GpuUser *u);                        /* what holds a communicator, which is about to end */
    bool (*oldest)(const GpuUser *u, GpuLag *out);      /* the oldest of such steps; false: there is none */
    const char *(*mark_name)(const GpuUser *u, int at); /* of the collective that is the mark */
} GpuUserClass;

typedef struct GpuGroup {
    int n_device;        /* of all processes */
    struct World *world; /* lent; NULL: this process alone */
    GpuMember *member;
    unsigned generation;       /* changes whenever a bucket or a host's arena moves */
    double timeout;            /* seconds without an end of the step, where devices wait for each other */
    atomic_bool failed;        /* a device has failed: the others wait no longer */
    bool broken;               /* and the communicators are gone: nothing runs any more */
    char message[GPU_MESSAGE]; /* what ended it */
    bool told;                 /* on what the order of sums depends */
    pthread_mutex_t lock;      /* of what follows */
    GpuUser *users;
    int64_t n_step; /* begun, of all users: the same in all processes */
} GpuGroup;

/* All devices are of one runtime and there (not described); lent, as is `world`.  Those of its other processes are
 * NULL; all processes call it. */
Status gpu_group_create(GpuGroup **out, Device *const *device, int n, struct World *world) CHECKED;
void gpu_group_enter(GpuGroup *g, GpuUser *u); /* lent until it leaves */
void gpu_group_leave(GpuGroup *g, GpuUser *u); /* of one that has not entered: nothing */
void gpu_group_free(GpuGroup *g); /* NULL is legal; waits for work under way, and for others only while they are well */
/* Grow the memory of device d. */
Status gpu_group_bucket(GpuGroup *g, int d, size_t bytes) CHECKED;
Status gpu_group_host_arena(GpuGroup *g, int d, size_t bytes) CHECKED;
/* Waits until nothing runs on device d, as gpu_group_wait does; not while a thread gives work to a device of the group.
 * On failure the group is aborted, and so nothing runs either; a kernel that still does loses the device
 * (GpuMember.left).  Of one device alone failures show when what ran is waited for. */
Status gpu_group_drain(GpuGroup *g, int d) CHECKED;
/* The host waits for the event, recorded on device d.  The failure of a kernel on the host's side; E_INTERRUPTED when
 * another device has failed; E_DEVICE when a communicator has, or when the step took longer than `timeout`: then it
 * says what waits for whom.  One device alone is waited for as long as it takes. */
Status gpu_group_wait(GpuGroup *g, int d, GpuEvent *e) CHECKED;
/* Of a GpuMember: waits until all that was given to the device's own stream has run, as gpu_group_wait does; aborts the
 * group on failure, so not while a thread gives work to one of its devices. */
Status gpu_group_sync(void *member) CHECKED;
/* Has device d itself failed, so that every call for it does? */
bool gpu_group_faulted(const GpuGroup *g, int d);
/* After a failure, its message being this thread's: ends the collectives that still wait; from now on gpu_group_check
 * fails. */
void gpu_group_abort(GpuGroup *g);
/* Gives up a device whose work does not end. */
void gpu_member_leave(GpuMember *m);
Status gpu_group_check(const GpuGroup *g) CHECKED;

#endif
