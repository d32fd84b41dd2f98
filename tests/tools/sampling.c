/* Draws of tokens against the probabilities of a softmax, and spellings of tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"
#include "tools/generate/sampling.h"
#include "tools/text/tokenizer.h"

enum { TOKENS = 5, DRAWS = 40000 };

/* ln of 1, 2, 4, 1, 2 tenths. */
static const double score[TOKENS] = { -2.302585092994046, -1.6094379124341003, -0.916290731874155, -2.302585092994046,
                                      -1.6094379124341003 };

/* Compares the frequencies of draws with probabilities, to five standard deviations of a binomial. */
static void check_shares(Sampling how, const double share[TOKENS])
{
    int64_t seen[TOKENS] = { 0 };
    Candidate room[TOKENS];

    for (int64_t i = 0; i < DRAWS; i++)
        seen[sample_token(&how, score, TOKENS, i, room)]++;
    for (int i = 0; i < TOKENS; i++)
        CU_ASSERT(fabs((double)seen[i] - DRAWS * share[i]) <= 5 * sqrt(DRAWS * share[i] * (1 - share[i])));
}

static void test_shares(void)
{
    check_shares((Sampling){ .temperature = 1, .top_p = 1, .seed = 7 }, (double[]){ .1, .2, .4, .1, .2 });
    /* the squares, of which the sum is 0.26 */
    check_shares((Sampling){ .temperature = .5, .top_p = 1 },
                 (double[]){ .01 / .26, .04 / .26, .16 / .26, .01 / .26, .04 / .26 });
    check_shares((Sampling){ .temperature = 1, .top_p = 1, .top_k = 3 }, (double[]){ 0, .25, .5, 0, .25 });
    check_shares((Sampling){ .temperature = 1, .top_p = 1, .top_k = 9 }, (double[]){ .1, .2, .4, .1, .2 });
    /* 0.4 alone is less than 0.5, with one 0.2 it is more; the first of equal ones stays */
    check_shares((Sampling){ .temperature = 1, .top_p = .5 }, (double[]){ 0, 1 / 3., 2 / 3., 0, 0 });
    check_shares((Sampling){ .temperature = 1, .top_p = .01 }, (double[]){ 0, 0, 1, 0, 0 });
    /* of the three that are left, 0.5 of 1 is reached by the first */
    check_shares((Sampling){ .temperature = 1, .top_p = .5, .top_k = 3 }, (double[]){ 0, 0, 1, 0, 0 });
    check_shares((Sampling){ .temperature = 0, .top_p = 1 }, (double[]){ 0, 0, 1, 0, 0 });
}

/* The tokens of a text spell the text. */
static Status spell(void *user, const uint32_t *id, size_t n, size_t done)
{
    TextBuffer *text = ((void **)user)[0];
    const Tokenizer *t = ((void **)user)[1];

    (void)done;
    for (size_t i = 0; i < n; i++) {
        size_t length = 0;
        const char *bytes = tokenizer_bytes(&length, t, id[i]);

        CU_ASSERT_FATAL(bytes != NULL);
        TRY(text_add(text, bytes, length));
    }
    return ST_OK;
}

static void test_spellings(void)
{
    static const char *const tokenizers[] = { SOURCE_DIR "/tests/cli/tokenize/gpt2.json", "bytes" };
    static char file[1 << 20];
    FILE *f = fopen(SOURCE_DIR "/docs/tutorial/tables.md", "rb");
    const size_t n = f ? fread(file, 1, sizeof file, f) : 0;

    CU_ASSERT_FATAL(n > 0 && n < sizeof file);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        TextBuffer text = { 0 };
        Tokenizer *t;
        size_t replaced, first, none;

        if (!CHECK_OK(tokenizer_open(&t, tokenizers[i])))
            continue;
        CHECK_OK(tokenizer_encode(t, (const uint8_t *)file, n, spell, (void *[]){ &text, t }, &replaced, &first));
        CU_ASSERT_EQUAL(text.n, n);
        CU_ASSERT(text.n == n && !memcmp(text.text, file, n));
        CU_ASSERT_PTR_NULL(tokenizer_bytes(&none, t, TOKEN_ID_MOST));
        free(text.text);
        tokenizer_free(t);
    }
}

DEFINE_SUITE(sampling, { "shares", test_shares }, { "spellings", test_spellings });
