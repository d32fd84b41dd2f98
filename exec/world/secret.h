/* What all processes of a world know and nobody else: a file's bytes, by which they recognise each other. */
#ifndef DPX_WORLD_SECRET_H
#define DPX_WORLD_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "exec/world/greeting.h"
#include "graph/base/status.h"

enum { SECRET_LEAST = 16, SECRET_MOST = 4096 /* bytes */ };

typedef struct {
    unsigned char byte[SECRET_MOST];
    size_t n; /* 0: there is none, and anybody is believed */
} Secret;

/* A regular file of its owner's only, SECRET_LEAST to SECRET_MOST bytes, all of which count. */
Status secret_read(Secret *out, const char *path) CHECKED;
void secret_forget(Secret *s);

Status secret_nonce(unsigned char out[GREETING_BYTES]) CHECKED;
/* What proves, of one side of a connection, that it knows the secret: both nonces, all that the greeting says, and the
 * side are in it, so it serves for nothing else.  Zeros without a secret. */
typedef enum { SIDE_CLIENT, SIDE_SERVER } Side;
void secret_prove(unsigned char proof[GREETING_BYTES], const Secret *s, Side side, const Hello *h,
                  const unsigned char nonce[GREETING_BYTES]);
/* In a time that tells nothing. */
bool secret_equal(const unsigned char a[GREETING_BYTES], const unsigned char b[GREETING_BYTES]);

#endif
