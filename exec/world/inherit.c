/* Joining by inherited connections: pairs of sockets that `dpexec launch` made before it started the processes of this
 * machine.  There is no port, so no other process can connect. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "exec/world/internal.h"

static const char MARK[] = "fd=";

bool rendezvous_is_inherited(const char *rendezvous) { return rendezvous && !strncmp(rendezvous, MARK, strlen(MARK)); }

/* Reads "fd=3,4,5,6" into fd[][N_CHANNELS], one entry for each other rank.  Every descriptor must be a connected
 * stream.
 */
static Status read_list(int fd[][N_CHANNELS], const World *w, const char *text)
{
    const char *at = text + strlen(MARK);
    int *all = &fd[0][0], n = 0, wanted = N_CHANNELS * (w->size - 1);

    for (; *at && n < wanted; n++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer, len = sizeof(int);
        int type = 0;
        char *end;
        long v;

        errno = 0;
        v = strtol(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || errno || v > 1 << 24 || (*end && *end != ','))
            return FAIL(E_INVALID, "rendezvous '%.40s': expected descriptors such as fd=3,4, found '%.20s'", text, at);
        at = *end ? end + 1 : end;
        all[n] = (int)v;
        for (int i = 0; i < n; i++)
            if (all[i] == all[n])
                return FAIL(E_INVALID, "rendezvous: descriptor %d is named twice", all[n]);
        if (getsockopt(all[n], SOL_SOCKET, SO_TYPE, &type, &len) ||
            getpeername(all[n], (struct sockaddr *)&peer, &bytes))
            return FAIL(E_INVALID, "rendezvous: descriptor %d: expected an inherited connection, found: %s", all[n],
                        strerror(errno));
        if (type != SOCK_STREAM)
            return FAIL(E_INVALID, "rendezvous: descriptor %d: expected a connection of bytes, found another kind",
                        all[n]);
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
