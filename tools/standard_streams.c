/* Standard streams.  A closed descriptor is opened on /dev/null, so that no file of the run gets its number, and with
 * it text that is meant for a terminal.  Standard output is opened there for reading, so that writes fail; tool_end
 * reports that. */
#include "tools/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/openmp_spin.h"
#include "tools/truncated_file.h"

void tool_begin(const char *name, char **argv)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            _exit(EXIT_FAILED);
    limit_spinning(argv);
    (void)prctl(PR_SET_NAME, name); /* limit_spinning executes /proc/self/exe, whose name would be "exe" */
    report_truncated_files();
}

int tool_end(const char *name, int code)
{
    errno = 0;
    if ((!fflush(stdout) && !ferror(stdout)) || code != EXIT_DONE)
        return code;
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", name,
            errno ? ": " : "", /* 0: an earlier write failed */
            errno == EBADF ? "it is closed"
            : errno        ? strerror(errno)
                           : "");
    return EXIT_FAILED;
}
