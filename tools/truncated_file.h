/* Handler for SIGBUS: names the mapped file that another process made shorter, and ends the process. */
#ifndef DPX_TRUNCATED_FILE_H
#define DPX_TRUNCATED_FILE_H

/* After this call SIGBUS ends the process with a message that names the file, and with EXIT_FAILED.  For programs
 * alone: in a library signals belong to the host. */
void catch_shrunk_files(void);

#endif
