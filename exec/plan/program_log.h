/* Receivers of the lines that sessions and programs have for the log of a run. */
#ifndef DPX_PROGRAM_LOG_H
#define DPX_PROGRAM_LOG_H

/* DETAIL: of use to those who look into how a model is divided and planned.  The values are those of DPX_LOG_... */
typedef enum { LINE_INFO, LINE_WARNING, LINE_DETAIL } LineLevel;
typedef void ProgramLog(void *user, LineLevel level, const char *line);

#endif
