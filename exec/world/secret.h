/* The secret of a world: the bytes of a file that all of its processes have and nobody else, by which they recognise
 * each other. */
#ifndef DPX_WORLD_SECRET_H
#define DPX_WORLD_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "exec/world/greeting.h"
#include "graph/base/status.h"

enum { SECRET_LEAST = 16, SECRET_MOST = 4096 /* bytes */ };

typedef struct {
    unsigned char byte[SECRET_MOST];
    size_t n; /* 0: there is no secret, and every process is trusted */
} Secret;

/* Reads all bytes of a regular file that only its owner may use: SECRET_LEAST to SECRET_MOST bytes. */
Status secret_read(Secret *out, const char *path) CHECKED;
void secret_forget(Secret *s);

Status secret_nonce(unsigned char out[GREETING_BYTES]) CHECKED;
/* Computes the proof that one side of a connection knows the secret.  It covers both nonces, all of the Hello and the
 * side, so it cannot be used for anything else.  Without a secret it is zeros. */
typedef enum { SIDE_CLIENT, SIDE_SERVER } Side;
void secret_prove(unsigned char proof[GREETING_BYTES], const Secret *s, Side side, const Hello *h,
                  const unsigned char nonce[GREETING_BYTES]);
/* Compares in constant time. */
bool secret_equal(const unsigned char a[GREETING_BYTES], const unsigned char b[GREETING_BYTES]);

#endif
