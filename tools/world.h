/* Joins a tool to a world of processes, as its flags or a launcher's environment say. */
#ifndef DPX_TOOLS_WORLD_H
#define DPX_TOOLS_WORLD_H

#include "tools/feed/feed.h"

/* The flags of a command that can be run by several processes, for its table. */
#define WORLD_FLAGS                                                                                                  \
    { "world", "N", "number of processes that train together, each with its own --devices [1, or the launcher's]" }, \
        { "mpi", "KIND", "connect the processes by MPI: openmpi or mpich [the launcher's, if it is known]" },        \
        { "rank", "K", "rank of this process, 0 to N-1; only rank 0 writes files and prints" },                      \
        { "rendezvous", "HOST:PORT", "address where rank 0 listens and the others connect" },                        \
        { "world-secret", "FILE", "secret that all processes share; none: trust every process that connects" },      \
    {                                                                                                                \
        "world-timeout", "SECONDS", "seconds to wait for other processes [300]"                                      \
    }

typedef struct {
    dpx_world *world; /* NULL: this process alone */
    int rank, size;
} ToolWorld;

/* Joins the world that the flags, or else a launcher's environment (tools/launcher.c), describe, and sets it in the
 * options. */
Status world_open(ToolWorld *out, const Args *a) CHECKED;
/* Leaves the world.  `failed`: the exit status of a process that failed, which over MPI ends all processes; 0: none. */
void world_close(ToolWorld *w, int failed);
/* This process's share of data that the processes check together. */
Share world_share_of(const ToolWorld *w);
/* Notes these data, which must be equal in all processes; the trainer compares them when it is created.  Arrays above 1
 * MiB are read only in part. */
Status world_note_data(const ToolWorld *w, const char *name, const Feed *f) CHECKED;
/* Notes a flag's value, which must be equal in all processes. */
Status world_note_flag(const ToolWorld *w, const Args *a, const char *name) CHECKED;
/* E_INVALID unless the flag is given to all processes or to none; compared now. */
Status world_agree_given(const ToolWorld *w, const Args *a, const char *name) CHECKED;
/* Sets the purpose of the exchanges that follow, for messages: "the metrics of epoch 3". */
void tool_set_purpose(const ToolWorld *w, const char *form, ...) __attribute__((format(printf, 2, 3)));
/* The largest `mine` of all processes. */
Status world_most(int *out, const ToolWorld *w, int mine) CHECKED;
/* Copies the texts of all processes to rank 0, where *all, to be freed, receives size[rank] bytes of each, one behind
 * the other; `size` has room for dpx_world_size numbers.  Elsewhere *all is NULL. */
Status world_texts(void **all, size_t *size, const ToolWorld *w, const char *mine, size_t n) CHECKED;
/* The sum over all processes, and the largest of one process. */
Status world_read(LoaderRead *all, LoaderRead *most, const ToolWorld *w, LoaderRead mine) CHECKED;
/* The same for one number. */
Status world_count(int64_t *all, int64_t *most, const ToolWorld *w, int64_t mine) CHECKED;

#endif
