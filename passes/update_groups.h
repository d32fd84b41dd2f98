/* Which group each parameter belongs to. */
#ifndef DPX_UPDATE_GROUPS_H
#define DPX_UPDATE_GROUPS_H

#include "passes/pass.h"

/* The group of a parameter.  0: none; k: group[k - 1] of UpdateOptions. */
int update_group_of(const BuildOptions *opt, const char *name);
/* The loss of group k's gradients, given by the first group that has it; 0: the run's loss. */
int update_group_loss(const BuildOptions *opt, int k);
/* The player of group k.  With --turns the groups of one loss are a player, numbered by the first group; without, all
 * groups are player 0. */
int update_group_player(const BuildOptions *opt, int k);
/* The number of the norm that clips group k's gradients: k if the group has its own clip.  The other groups of its
 * player share one norm, numbered by the first of them; 0 if there are no players. */
int update_group_norm(const BuildOptions *opt, int k);
/* Values of group, player or metric k are called "NAME.k", those of 0 NAME itself (a name of passes/pass.h). */
enum { GROUP_NAME = 64 };
const char *group_name(char text[GROUP_NAME], const char *name, int k);
bool is_group_name(const char *text, const char *name); /* is it NAME, or NAME.k? */
/* E_INVALID lists the groups that match none of the `n` trained parameters. */
Status update_groups_check(const BuildOptions *opt, const char *const *name, int n) CHECKED;

#endif
