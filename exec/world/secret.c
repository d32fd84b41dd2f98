/* Proofs are HMAC-SHA256 of libsodium: a small library without dependencies, packaged everywhere, that is hard to
 * misuse. */
#include "exec/world/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

Status secret_read(Secret *out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    unsigned char more;
    struct stat is;
    ssize_t n = 1;
    Status st = ST_OK;

    if (fd < 0)
        return FAIL(E_IO, "secret %s: %s", path, strerror(errno));
    out->n = 0;
    if (fstat(fd, &is))
        st = FAIL(E_IO, "secret %s: %s", path, strerror(errno));
    else if (!S_ISREG(is.st_mode))
        st = FAIL(E_INVALID, "secret %s: expected a regular file", path);
    else if (is.st_mode & 077)
        st = FAIL(E_INVALID, "secret %s: other users may read it (mode %03o): chmod 600", path,
                  (unsigned)is.st_mode & 0777);
    while (!st && n && out->n < sizeof out->byte) {
        if ((n = read(fd, out->byte + out->n, sizeof out->byte - out->n)) < 0)
            st = FAIL(E_IO, "secret %s: %s", path, strerror(errno));
        out->n += n > 0 ? (size_t)n : 0;
    }
    if (!st && out->n == sizeof out->byte && read(fd, &more, 1) == 1)
        st = FAIL(E_INVALID, "secret %s: expected %d to %d bytes, found more", path, SECRET_LEAST, SECRET_MOST);
    else if (!st && out->n < SECRET_LEAST)
        st = FAIL(E_INVALID, "secret %s: expected %d to %d bytes, found %zu", path, SECRET_LEAST, SECRET_MOST, out->n);
    close(fd);
    if (st)
        secret_forget(out);
    return st;
}

void secret_forget(Secret *s) { sodium_memzero(s, sizeof *s); }

/* ---- proofs ---- */

Status secret_nonce(unsigned char out[GREETING_BYTES])
{
    if (sodium_init() < 0)
        return FAIL(E_DEVICE, "no random numbers: libsodium cannot begin");
    randombytes_buf(out, GREETING_BYTES);
    return ST_OK;
}

void secret_prove(unsigned char proof[GREETING_BYTES], const Secret *s, Side side, const Hello *h,
                  const unsigned char nonce[GREETING_BYTES])
{
    static const char *const role[] = { "dpexec client 2", "dpexec server 2" };
    crypto_auth_hmacsha256_state state;

    memset(proof, 0, GREETING_BYTES);
    if (!s->n)
        return;
    crypto_auth_hmacsha256_init(&state, s->byte, s->n);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)role[side], 16);
    crypto_auth_hmacsha256_update(&state, (const unsigned char *)h, sizeof *h);
    crypto_auth_hmacsha256_update(&state, nonce, GREETING_BYTES);
    crypto_auth_hmacsha256_final(&state, proof);
    sodium_memzero(&state, sizeof state);
}

bool secret_equal(const unsigned char a[GREETING_BYTES], const unsigned char b[GREETING_BYTES])
{
    return sodium_memcmp(a, b, GREETING_BYTES) == 0;
}
