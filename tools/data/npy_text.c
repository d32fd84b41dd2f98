/* Strings in .npy files.  They are read into UTF-8 and written from it, for the library takes and gives nothing else.
 */
#include "tools/data/npy_text.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

static uint32_t code_at(const Array *a, int64_t i)
{
    const unsigned char *c = a->data + 4 * (size_t)i;
    const uint32_t code = c[0] | (uint32_t)c[1] << 8 | (uint32_t)c[2] << 16 | (uint32_t)c[3] << 24;

    return a->swapped ? __builtin_bswap32(code) : code;
}

Status npy_text_read(void **out, const Array *a, const char *label)
{
    const size_t codes = a->map.size / 4; /* no fewer than there are */
    size_t n = 1;
    const dpx_text **element;
    dpx_text *text;
    char *bytes;

    for (int i = 0; i < a->rank; i++)
        n *= (size_t)a->dim[i];
    if (n > SIZE_MAX / 64 || !(element = calloc(n + 1, sizeof *element + sizeof *text + 1 + 4 * (codes / (n + 1) + 1))))
        return FAIL_NOMEM();
    text = (dpx_text *)(void *)(element + n);
    bytes = (char *)(text + n);
    for (size_t i = 0; i < n; i++) {
        int64_t length = a->width; /* code points, without the zeros at the end */

        while (length && !code_at(a, (int64_t)i * a->width + length - 1))
            length--;
        text[i].bytes = bytes;
        for (int64_t k = 0; k < length; k++) {
            const size_t more = utf8_encode(bytes, code_at(a, (int64_t)i * a->width + k));

            if (!more) {
                free(element);
                return FAIL(E_IO, "%s: string %zu has no character at %lld", label, i, (long long)k);
            }
            bytes += more;
        }
        text[i].n = (size_t)(bytes - text[i].bytes);
        element[i] = &text[i];
    }
    *out = element;
    return ST_OK;
}

Status npy_text_width(size_t *out, const dpx_text *const *text, int64_t n, const char *path)
{
    *out = 1; /* numpy has none of width 0 */
    for (int64_t i = 0; i < n; i++) {
        size_t codes = 0;

        for (size_t k = 0; text[i] && k < text[i]->n; k++)
            codes += (text[i]->bytes[k] & 0xc0) != 0x80;
        if (codes && !text[i]->bytes[text[i]->n - 1])
            return FAIL(E_UNSUPPORTED, "%s: string %lld ends with a 0, which numpy drops", path, (long long)i);
        *out = codes > *out ? codes : *out;
    }
    return ST_OK;
}

static void write_code(FILE *to, uint32_t c)
{
    const unsigned char bytes[4] = { (unsigned char)c, (unsigned char)(c >> 8), (unsigned char)(c >> 16),
                                     (unsigned char)(c >> 24) };

    fwrite(bytes, 1, sizeof bytes, to);
}

void npy_text_write(FILE *to, const dpx_text *const *text, int64_t n, size_t width)
{
    for (int64_t i = 0; i < n; i++) {
        size_t codes = 0;

        for (size_t k = 0; text[i] && k < text[i]->n; codes++) {
            const char *at = text[i]->bytes + k;

            write_code(to, *at ? utf8_code(at) : 0);
            k += *at ? (size_t)utf8_length(at) : 1;
        }
        for (; codes < width; codes++)
            write_code(to, 0);
    }
}
