/* The sums of a profile, for the files profile*.c. */
#ifndef DPX_INSPECT_PROFILE_SUMS_H
#define DPX_INSPECT_PROFILE_SUMS_H

#include "exec/inspect/profile.h"
#include "graph/base/hash_table.h"

/* Types whose products have a peak of their own. */
enum { PROFILE_TYPES = 4 };
extern const DType profile_type[PROFILE_TYPES];

/* The nodes of an operator or of a layer; sums over all devices and steps. */
typedef struct ProfileRow {
    struct ProfileRow *next;
    const char *name;
    double calls, bytes, flops[PROFILE_TYPES];
    double seconds, waited; /* waited: of a collective, until the last device came; not in `seconds` */
    bool collective;        /* of an operator */
} ProfileRow;

typedef struct {
    ProfileRow *first; /* the one added last */
    HashTable by_name;
    int n;
} ProfileRows;

/* Sums over steps. */
typedef struct {
    int64_t steps;
    double seconds, data, ran; /* ran: within runs of programs */
} ProfileSteps;

typedef struct ProfileGraph ProfileGraph;

struct Profile {
    Arena *arena;
    Trace *events;
    bool accelerators, over; /* over: no more steps are timed */
    int settle;              /* steps that are passed over before the next counts */
    ProfileRows operators, layers;
    double phase[N_PHASES]; /* seconds */
    ProfileSteps timed;     /* whose nodes were timed */
    ProfileSteps free;      /* on accelerators: steps behind these, as they run without a profile */
    int64_t seen, full;     /* all steps; those with more events than there is room for */
    bool device[MAX_DEVICES];
    ProfileGraph *graph; /* [n_graph] that have run */
    size_t n_graph, graph_room;
    uint64_t forgotten;
    /* the present step */
    bool cold, begun; /* cold: it is not counted */
    double ran;
    uint32_t kept, *run_end; /* [n_run] events up to the end of each run */
    size_t n_run, run_room;
    /* peaks, a second */
    bool measured;
    double peak_flops[PROFILE_TYPES], peak_bytes; /* flops 0: not measured, the first one stands for it */
    const char *peaks_of;
};

/* Seconds of a step and device. */
typedef struct {
    double step;              /* of all that follows together */
    double computing, moving; /* in operators that the machine's FLOPs bound, and in those that its memory bounds */
    double collectives;
    double waits;   /* for other replicas, before collectives */
    double data;    /* for the batch */
    double between; /* in the run of a program, between kernels; on accelerators all in which nothing runs */
    double outside; /* between programs: results, logs */
} ProfileParts;

/* The rows, the slowest first; to be freed.  NULL: out of memory. */
const ProfileRow **profile_sort(const ProfileRows *rows);
int profile_devices(const Profile *p);
ProfileParts profile_parts(const Profile *p);
/* The part of the peak that the row reaches: of FLOPs or of bytes, what is larger. */
double profile_peak_part(const Profile *p, const ProfileRow *r);
double profile_flops(const ProfileRow *r); /* of all types */
/* "compute limits the run: Conv, ConvGradInput take 82 % of the step at 71 % of the measured peak" */
enum { PROFILE_LIMIT = 400 };
void profile_limit(char text[PROFILE_LIMIT], const Profile *p);

#endif
