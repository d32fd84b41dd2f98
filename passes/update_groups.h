/* Which group each parameter belongs to. */
#ifndef DPX_UPDATE_GROUPS_H
#define DPX_UPDATE_GROUPS_H

#include "passes/pass.h"

/* 0: none of its own; k: group[k - 1] of UpdateOptions. */
int update_group_of(const BuildOptions *opt, const char *name);
/* The loss that group k takes its gradients of, by the first group that has it; 0: the run's. */
int update_group_loss(const BuildOptions *opt, int k);
/* With --turns the groups of one loss are a player, whose number is the first's; without, all are player 0. */
int update_group_player(const BuildOptions *opt, int k);
/* By which group the norm of group k's gradients is known, which is clipped: k, where it has a clip of its own; else
 * all of its player together, by the first of them, 0 where there are no players. */
int update_group_norm(const BuildOptions *opt, int k);
/* What group or player k has of its own is called "NAME.k"; of 0 it is NAME itself, one of those of passes/pass.h. */
enum { GROUP_NAME = 64 };
const char *group_name(char text[GROUP_NAME], const char *name, int k);
/* Lists the groups that have none of the `n` parameters that are trained. */
Status update_groups_check(const BuildOptions *opt, const char *const *name, int n) CHECKED;

#endif
