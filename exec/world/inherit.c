/* Joining by connections that this process was started with, as `dpexec launch` hands them on: pairs of sockets of one
 * machine, so there is neither a port nor anybody else who could come. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "exec/world/internal.h"

static const char MARK[] = "fd=";

bool inherit_is_meant(const char *rendezvous) { return rendezvous && !strncmp(rendezvous, MARK, strlen(MARK)); }

/* The next number of a list that commas separate. */
static Status next_number(int *out, const char **at, const char *text)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(*at, &end, 10);
    if (end == *at || **at < '0' || **at > '9' || errno || v > 1 << 24 || (*end && *end != ','))
        return FAIL(E_INVALID, "rendezvous '%.40s': expected descriptors such as fd=3,4, found '%.20s'", text, *at);
    *at = *end ? end + 1 : end;
    *out = (int)v;
    return ST_OK;
}

/* A stream that is connected with somebody. */
static Status check_socket(int fd)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at, len = sizeof(int);
    int type = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || getpeername(fd, (struct sockaddr *)&at, &n))
        return FAIL(E_INVALID, "rendezvous: descriptor %d: expected an inherited connection, found: %s", fd,
                    strerror(errno));
    if (type != SOCK_STREAM)
        return FAIL(E_INVALID, "rendezvous: descriptor %d: expected a connection of bytes, found another kind", fd);
    return ST_OK;
}

static Status read_list(int fd[][N_CHANNELS], const World *w, const char *text)
{
    const char *at = text + strlen(MARK);
    int *all = &fd[0][0], n = 0, wanted = N_CHANNELS * (w->size - 1);

    for (; *at && n < wanted; n++) {
        TRY(next_number(&all[n], &at, text));
        for (int i = 0; i < n; i++)
            if (all[i] == all[n])
                return FAIL(E_INVALID, "rendezvous: descriptor %d is named twice", all[n]);
        TRY(check_socket(all[n]));
    }
    if (n < wanted || *at)
        return FAIL(E_INVALID, "rendezvous: a world of %d processes takes %d descriptors, found %s", w->size, wanted,
                    n < wanted ? "less" : "more");
    return ST_OK;
}

/* From here on the descriptors are the world's. */
Status inherit_connections(World *w, const char *rendezvous)
{
    int fd[WORLD_MAX][N_CHANNELS], n = 0;

    TRY(read_list(fd, w, rendezvous));
    for (int r = 0; r < w->size; r++)
        for (int c = 0; c < N_CHANNELS && r != w->rank; c++) {
            w->peer[r].fd[c] = fd[n][c];
            if (fcntl(fd[n][c], F_SETFD, FD_CLOEXEC))
                return FAIL(E_DEVICE, "rendezvous: descriptor %d: %s", fd[n][c], strerror(errno));
            n += c + 1 == N_CHANNELS;
        }
    w->neighbours = w->size;
    return ST_OK;
}
