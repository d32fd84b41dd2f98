/* The messages by which a connection begins.  The side that connects sends a Hello and gets a Reply with a nonce; it
 * sends a Proof for the nonce and gets a Reply with the other side's proof.  On a machine of other byte order the first
 * number is unknown, so the greeting fails.  No struct here has padding, because proofs are made of bytes. */
#ifndef DPX_WORLD_GREETING_H
#define DPX_WORLD_GREETING_H

#include <stdint.h>

#include "exec/world/world.h"

enum { GREETING_BYTES = 32 /* of a nonce, and of a proof */ };
static const uint64_t GREETING_MAGIC = 0x64706578656333ull; /* "dpexec3": the last byte is the protocol's version */

/* The version in a first number; -1: the other side is no process of dpexec. */
static inline int greeting_version(uint64_t magic)
{
    return magic >> 8 == GREETING_MAGIC >> 8 ? (int)(magic & 0xff) - '0' : -1;
}

typedef struct {
    uint64_t magic, id;      /* id: the number that rank 0 gave this world; 0: not known yet */
    uint64_t machine;        /* equal for processes of one machine */
    int32_t size, rank;      /* of the side that connects */
    int32_t server, channel; /* the rank and the channel that it wants */
    int32_t port;            /* on which it listens itself */
    int32_t secured;         /* it has a secret */
    unsigned char nonce[GREETING_BYTES];
} Hello;

typedef struct {
    uint64_t magic;
    unsigned char proof[GREETING_BYTES];
} Proof;

typedef struct {
    uint64_t magic, id;       /* id: as in Hello; not 0: rank 0's list of processes follows */
    int32_t refused, secured; /* refused: `reason` says why */
    unsigned char nonce[GREETING_BYTES], proof[GREETING_BYTES];
    char reason[WORLD_REASON];
} Reply;

_Static_assert(sizeof(Hello) == 3 * 8 + 6 * 4 + GREETING_BYTES, "no padding");
_Static_assert(sizeof(Proof) == 8 + GREETING_BYTES, "no padding");
_Static_assert(sizeof(Reply) == 2 * 8 + 2 * 4 + 2 * GREETING_BYTES + WORLD_REASON, "no padding");

#endif
