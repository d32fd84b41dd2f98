/* Profiles of training steps: times of nodes, summed by operator and by layer, beside what the machine can do. */
#ifndef DPX_INSPECT_PROFILE_H
#define DPX_INSPECT_PROFILE_H

#include "exec/device/device.h"
#include "exec/plan/trace.h"

typedef struct Profile Profile;

/* `accelerators`: timed steps are issued call by call, which is slow.  So a few steps are timed, and the steps behind
 * them, which run as ever, give the time of a step. */
Status profile_create(Profile **out, bool accelerators) CHECKED;
void profile_free(Profile *p); /* NULL is legal */
/* The trace that the next step's nodes are timed in; NULL: enough steps were timed. */
Trace *profile_trace(Profile *p);

/* A run of a program that has ended, or, where no trace is taken, begun. */
typedef struct {
    bool trains;        /* it belongs to a training step; else its events are dropped */
    uint64_t runs;      /* how often the program has run */
    uint64_t forgotten; /* programs freed so far: session_forgotten */
    double seconds;     /* from its beginning on */
    Trace *also;        /* receives its events, too; may be NULL */
} ProfileRun;
/* Before the run: drops events of one that failed. */
void profile_begin_run(Profile *p);
/* After the run: takes its events. */
Status profile_take(Profile *p, const ProfileRun *run) CHECKED;
/* Ends a step that took `seconds`, `data` of them until its batch was there.  Adds its times to the profile, unless a
 * program of the step ran for the first or second time, or `seconds` is NaN. */
Status profile_end_step(Profile *p, double seconds, double data) CHECKED;

/* Measures the peaks of a device, unless that was done. */
Status profile_measure(Profile *p, const DeviceSpec *d) CHECKED;
/* After profile_measure.  A profile without steps is a line of text, or JSON without rows. */
Status profile_print(const Profile *p, FILE *to) CHECKED;
Status profile_print_json(const Profile *p, FILE *to) CHECKED;

#endif
