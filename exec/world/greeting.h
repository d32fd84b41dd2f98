/* How a connection begins, whoever makes it: who connects sends a Hello, gets a Reply with a nonce, sends a Proof for
 * it and gets a Reply with the other side's.  Read the other way round on a machine of other byte order, the first
 * number is none that anybody knows.  No struct here has padding: what is proved is bytes. */
#ifndef DPX_WORLD_GREETING_H
#define DPX_WORLD_GREETING_H

#include <stdint.h>

#include "exec/world/world.h"

enum { GREETING_BYTES = 32 /* of a nonce, and of a proof */ };
static const uint64_t GREETING_MAGIC = 0x64706578656333ull; /* "dpexec3": the last is the version of all that is said */

/* The version that a first number tells; -1: it is no process of dpexec. */
static inline int greeting_version(uint64_t magic)
{
    return magic >> 8 == GREETING_MAGIC >> 8 ? (int)(magic & 0xff) - '0' : -1;
}

typedef struct {
    uint64_t magic, id;      /* id: rank 0's number of this world, once it is known; tells it from others */
    uint64_t machine;        /* equal for processes of one machine */
    int32_t size, rank;      /* of who connects */
    int32_t server, channel; /* the rank that it wants, and what for */
    int32_t port;            /* where it listens itself */
    int32_t secured;         /* it has a secret */
    unsigned char nonce[GREETING_BYTES];
} Hello;

typedef struct {
    uint64_t magic;
    unsigned char proof[GREETING_BYTES];
} Proof;

typedef struct {
    uint64_t magic, id;       /* id: as in Hello, with rank 0's list of processes */
    int32_t refused, secured; /* refused: `reason` says why */
    unsigned char nonce[GREETING_BYTES], proof[GREETING_BYTES];
    char reason[WORLD_REASON];
} Reply;

_Static_assert(sizeof(Hello) == 3 * 8 + 6 * 4 + GREETING_BYTES, "no padding");
_Static_assert(sizeof(Proof) == 8 + GREETING_BYTES, "no padding");
_Static_assert(sizeof(Reply) == 2 * 8 + 2 * 4 + 2 * GREETING_BYTES + WORLD_REASON, "no padding");

#endif
