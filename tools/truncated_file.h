/* A mapped file that another process makes shorter takes its pages away: reading them ends the process with SIGBUS. */
#ifndef DPX_TRUNCATED_FILE_H
#define DPX_TRUNCATED_FILE_H

/* From here on that end says which file it was, and is EXIT_FAILED.  For programs alone: signals are the host's. */
void catch_shrunk_files(void);

#endif
