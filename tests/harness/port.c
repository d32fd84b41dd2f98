#include "tests/harness/port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    int found = s >= 0 && !bind(s, (struct sockaddr *)&at, n) && !getsockname(s, (struct sockaddr *)&at, &n);

    if (s >= 0)
        close(s);
    return found ? ntohs(at.sin_port) : 0;
}
