/* The command line's part in a world of processes. */
#ifndef DPX_TOOLS_WORLD_H
#define DPX_TOOLS_WORLD_H

#include "tools/feed.h"

/* The flags of a command that can be run by several processes, for its table. */
#define WORLD_FLAGS                                                                                               \
    { "world", "N", "processes that train together, each with --devices of its own [1, or as a launcher says]" }, \
        { "mpi", "KIND", "the processes are MPI's: openmpi or mpich, where the launcher does not tell which" },   \
        { "rank", "K", "which of them this is, 0 to N-1; rank 0 alone writes files and prints" },                 \
        { "rendezvous", "HOST:PORT", "where rank 0 listens and the others meet it" },                             \
        { "world-secret", "FILE", "bytes by which they recognise each other; none: whoever comes is believed" },  \
    {                                                                                                             \
        "world-timeout", "SECONDS", "to wait for other processes before giving up [300]"                          \
    }

typedef struct {
    dpx_world *world; /* NULL: this process alone */
    int rank, size;
} ToolWorld;

/* Joins the world that the flags, else a launcher's environment (tools/launcher.c), speak of.  The options are told. */
Status world_open(ToolWorld *out, const Args *a) CHECKED;
/* `failed`: the process is about to end with this status, and over MPI so do all; 0: in order. */
void world_close(ToolWorld *w, int failed);
/* The part of what all have to look at once that this process looks at. */
Share world_share_of(const ToolWorld *w);
/* Has every process been given these data?  Told when the trainer is created.  Of an array of more than 1 MiB some of
 * it is read. */
Status world_note_data(const ToolWorld *w, const char *name, const Feed *f) CHECKED;
/* The same of a flag's value. */
Status world_note_flag(const ToolWorld *w, const Args *a, const char *name) CHECKED;
/* Is the flag given to all processes or to none?  Compared now. */
Status world_agree_given(const ToolWorld *w, const Args *a, const char *name) CHECKED;
/* What the next numbers of all processes are for: "the metrics of epoch 3". */
void world_is_for(const ToolWorld *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* The largest of all processes' numbers, which all get; alone, the own. */
Status world_most(int *out, const ToolWorld *w, int mine) CHECKED;
/* What all processes have read together, and the most that one has. */
Status world_read(LoaderRead *all, LoaderRead *most, const ToolWorld *w, LoaderRead mine) CHECKED;
/* The same of a number. */
Status world_count(int64_t *all, int64_t *most, const ToolWorld *w, int64_t mine) CHECKED;

#endif
