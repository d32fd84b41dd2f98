/* Sockets of a world: TCP with deadlines on the clock of world_now(). */
#ifndef DPX_WORLD_SOCKET_H
#define DPX_WORLD_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

bool socket_is_loopback(const struct sockaddr *at); /* nothing outside this machine reaches it */
int socket_left_ms(double until);                   /* for poll(); 0: it is over */
/* Small messages go at once, and a dead machine is noticed. */
void socket_tune(int fd);
/* Moves all the bytes or returns false with errno; ETIMEDOUT after `until`, ECONNRESET at the end of the connection. */
bool socket_move(int fd, void *data, size_t bytes, double until, bool sending);
/* -1 with errno. */
int socket_listen(const struct sockaddr *at, socklen_t n);
int socket_connect(const struct sockaddr *to, socklen_t n, double until);

#endif
