/* tokens:FILE: token ids as nanoGPT, llm.c and NumPy write them. */
#include <string.h>
#include <xxhash.h>

#include "tools/data/token_windows.h"
#include "tools/text/token_file.h"

static const DataOption options[] = { TOKEN_WINDOW_OPTIONS,
                                      { "dtype", "uint16|uint32|uint8", "of ids without a header [uint16]" },
                                      { NULL, NULL, NULL } };

static uint32_t word_at(const unsigned char *p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }

/* Finds the ids behind llm.c's header, if there is one. */
static Status read_header(Array *a, const char *path, bool *found)
{
    const unsigned char *p = a->map.data;
    const bool wide = a->map.size >= LLMC_HEADER && word_at(p) == LLMC_32 && word_at(p + 4) == LLMC_32_VERSION;
    const bool narrow = a->map.size >= LLMC_HEADER && word_at(p) == LLMC_16 && word_at(p + 4) == LLMC_16_VERSION;
    const size_t bytes = wide ? 4 : 2;

    if (!(*found = wide || narrow))
        return ST_OK;
    if ((a->map.size - LLMC_HEADER) / bytes != word_at(p + 8) || (a->map.size - LLMC_HEADER) % bytes)
        return FAIL(E_IO, "%s: llm.c's header counts %u tokens, and %zu bytes follow it", path, word_at(p + 8),
                    a->map.size - LLMC_HEADER);
    a->dtype = wide ? DPX_UINT32 : DPX_UINT16;
    a->data = p + LLMC_HEADER;
    a->dim[0] = word_at(p + 8);
    return ST_OK;
}

static Status read_raw(Array *a, const Source *s)
{
    static const struct {
        const char *name;
        dpx_dtype dtype;
    } types[] = { { "uint16", DPX_UINT16 }, { "uint32", DPX_UINT32 }, { "uint8", DPX_UINT8 } };
    const char *name = source_value(s, "dtype");
    bool found;

    TRY(read_header(a, s->path, &found));
    if (found)
        return name ? FAIL(E_INVALID, "%s: dtype is for files without a header; this one has llm.c's", s->text) : ST_OK;
    a->dtype = name ? DPX_FLOAT32 : DPX_UINT16;
    for (size_t i = 0; i < sizeof types / sizeof *types && name; i++)
        if (!strcmp(types[i].name, name))
            a->dtype = types[i].dtype;
    if (a->dtype == DPX_FLOAT32)
        return FAIL(E_INVALID, "%s: dtype: expected uint16, uint32 or uint8, found '%s'", s->text, name);
    if (a->map.size % dpx_dtype_size(a->dtype))
        return FAIL(E_IO, "%s: %zu bytes are no ids of %zu bytes; give dtype=", s->path, a->map.size,
                    dpx_dtype_size(a->dtype));
    a->data = a->map.data;
    a->dim[0] = (int64_t)(a->map.size / dpx_dtype_size(a->dtype));
    return ST_OK;
}

static Status read_tokens(Dataset *d, const Source *s, const SourceContext *c)
{
    Array a = { .rank = 1 };
    uint64_t identity;

    if (ends_with(s->path, ".npy")) {
        if (source_value(s, "dtype"))
            return FAIL(E_INVALID, "%s: dtype is for files without a header", s->text);
        TRY(token_windows_npy(&a, s->path));
    } else {
        Status st;

        TRY(mapped_open(&a.map, s->path));
        if ((st = read_raw(&a, s))) {
            mapped_close(&a.map);
            return st;
        }
    }
    identity = XXH3_64bits(a.data, (size_t)a.dim[0] * dpx_dtype_size(a.dtype));
    return token_windows_add(d, &a, identity, s, c);
}

DEFINE_DATA_FORMAT(tokens, .form = "tokens:FILE.bin", .help = "token ids: windows of them and the next ids as target",
                   .prefix = "tokens:", .options = options, .read = read_tokens, .fit = token_windows_fit);
