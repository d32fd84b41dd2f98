/* Log lines that name the missing ranks while a process waits for its world. */
#ifndef DPX_WORLD_MISSING_RANKS_H
#define DPX_WORLD_MISSING_RANKS_H

#include "exec/world/world.h"

typedef struct {
    void (*log)(void *user, const char *line); /* NULL: nothing is logged */
    void *user;
    double since, next; /* on the clock of world_now(): when the wait began, and when the next line is due */
} Waiting;

void waiting_begin(Waiting *w, const WorldOptions *opt);
/* When the next line is due, at the latest `until`. */
double waiting_until(const Waiting *w, double until);
/* Whether a line is due: the first after 10 seconds, then after 20, 40 ... */
bool waiting_is_due(const Waiting *w);
/* Logs "rank 2 has waited 10 seconds for WHOM", and sets when the next line is due. */
void waiting_log(Waiting *w, int rank, const char *whom, ...) __attribute__((format(printf, 3, 4)));

#endif
