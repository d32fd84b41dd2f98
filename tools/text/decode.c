/* Puts the bytes of tokens together, and repairs the text that they make. */
#include "tools/text/decode.h"

#include <stdlib.h>

Status decode_tokens(TextBuffer *out, const Tokenizer *t, const uint32_t *id, size_t n)
{
    TextBuffer bytes = { 0 }, repaired = { 0 };
    const char *shown;
    size_t each, replaced, first;
    Status st = ST_OK;

    for (size_t i = 0; !st && i < n; i++) {
        const char *token = tokenizer_bytes(&each, t, id[i]);

        st = text_add(&bytes, token ? token : "\357\277\275", token ? each : 3);
    }
    each = bytes.n;
    st = st || !each ? st : utf8_repair(&shown, &repaired, (const uint8_t *)bytes.text, &each, &replaced, &first);
    st = st || !each ? st : text_add(out, shown, each);
    free(bytes.text);
    free(repaired.text);
    return st;
}
