/* A process of a world that goes no further than a chosen exchange: $HALT says RANK:TURN:SIGNAL, which rank gets the
 * signal (9: is killed, 19: is stopped) before it sends the first of its exchange number TURN.  For libraries that are
 * laid before the real ones by LD_PRELOAD, which see what is sent. */
#ifndef DPX_TESTS_HALT_H
#define DPX_TESTS_HALT_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As the launcher says; -1: there is none. */
static int halt_rank(void)
{
    static const char *const names[] = { "DPEXEC_LAUNCHED", "OMPI_COMM_WORLD_RANK", "PMI_RANK" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

/* `head`: with which a parcel begins (exec/world/internal.h). */
static void halt_before(const void *head)
{
    const char *said = getenv("HALT");
    int rank, number;
    unsigned long long at;
    uint64_t turn;

    if (!said || sscanf(said, "%d:%llu:%d", &rank, &at, &number) != 3)
        return;
    memcpy(&turn, head, sizeof turn);
    if (turn == at && halt_rank() == rank)
        raise(number); /* of this thread, which goes no further */
}

#endif
