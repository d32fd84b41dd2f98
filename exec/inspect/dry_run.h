/* Dry runs: prints what a run would execute, without running it. */
#ifndef DPX_DRY_RUN_H
#define DPX_DRY_RUN_H

#include <stdio.h>

#include "exec/train/options.h"
#include "exec/train/session.h"

/* Compiles the steps that a run with these options executes: the training step, or both halves of an accumulated one;
 * without a loss, inference.  The devices may be described ones.  Writes for each device its nodes in order, with
 * stream, kernel, buffers and the events they wait for and record, and then its memory by use.  Allocates nothing on
 * the devices.
 *
 * E_NOMEM when a step does not fit a device's memory; the plan is written all the same.  `log`, which may be NULL,
 * receives the passes' notes, and how much of a plan for a described device the plug-in's libraries confirm. */
Status dry_run(FILE *to, const Graph *model, const Options *o, SessionLog *log, void *user) CHECKED;
/* Compiles the same steps and prints nothing.  *host: the share of the machine's free memory that its CPU devices need
 * together; *accelerator: that of the fullest accelerator's memory. */
Status plan_shares(double *host, double *accelerator, const Graph *model, const Options *o) CHECKED;

#endif
