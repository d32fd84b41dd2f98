/* In place of graph/base/mapped.c: files lie in heap blocks of just their size, so that AddressSanitizer sees a read
 * behind the end, which a mapping hides up to the end of its page. */
#include "graph/base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Status mapped_fd(Mapped *out, int fd, const char *path)
{
    struct stat st;
    uint8_t *data;

    if (fstat(fd, &st))
        return FAIL(E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FAIL(E_IO, "%s: not a regular file", path);
    if (st.st_size == 0)
        return FAIL(E_IO, "%s: the file is empty", path);
    if (!(data = malloc((size_t)st.st_size)))
        return FAIL_NOMEM();
    if (pread(fd, data, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
        free(data);
        return FAIL(E_IO, "%s: cannot be read", path);
    }
    *out = (Mapped){ data, (size_t)st.st_size };
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

void mapped_forget(const Mapped *m) { (void)m; } /* a block is read again as it is */

void mapped_close(Mapped *m)
{
    free((void *)(uintptr_t)m->data);
    *m = (Mapped){ NULL, 0 };
}
