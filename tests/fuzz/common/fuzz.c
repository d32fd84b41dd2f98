/* Files for what reads files, and what holds of every refusal. */
#include "tests/fuzz/common/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/foreign.h"

void fuzz_refused(Status st)
{
    const char *m = status_message();

    MUST(st < 0, "status %d", (int)st);
    MUST(*m, "an empty message");
    for (int n; *m; m += n)
        MUST((n = foreign_length(m)), "a message with the byte 0x%02x", (unsigned char)*m);
}

const char *fuzz_folder(void)
{
    static char folder[4096];
    const char *tmp = getenv("TMPDIR");

    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        MUST(mkdtemp(folder), "%s: %s", folder, strerror(errno));
    }
    return folder;
}

/* A few names of a few harnesses: each path is made once and kept. */
const char *fuzz_path(const char *name)
{
    enum { MOST = 8 };
    static char path[MOST][4200];
    const char *slash;
    int i;

    for (i = 0; i < MOST && *path[i]; i++)
        if ((slash = path[i] + strlen(fuzz_folder()) + 1) && !strcmp(slash, name))
            return path[i];
    MUST(i < MOST, "too many files");
    snprintf(path[i], sizeof path[i], "%s/%s", fuzz_folder(), name);
    for (char *at = path[i] + strlen(fuzz_folder()) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        MUST(!mkdir(path[i], 0777) || errno == EEXIST, "%s: %s", path[i], strerror(errno));
    }
    return path[i];
}

const char *fuzz_file(const char *name, const void *data, size_t size)
{
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size && !close(fd), "%s: %s", path, strerror(errno));
    return path;
}

/* In place of the C library's: in memory, whatever the disk is. */
FILE *tmpfile(void)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    return fd < 0 ? NULL : fdopen(fd, "w+");
}
