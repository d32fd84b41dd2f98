/* Unigram tokenizers: divisions of texts that were worked out by hand, and ids turned back to the text that tokenizers
 * makes of them (tests/cli/tokenize_cases.py). */
#include <stdlib.h>
#include <string.h>

#include "graph/base/mapped.h"
#include "tests/harness/test.h"
#include "tools/text/decode.h"

#define CASES SOURCE_DIR "/tests/cli/tokenize/"

/* Adds pieces "abc" with their scores; the first is unknown. */
static Unigram *make_model(bool bytes)
{
    static const struct {
        const char *piece;
        double score;
    } pieces[] = { { "<unk>", 0 },    { "a", 0 },  { "b", 0 },        { "c", 0 },     { "d", 0 },
                   { "cd", 1 },       { "ab", 2 }, { "abc", 5 },      { "abcd", 10 }, { "<0xC3>", -20 },
                   { "<0xA9>", -20 }, { "", 0 },   { "\xC3\xA4", -3 } };
    Unigram *u;

    CU_ASSERT_FATAL(!unigram_create(&u));
    for (uint32_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        CHECK_OK(unigram_add(u, pieces[i].piece, strlen(pieces[i].piece), pieces[i].score, i));
    unigram_complete(u, 0, bytes);
    return u;
}

static void encode(Unigram *u, const char *text, const char *expected)
{
    TokenIds ids = { 0 };
    char found[256] = "";

    CHECK_OK(unigram_encode(u, text, strlen(text), &ids));
    for (size_t i = 0; i < ids.n; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%u", i ? " " : "", ids.id[i]);
    CHECK_STR(expected, found);
    free(ids.id);
}

/* The first is the example of tokenizers' own documentation of Unigram. */
static void test_pieces(void)
{
    Unigram *u = make_model(false);

    encode(u, "abcdacdxx", "8 1 5 0");
    encode(u, "abab", "6 6");
    encode(u,
           "xaxx\xC3\xA9"
           "b",
           "0 1 0 2");
    encode(u, "\xC3\xA4", "12");
    encode(u, "<unk>", "0");
    encode(u, "", "");
    CU_ASSERT_EQUAL(unigram_find(u, "abc", 3), 7);
    CU_ASSERT_EQUAL(unigram_find(u, "abx", 3), TOKEN_NONE);
    unigram_free(u);
    u = make_model(true);
    encode(u,
           "a\xC3\xA9\xC3\xA9"
           "a",
           "1 9 10 9 10 1");
    encode(u, "ax\xC3\xA9", "1 0"); /* no piece for the byte x */
    unigram_complete(u, TOKEN_NONE, false);
    CHECK_FAILS(E_INVALID, "no piece for 'x'", unigram_encode(u, "ax", 2, &(TokenIds){ 0 }));
    unigram_free(u);
}

static void decode(const char *kind)
{
    TextBuffer out = { 0 };
    TokenIds ids = { 0 };
    size_t replaced, first;
    char path[256];
    Mapped text, expected;
    Tokenizer *t;

    snprintf(path, sizeof path, CASES "%s.json", kind);
    CU_ASSERT_FATAL(!tokenizer_open(&t, path));
    snprintf(path, sizeof path, CASES "%s.decoded.txt", kind);
    CU_ASSERT_FATAL(!mapped_open(&text, CASES "text.txt") && !mapped_open(&expected, path));
    CHECK_OK(tokenizer_encode(t, text.data, text.size, token_ids_take, &ids, &replaced, &first));
    CHECK_OK(decode_tokens(&out, t, ids.id, ids.n));
    if (out.n != expected.size || memcmp(out.text, expected.data, out.n) != 0)
        TEST_FAIL("%s: %zu bytes, expected %zu", kind, out.n, expected.size);
    mapped_close(&text);
    mapped_close(&expected);
    free(out.text);
    free(ids.id);
    tokenizer_free(t);
}

static void test_decoded(void)
{
    decode("t5");
    decode("xlm");
    decode("albert");
}

DEFINE_SUITE(unigram, { "pieces", test_pieces }, { "back to text", test_decoded });
