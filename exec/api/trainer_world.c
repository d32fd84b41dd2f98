/* The world that a trainer's process is part of. */
#include "exec/api/trainer.h"

World *trainer_world(const dpx_trainer *t) { return t->options && t->options->world ? t->options->world->world : NULL; }

Status trainer_told(const dpx_trainer *t, Status st)
{
    if (st)
        world_abort(trainer_world(t), status_message());
    return st;
}
