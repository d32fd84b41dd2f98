/* How much a note of the passes matters to the user. */
#ifndef DPX_NOTE_LEVEL_H
#define DPX_NOTE_LEVEL_H

#include "exec/plan/program_log.h"
#include "passes/report.h"

static inline LineLevel note_level(const Note *n)
{
    return note_is_warning(n) ? LINE_WARNING : note_is_detail(n) ? LINE_DETAIL : LINE_INFO;
}

#endif
