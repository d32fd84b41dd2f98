/* UTF-8 with replacements, and normalisation form C: expected values are those of Python's decode and unicodedata. */
#include "tools/text/utf8_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"

/* bytes.decode(errors="replace") */
static void test_repair(void)
{
    static const struct {
        const char *text, *repaired;
        size_t replaced, first;
    } cases[] = {
        { "a\xC3\xA9", "a\xC3\xA9", 0, 0 },
        { "a\xE2\x82z", "a\xEF\xBF\xBDz", 1, 1 },                                           /* cut off: one */
        { "\xF0\x9F\x98", "\xEF\xBF\xBD", 1, 0 },                                           /* by the end */
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 3, 0 },                   /* a surrogate: three */
        { "\xC0\xAF.", "\xEF\xBF\xBD\xEF\xBF\xBD.", 2, 0 },                                 /* overlong */
        { "x\xF4\x90\x80\x80", "x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 4, 1 }, /* beyond U+10FFFF */
        { "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 4, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TextBuffer b = { 0 };
        const char *out;
        size_t n = strlen(cases[i].text), replaced, first = 0;

        if (CHECK_OK(utf8_repair(&out, &b, (const uint8_t *)cases[i].text, &n, &replaced, &first))) {
            CU_ASSERT(n == strlen(cases[i].repaired) && !memcmp(out, cases[i].repaired, n));
            CU_ASSERT_EQUAL(replaced, cases[i].replaced);
            CU_ASSERT_EQUAL(first, cases[i].first);
        }
        free(b.text);
    }
}

/* unicodedata.normalize("NFC", text) */
static void test_compose(void)
{
    static const char *const cases[][2] = {
        { "plain", "plain" },
        { "e\u0301 a\u0308", "\u00e9 \u00e4" },
        { "q\u0307\u0323!", "q\u0323\u0307!" },               /* marks in order */
        { "\u1112\u1161\u11ab\u1100\u1173", "\ud55c\uadf8" }, /* Hangul */
        { "\uc0ac\u11a7\u11ab", "\uc0ac\u11a7\u11ab" },       /* U+11A7 is no final consonant */
        { "\u11a7\uac00\u11a7", "\u11a7\uac00\u11a7" },
        { "\u212b\uf900", "\u00c5\u8c48" },
    };
    TextBuffer many = { 0 };
    TextBuffer b = { 0 };
    const char *out;
    size_t n;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        n = strlen(cases[i][0]);
        if (CHECK_OK(text_normalise(&out, &b, cases[i][0], &n, TEXT_NFC)))
            CU_ASSERT(n == strlen(cases[i][1]) && !memcmp(out, cases[i][1], n));
    }
    for (int i = 0; i < 5000; i++)
        CHECK_OK(text_add(&many, "\u0301", 2));
    n = many.n;
    CHECK_FAILS(E_UNSUPPORTED, "more than 4096 combining marks", text_normalise(&out, &b, many.text, &n, TEXT_NFC));
    free(many.text);
    free(b.text);
}

DEFINE_SUITE(utf8_text, { "repair", test_repair }, { "compose", test_compose });
