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

/* A few names of a few harnesses: each path is made once and kept, and so is the file that is written. */
static struct Slot {
    char path[4200];
    int fd;
} * find_slot(const char *name)
{
    enum { MOST = 8 };
    static struct Slot slot[MOST];
    size_t folder = strlen(fuzz_folder()) + 1;
    struct Slot *s = slot;

    for (; s < slot + MOST && *s->path; s++)
        if (!strcmp(s->path + folder, name))
            return s;
    MUST(s < slot + MOST, "too many files");
    s->fd = -1;
    snprintf(s->path, sizeof s->path, "%s/%s", fuzz_folder(), name);
    for (char *at = s->path + folder; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        MUST(!mkdir(s->path, 0777) || errno == EEXIST, "%s: %s", s->path, strerror(errno));
    }
    return s;
}

const char *fuzz_path(const char *name) { return find_slot(name)->path; }

const char *fuzz_file(const char *name, const void *data, size_t size)
{
    struct Slot *s = find_slot(name);

    if (s->fd < 0)
        s->fd = open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    MUST(s->fd >= 0 && pwrite(s->fd, data, size, 0) == (ssize_t)size && !ftruncate(s->fd, (off_t)size), "%s: %s",
         s->path, strerror(errno));
    return s->path;
}

/* In place of the C library's: in memory, whatever the disk is. */
FILE *tmpfile(void)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    return fd < 0 ? NULL : fdopen(fd, "w+");
}
