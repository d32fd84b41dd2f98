/* Handler for SIGBUS: names the mapped file that another process made shorter, and ends the process. */
#ifndef DPX_TRUNCATED_FILE_H
#define DPX_TRUNCATED_FILE_H

/* Installs the handler: from now on such a SIGBUS ends the process with a message that names the file, and with
 * EXIT_FAILED.  Only for programs: in a library, signals belong to the host. */
void report_truncated_files(void);

#endif
