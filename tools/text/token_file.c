/* Writes files of token ids. */
#include "tools/text/token_file.h"

#include <errno.h>
#include <string.h>

#include "tools/data/npy_write.h"

enum { AT_ONCE = 4096 };

static void put_little(unsigned char *to, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

/* The header, for the number of ids so far.  Returns its bytes; 0: there is none. */
static size_t make_header(unsigned char header[LLMC_HEADER], const TokenWriter *w)
{
    memset(header, 0, LLMC_HEADER);
    if (w->format == TOKENS_RAW)
        return 0;
    if (w->format == TOKENS_LLMC) {
        put_little(header, w->bytes == 2 ? LLMC_16 : LLMC_32, 4);
        put_little(header + 4, w->bytes == 2 ? LLMC_16_VERSION : LLMC_32_VERSION, 4);
        put_little(header + 8, (uint32_t)w->n, 4);
        return LLMC_HEADER;
    }
    return npy_header((char *)header, w->bytes == 2 ? "<u2" : "<u4", &w->n, 1); /* of one length for all numbers */
}

Status token_writer_open(TokenWriter *w, const char *path, TokenFormat format, uint32_t vocabulary)
{
    unsigned char header[LLMC_HEADER];

    *w = (TokenWriter){ .format = format, .bytes = vocabulary <= 1 << 16 ? 2 : 4 };
    TRY(outfile_open(&w->file, path));
    fwrite(header, 1, make_header(header, w), outfile_stream(w->file));
    return ST_OK;
}

Status token_writer_add(TokenWriter *w, const uint32_t *id, size_t n)
{
    unsigned char part[4 * AT_ONCE];

    for (size_t i = 0, k; i < n; i += k) {
        k = n - i < AT_ONCE ? n - i : AT_ONCE;
        for (size_t j = 0; j < k; j++)
            put_little(part + j * (size_t)w->bytes, id[i + j], w->bytes);
        if (fwrite(part, (size_t)w->bytes, k, outfile_stream(w->file)) != k)
            return FAIL(E_IO, "cannot write token ids: %s", strerror(errno));
    }
    w->n += (int64_t)n;
    return ST_OK;
}

Status token_writer_close(TokenWriter *w, Status st)
{
    unsigned char header[LLMC_HEADER];
    const size_t n = make_header(header, w);

    if (!st && w->format == TOKENS_LLMC && w->n > INT32_MAX)
        st = FAIL(E_UNSUPPORTED, "%lld tokens, and llm.c's header counts up to %d: write the raw form", (long long)w->n,
                  INT32_MAX);
    if (!st && n && (fseek(outfile_stream(w->file), 0, SEEK_SET) || fwrite(header, 1, n, outfile_stream(w->file)) != n))
        st = FAIL(E_IO, "cannot write the header, which counts the tokens: %s", strerror(errno));
    return w->file ? outfile_close(w->file, st) : st;
}
