/* Laid before the C library by LD_PRELOAD: tests/member/halt.h for a world of sockets. */
#include <dlfcn.h>
#include <sys/socket.h>

#include "tests/member/halt.h"

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    union {
        void *found;
        ssize_t (*call)(int, const struct msghdr *, int);
    } real = { dlsym(RTLD_NEXT, "sendmsg") };

    if (m->msg_iovlen && m->msg_iov[0].iov_len == 2 * sizeof(uint64_t))
        halt_before(m->msg_iov[0].iov_base);
    return real.call(fd, m, flags);
}
