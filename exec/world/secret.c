/* Proofs are HMAC-SHA256 of libsodium: small, without dependencies, packaged everywhere, and made for being used right.
 */
#include "exec/world/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

static Status check_file(int fd, const char *path)
{
    struct stat is;

    if (fstat(fd, &is))
        return FAIL(E_IO, "secret %s: %s", path, strerror(errno));
    if (!S_ISREG(is.st_mode))
        return FAIL(E_INVALID, "secret %s: expected a regular file", path);
    if (is.st_mode & 077)
        return FAIL(E_INVALID, "secret %s: others may use it (mode %03o): chmod 600", path,
                    (unsigned)is.st_mode & 0777);
    return ST_OK;
}

static Status read_bytes(Secret *out, int fd, const char *path)
{
    unsigned char more;
    ssize_t n = 1;

    for (out->n = 0; n && out->n < sizeof out->byte; out->n += (size_t)n)
        if ((n = read(fd, out->byte + out->n, sizeof out->byte - out->n)) < 0)
            return FAIL(E_IO, "secret %s: %s", path, strerror(errno));
    if (out->n == sizeof out->byte && read(fd, &more, 1) == 1)
        return FAIL(E_INVALID, "secret %s: expected %d to %d bytes, found more", path, SECRET_LEAST, SECRET_MOST);
    if (out->n < SECRET_LEAST)
        return FAIL(E_INVALID, "secret %s: expected %d to %d bytes, found %zu", path, SECRET_LEAST, SECRET_MOST,
                    out->n);
    return ST_OK;
}

Status secret_read(Secret *out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    Status st;

    if (fd < 0)
        return FAIL(E_IO, "secret %s: %s", path, strerror(errno));
    st = check_file(fd, path);
    if (!st)
        st = read_bytes(out, fd, path);
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
