/* Tokenizers: a tokenizer.json up to a zero byte, and behind it a text, which is encoded twice with the same ids; or a
 * model of SentencePiece, which is its own text. */
#include "tests/fuzz/common/fuzz.h"
#include "tools/text/tokenizer.h"

/* A TokenSink: keeps the ids. */
static Status keep(void *user, const uint32_t *id, size_t n, size_t done)
{
    (void)done;
    for (size_t i = 0; i < n; i++)
        TRY(token_ids_add(user, id[i]));
    return ST_OK;
}

static void encode(Tokenizer *t, const uint8_t *text, size_t n)
{
    TokenIds ids[2] = { { 0 } };
    size_t replaced, first;
    Status st[2];

    for (int i = 0; i < 2; i++)
        if ((st[i] = tokenizer_encode(t, text, n, keep, &ids[i], &replaced, &first)))
            fuzz_refused(st[i]);
    if (!st[0] && !st[1]) { /* the second time words are known */
        MUST(ids[0].n == ids[1].n && (!ids[0].n || !memcmp(ids[0].id, ids[1].id, ids[0].n * sizeof *ids[0].id)),
             "%zu ids", ids[0].n);
        for (size_t i = 0; i < ids[0].n; i++)
            MUST(ids[0].id[i] < t->vocabulary, "id %u of %u", ids[0].id[i], t->vocabulary);
    }
    free(ids[0].id);
    free(ids[1].id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    const bool is_model = sentencepiece_is((const char *)data, size);
    const size_t n = end && !is_model ? (size_t)(end - data) : size;
    Tokenizer *t = calloc(1, sizeof *t);
    Status st;

    MUST(t, "memory");
    if ((st = tokenizer_parse(t, (const char *)data, n, "fuzz.json")))
        fuzz_refused(st);
    else if (is_model)
        encode(t, data, size);
    else
        encode(t, data + n + (n < size), size - n - (n < size));
    tokenizer_free(t);
    return 0;
}
