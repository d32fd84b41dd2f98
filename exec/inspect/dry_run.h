/* What a run would execute, without running it. */
#ifndef DPX_DRY_RUN_H
#define DPX_DRY_RUN_H

#include <stdio.h>

#include "exec/train/options.h"
#include "exec/train/session.h"

/* Compiles the steps that a run with these options executes (the training step, or both halves of an accumulated one;
 * inference without a loss) for the devices that the options name, which may be described ones, and writes for each
 * device: its nodes in order with stream, kernel, buffers and the events waited for and recorded; what memory it needs
 * and for what.  Nothing is allocated on the devices.  E_NOMEM when a device's memory cannot hold a step; what is to be
 * said is written before.  The log, which may be NULL, receives what the passes found, and whether the plug-in's
 * libraries confirm the plans for a described device. */
Status dry_run(FILE *to, const Graph *model, const Options *o, SessionLog *log, void *user) CHECKED;

#endif
