/* TCP sockets of a world, with deadlines on the clock of world_now(). */
#ifndef DPX_WORLD_SOCKET_H
#define DPX_WORLD_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

bool socket_is_loopback(const struct sockaddr *at); /* only this machine reaches the address */
int socket_left_ms(double until);                   /* milliseconds, for poll(); 0: `until` has passed */
/* Lets small messages go at once, and a dead machine be noticed. */
void socket_tune(int fd);
/* Moves all the bytes or returns false with errno; ETIMEDOUT after `until`, ECONNRESET at the end of the connection. */
bool socket_move(int fd, void *data, size_t bytes, double until, bool sending);
/* Return a descriptor, or -1 with errno. */
int socket_listen(const struct sockaddr *at, socklen_t n);
int socket_connect(const struct sockaddr *to, socklen_t n, double until);

#endif
