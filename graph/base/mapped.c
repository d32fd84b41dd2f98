/* Files mapped for reading.  A FIFO or a device is refused without waiting for it.  The mapping is private.  If another
 * process truncates the file while it is read, this process is killed; mappings have no defence against that. */
#include "graph/base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

Status mapped_fd(Mapped *out, int fd, const char *path)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st))
        return FAIL(E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FAIL(E_IO, "%s: not a regular file", path);
    if (st.st_size == 0)
        return FAIL(E_IO, "%s: the file is empty", path);
    if ((p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        return FAIL(E_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    *out = (Mapped){ p, (size_t)st.st_size };
    return ST_OK;
}

Status mapped_open(Mapped *out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    Status st;

    if (fd < 0)
        return FAIL(E_IO, "%s: %s", path, strerror(errno));
    st = mapped_fd(out, fd, path);
    close(fd);
    return st;
}

void mapped_forget(const Mapped *m)
{
    if (m->data)
        (void)madvise((void *)(uintptr_t)m->data, m->size, MADV_DONTNEED); /* advice that may be ignored */
}

void mapped_close(Mapped *m)
{
    if (m->data)
        munmap((void *)(uintptr_t)m->data, m->size);
    *m = (Mapped){ NULL, 0 };
}
