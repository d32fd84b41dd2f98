/* Sockets that are polled: every call ends by its deadline. */
#include "exec/world/socket.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "exec/world/internal.h"

int socket_left_ms(double until)
{
    double left = 1e3 * (until - world_now());

    return left <= 0 ? 0 : left < INT_MAX ? (int)left + 1 : INT_MAX;
}

bool socket_move(int fd, void *data, size_t bytes, double until, bool sending)
{
    struct pollfd f = { fd, sending ? POLLOUT : POLLIN, 0 };

    for (size_t done = 0; done < bytes;) {
        ssize_t n;

        if (poll(&f, 1, socket_left_ms(until)) == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        n = sending ? send(fd, (char *)data + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : recv(fd, (char *)data + done, bytes - done, MSG_DONTWAIT);
        if (n == 0)
            errno = ECONNRESET;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

void socket_tune(int fd)
{
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

bool socket_is_loopback(const struct sockaddr *at)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)at)->sin6_addr;

    if (at->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 == 127;
    return at->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

int socket_listen(const struct sockaddr *at, socklen_t n)
{
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, why;

    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) && !bind(fd, at, n) &&
        !listen(fd, SOMAXCONN))
        return fd;
    why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* Where nobody listens at a port of the range from which the kernel takes the ports of connections, it may take that
 * very port and connect the socket to itself.  Such a connection is reset, so that a process can listen there at once.
 */
int socket_connect(const struct sockaddr *to, socklen_t n, double until)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0;
    const struct linger reset = { .l_onoff = 1 };
    struct pollfd f = { fd, POLLOUT, 0 };
    struct sockaddr_storage here = { 0 }, there = { 0 };
    socklen_t len = sizeof why, here_len = sizeof here, there_len = sizeof there;

    if (fd < 0)
        return -1;
    if (connect(fd, to, n) && errno != EINPROGRESS)
        why = errno;
    else if (poll(&f, 1, socket_left_ms(until)) != 1)
        why = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len))
        why = errno;
    else if (!why && !getsockname(fd, (struct sockaddr *)&here, &here_len) &&
             !getpeername(fd, (struct sockaddr *)&there, &there_len) && here_len == there_len &&
             !memcmp(&here, &there, here_len)) {
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        why = ECONNREFUSED;
    }
    if (!why) {
        socket_tune(fd);
        return fd;
    }
    close(fd);
    errno = why;
    return -1;
}
