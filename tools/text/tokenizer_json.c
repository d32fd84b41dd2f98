/* Reader of tokenizer.json, the format of Hugging Face's tokenizers: byte-level BPE and Unigram.
 *
 * The file says much that changes no id of encode(text, add_special_tokens=False): post_processor, decoder, and
 * truncation and padding, which are for batches, but for the id that pads.  The rest is followed, or refused by name,
 * all at once. */
#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "tools/text/tokenizer.h"

/* ByteLevel's own pattern, that of GPT-2. */
static const char *const byte_level_pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define SPACE "\342\226\201"          /* U+2581, which stands for a space in pieces */
#define UNKNOWN_TEXT " \342\201\207 " /* what SentencePiece writes for an unknown piece */

static bool is_blank(const json_t *j) { return !j || json_is_null(j) || (json_is_string(j) && !json_string_length(j)); }

static const char *type_of(const json_t *j)
{
    const char *type = json_string_value(json_object_get(j, "type"));

    return type ? type : "without a type";
}

static bool is_unigram(const json_t *model) { return !strcmp(type_of(model), "Unigram"); }

/* The ids of a vocabulary; TOKEN_NONE: it lacks the token. */
static uint32_t token_id(const json_t *vocab, const char *token)
{
    const json_t *id = json_object_get(vocab, token);

    return id ? (uint32_t)json_integer_value(id) : TOKEN_NONE;
}

/* ---- model ---- */

/* The characters of bytes: printable bytes of Latin-1 are themselves, the others U+0100, U+0101 ... in order. */
static void byte_characters(uint32_t character[256])
{
    uint32_t next = 0x100;

    for (uint32_t i = 0; i < 256; i++)
        character[i] = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174 ? i : next++;
}

/* Turns the characters of a token into the bytes that they stand for; 0: it has none or other characters. */
static size_t token_bytes(char *out, const char *token, const uint32_t character[256])
{
    size_t n = 0;

    for (int len; *token; token += len) {
        uint32_t c, byte = 0;

        if (!(len = utf8_length(token)))
            return 0;
        for (c = utf8_code(token); byte < 256 && character[byte] != c;)
            byte++;
        if (byte == 256)
            return 0;
        out[n++] = (char)byte;
    }
    return n;
}

/* Checks the ids, and sets the tokens of bytes and the size of the vocabulary. */
static void read_vocabulary(Tokenizer *t, json_t *vocab, Problems *wrong)
{
    uint32_t character[256];
    const char *token;
    json_t *id;

    json_object_foreach(vocab, token, id)
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > TOKEN_ID_MOST) {
            problems_add(wrong, "the id of token '%.40s' is no whole number from 0 to %d", token, TOKEN_ID_MOST);
            return;
        } else if (json_integer_value(id) >= t->vocabulary) {
            t->vocabulary = (uint32_t)json_integer_value(id) + 1;
        }
    byte_characters(character);
    for (uint32_t i = 0; i < 256; i++) {
        char text[8] = "";

        utf8_encode(text, character[i]);
        bpe_set_byte(t->bpe, (uint8_t)i, token_id(vocab, text));
    }
}

/* Reads "left right" or ["left", "right"] as two texts, which the caller frees. */
static bool read_merge(char **left, char **right, const json_t *merge)
{
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    const char *a = json_string_value(json_array_get(merge, 0)), *b = json_string_value(json_array_get(merge, 1));

    *left = *right = NULL;
    if (text ? !space || strchr(space + 1, ' ') : !a || !b || json_array_size(merge) != 2)
        return false;
    *left = text ? strndup(text, (size_t)(space - text)) : strdup(a);
    *right = strdup(text ? space + 1 : b);
    return true;
}

static Status read_merges(Tokenizer *t, const json_t *vocab, const json_t *merges, Problems *wrong)
{
    json_t *merge;
    size_t i;

    json_array_foreach(merges, i, merge) {
        char *left, *right, *both = NULL;
        const bool good = read_merge(&left, &right, merge);
        uint32_t l = 0, r = 0, m = 0;

        if (good && left && right && (both = malloc(strlen(left) + strlen(right) + 1))) {
            strcpy(both, left);
            strcat(both, right);
            l = token_id(vocab, left);
            r = token_id(vocab, right);
            m = token_id(vocab, both);
            if (l == TOKEN_NONE || r == TOKEN_NONE || m == TOKEN_NONE)
                problems_add(wrong, "merge %zu: the vocabulary lacks '%.40s'", i,
                             l == TOKEN_NONE   ? left
                             : r == TOKEN_NONE ? right
                                               : both);
            else
                bpe_add_merge(t->bpe, l, r, m);
        }
        free(left);
        free(right);
        if (good && !both)
            return FAIL_NOMEM();
        free(both);
        if (!good)
            problems_add(wrong, "merge %zu is no pair of tokens", i);
        if (wrong->n > 8)
            return ST_OK;
    }
    return ST_OK;
}

/* Keeps the bytes of each token.  `words`: for files that look words up before they merge, they are words, too. */
static Status read_spellings(Tokenizer *t, json_t *vocab, bool words)
{
    uint32_t character[256];
    const char *token;
    json_t *id;

    if (!(t->spelling = calloc((size_t)t->vocabulary + 1, sizeof *t->spelling)))
        return FAIL_NOMEM();
    t->n_spelling = t->vocabulary;
    byte_characters(character);
    json_object_foreach(vocab, token, id) {
        struct TokenSpelling *s = &t->spelling[json_integer_value(id)];

        s->at = t->spelled.n;
        TRY(text_add(&t->spelled, token, strlen(token) + 1)); /* no token has more bytes than characters' bytes */
        s->n = token_bytes(t->spelled.text + s->at, token, character);
        t->spelled.n = s->at + s->n;
        if (words && s->n)
            TRY(bpe_add_word(t->bpe, t->spelled.text + s->at, s->n, (uint32_t)json_integer_value(id)));
    }
    return ST_OK;
}

/* Keeps the bytes of a piece, in which "\u2581" is a space. */
static Status spell_piece(Tokenizer *t, size_t id, const char *piece, size_t n)
{
    const char *end = piece + n;

    t->spelling[id].at = t->spelled.n;
    for (const char *space; (space = memmem(piece, (size_t)(end - piece), SPACE, strlen(SPACE)));
         piece = space + strlen(SPACE)) {
        TRY(text_add(&t->spelled, piece, (size_t)(space - piece)));
        TRY(text_add(&t->spelled, " ", 1));
    }
    TRY(text_add(&t->spelled, piece, (size_t)(end - piece)));
    t->spelling[id].n = t->spelled.n - t->spelling[id].at;
    return ST_OK;
}

/* Keeps the bytes of each piece; with byte_fallback <0x0A> is a byte. */
static Status read_piece_spellings(Tokenizer *t, const json_t *vocab, bool bytes)
{
    json_t *pair;
    size_t i;

    if (!(t->spelling = calloc((size_t)t->vocabulary + 1, sizeof *t->spelling)))
        return FAIL_NOMEM();
    t->n_spelling = t->vocabulary;
    json_array_foreach(vocab, i, pair) {
        const char *piece = json_string_value(json_array_get(pair, 0));
        unsigned byte;
        int end = 0;

        char c;

        if (bytes && sscanf(piece, "<0x%2X>%n", &byte, &end) == 1 && end == 6 && !piece[6]) {
            c = (char)byte;
            TRY(spell_piece(t, i, &c, 1));
        } else {
            TRY(spell_piece(t, i, piece, strlen(piece)));
        }
    }
    return ST_OK;
}

/* The score that tokenizers gets from a number in the file.  Its parser divides the digits, as a whole number, by a
 * power of ten, which is a bit off for many: -5.9158132328324164 becomes -5.915813232832416.  Such bits decide between
 * divisions of a text whose sums would be equal. */
static double read_score(const json_t *number)
{
    const double v = json_number_value(number);
    char text[NUMBER_TEXT], power[NUMBER_TEXT];
    bool behind = false; /* the point */
    uint64_t digits = 0;
    int exponent = 0;
    const char *at;
    double scale, score;

    for (at = text_float64(text, v < 0 ? -v : v); (*at >= '0' && *at <= '9') || *at == '.'; at++)
        if (*at == '.') {
            behind = true;
        } else {
            digits = digits * 10 + (uint64_t)(*at - '0');
            exponent -= behind;
        }
    exponent += *at == 'e' ? (int)strtol(at + 1, NULL, 10) : 0;
    snprintf(power, sizeof power, "1e%d", exponent < 0 ? -exponent : exponent);
    if (!text_to_float64(&scale, power, strlen(power)) || scale > DBL_MAX)
        return v;
    score = exponent < 0 ? (double)digits / scale : (double)digits * scale;
    return v < 0 ? -score : score;
}

/* Reads the pieces and their scores: [["<unk>", 0.0], ["\u2581the", -3.1], ...]. */
static Status read_pieces(Tokenizer *t, const json_t *vocab, Problems *wrong)
{
    json_t *pair;
    size_t i;

    json_array_foreach(vocab, i, pair) {
        const char *piece = json_string_value(json_array_get(pair, 0));
        const json_t *score = json_array_get(pair, 1);

        if (!piece || !json_is_number(score) || json_array_size(pair) != 2) {
            problems_add(wrong, "piece %zu of the vocabulary is no text with a score", i);
            return ST_OK;
        }
        TRY(unigram_add(t->unigram, piece, strlen(piece), read_score(score), (uint32_t)i));
    }
    return ST_OK;
}

static Status read_unigram(Tokenizer *t, const json_t *model, Problems *wrong)
{
    const json_t *vocab = json_object_get(model, "vocab"), *unknown = json_object_get(model, "unk_id");
    const bool bytes = json_is_true(json_object_get(model, "byte_fallback"));
    const json_int_t id = json_integer_value(unknown);

    if (!json_is_array(vocab) || !json_array_size(vocab) || json_array_size(vocab) > TOKEN_ID_MOST) {
        problems_add(wrong, "model Unigram without a list vocab of 1 to %d pieces", TOKEN_ID_MOST);
        return ST_OK;
    }
    if (!is_blank(unknown) && (!json_is_integer(unknown) || id < 0 || (size_t)id >= json_array_size(vocab))) {
        problems_add(wrong, "model.unk_id is no id of the vocabulary");
        return ST_OK;
    }
    TRY(unigram_create(&t->unigram));
    t->vocabulary = (uint32_t)json_array_size(vocab);
    TRY(read_pieces(t, vocab, wrong));
    unigram_complete(t->unigram, is_blank(unknown) ? TOKEN_NONE : (uint32_t)id, bytes);
    return wrong->n ? ST_OK : read_piece_spellings(t, vocab, bytes);
}

static Status read_model(Tokenizer *t, const json_t *model, Problems *wrong)
{
    json_t *vocab = json_object_get(model, "vocab");
    const json_t *merges = json_object_get(model, "merges"), *type = json_object_get(model, "type");
    const json_t *dropout = json_object_get(model, "dropout");

    if (is_unigram(model))
        return read_unigram(t, model, wrong);
    if (!json_is_object(model) || (type && strcmp(type_of(model), "BPE"))) {
        problems_add(wrong, "model %.40s (expected BPE or Unigram)", type_of(model));
        return ST_OK;
    }
    if (!json_is_object(vocab) || !json_is_array(merges)) {
        problems_add(wrong, "model BPE without vocab and merges");
        return ST_OK;
    }
    if (!is_blank(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        problems_add(wrong, "model.dropout");
    if (!is_blank(json_object_get(model, "continuing_subword_prefix")))
        problems_add(wrong, "model.continuing_subword_prefix");
    if (!is_blank(json_object_get(model, "end_of_word_suffix")))
        problems_add(wrong, "model.end_of_word_suffix");
    t->vocabulary = 0;
    TRY(bpe_create(&t->bpe, json_array_size(merges)));
    read_vocabulary(t, vocab, wrong);
    if (!wrong->n)
        TRY(read_merges(t, vocab, merges, wrong));
    return wrong->n ? ST_OK : read_spellings(t, vocab, json_is_true(json_object_get(model, "ignore_merges")));
}

/* ---- pre_tokenizer ---- */

/* Adds a step; a pattern that is refused is a problem. */
static Status add_step(Tokenizer *t, SplitStep s, const char *pattern, bool literal, Problems *wrong)
{
    Status st = pattern ? split_pattern_create(&s.pattern, pattern, literal) : ST_OK;

    if (st == E_NOMEM)
        return st;
    if (st)
        problems_add(wrong, "pre_tokenizer: %s", status_message());
    else
        t->step[t->n_step++] = s;
    return ST_OK;
}

static Status read_split(Tokenizer *t, const json_t *j, Problems *wrong)
{
    const json_t *pattern = json_object_get(j, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(j, "behavior"));
    const bool invert = json_is_true(json_object_get(j, "invert"));
    const bool removes = behavior && !strcmp(behavior, "Removed");

    if (!regex && !literal)
        problems_add(wrong, "pre_tokenizer Split without a pattern");
    else if (!behavior || (!removes && strcmp(behavior, "Isolated")))
        problems_add(wrong, "pre_tokenizer Split with behavior %.40s (expected Isolated or Removed)",
                     behavior ? behavior : "missing");
    else
        return add_step(t, (SplitStep){ .drops_matches = removes && !invert, .drops_rest = removes && invert },
                        regex ? regex : literal, !regex, wrong);
    return ST_OK;
}

/* Reads a Metaspace, of today's form or with the older add_prefix_space. */
static Status read_metaspace(Tokenizer *t, const json_t *j, Problems *wrong)
{
    const char *space = json_string_value(json_object_get(j, "replacement"));
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    const bool never = json_is_false(json_object_get(j, "add_prefix_space"));
    SplitStep s = { .splits = !json_is_false(json_object_get(j, "split")) };

    scheme = scheme ? scheme : "always";
    s.prefix_first = !strcmp(scheme, "first");
    s.prefix_space = s.prefix_first || !strcmp(scheme, "always");
    if (!s.prefix_space && strcmp(scheme, "never"))
        problems_add(wrong, "pre_tokenizer Metaspace with prepend_scheme %.40s", scheme);
    else if (s.prefix_first && t->n_step)
        problems_add(wrong, "pre_tokenizer Metaspace with prepend_scheme first behind another pre_tokenizer");
    else if (never && s.prefix_space)
        problems_add(wrong, "pre_tokenizer Metaspace with add_prefix_space false and prepend_scheme %s", scheme);
    else if (!space || !*space || space[utf8_length(space)])
        problems_add(wrong, "pre_tokenizer Metaspace whose replacement is not one character");
    else
        strcpy(s.space, space);
    return add_step(t, s, NULL, false, wrong);
}

/* The kinds of pre_tokenizers that are not Sequences.  *bytes: a ByteLevel was met. */
static Status read_splitter(Tokenizer *t, const json_t *j, bool *bytes, Problems *wrong)
{
    const char *type = type_of(j);

    if (!strcmp(type, "ByteLevel")) {
        const SplitStep s = { .prefix_space = json_is_true(json_object_get(j, "add_prefix_space")) };
        const bool splits = !json_is_false(json_object_get(j, "use_regex"));

        *bytes = true;
        return splits || s.prefix_space ? add_step(t, s, splits ? byte_level_pattern : NULL, false, wrong) : ST_OK;
    }
    if (!strcmp(type, "Digits"))
        return add_step(t, (SplitStep){ 0 },
                        json_is_true(json_object_get(j, "individual_digits")) ? "\\p{N}" : "\\p{N}+", false, wrong);
    if (!strcmp(type, "WhitespaceSplit"))
        return add_step(t, (SplitStep){ .drops_matches = true }, "\\s+", false, wrong);
    if (!strcmp(type, "Split"))
        return read_split(t, j, wrong);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(t, j, wrong);
    problems_add(wrong,
                 "pre_tokenizer %.40s (expected ByteLevel, Metaspace, WhitespaceSplit, Split, Digits or a Sequence of "
                 "them)",
                 type);
    return ST_OK;
}

/* *bytes: a ByteLevel was met, which nothing may follow. */
static Status read_pre_tokenizer(Tokenizer *t, const json_t *j, bool *bytes, Problems *wrong, int depth)
{
    const json_t *parts = json_object_get(j, "pretokenizers");

    if (!j || json_is_null(j))
        return ST_OK;
    if (!strcmp(type_of(j), "Sequence") && json_is_array(parts) && depth < 8) {
        for (size_t i = 0; i < json_array_size(parts); i++)
            TRY(read_pre_tokenizer(t, json_array_get(parts, i), bytes, wrong, depth + 1));
        return ST_OK;
    }
    if (t->n_step < SPLITS_MOST && !*bytes)
        return read_splitter(t, j, bytes, wrong);
    problems_add(wrong, *bytes ? "pre_tokenizer %.40s behind ByteLevel" : "pre_tokenizer %.40s: there are too many",
                 type_of(j));
    return ST_OK;
}

/* ---- added tokens ---- */

/* Bytewise, shorter ones first. */
static int by_bytes(const void *a, const void *b)
{
    const AddedToken *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

    return order ? order : x->n < y->n ? -1 : x->n > y->n;
}

/* Takes the text of a token, as it is looked for: normalised where the token is. */
static Status added_text(Tokenizer *t, AddedToken *a, const char *content)
{
    const char *text = content;

    a->n = strlen(content);
    if (a->normalized)
        TRY(normalizer_apply(&text, &t->normalizer, content, &a->n));
    return (a->text = strndup(a->n ? text : "", a->n)) ? ST_OK : FAIL_NOMEM();
}

static Status read_added(Tokenizer *t, const json_t *list, const json_t *vocab, Problems *wrong)
{
    json_int_t next = (json_int_t)(t->unigram ? json_array_size(vocab) : json_object_size(vocab));
    json_t *j;
    size_t i;

    if (json_array_size(list) && !(t->added = calloc(json_array_size(list), sizeof *t->added)))
        return FAIL_NOMEM();
    json_array_foreach(list, i, j) {
        const char *content = json_string_value(json_object_get(j, "content"));
        const json_int_t id = json_integer_value(json_object_get(j, "id"));
        const uint32_t known = !content     ? TOKEN_NONE
                               : t->unigram ? unigram_find(t->unigram, content, strlen(content))
                                            : token_id(vocab, content);
        const json_int_t expected = known == TOKEN_NONE ? next : (json_int_t)known;
        AddedToken *a = &t->added[t->n_added];

        if (!content || !*content)
            problems_add(wrong, "added token %zu has no content", i);
        else if (json_is_true(json_object_get(j, "single_word")))
            problems_add(wrong, "added token '%.40s' with single_word", content);
        else if (!json_is_integer(json_object_get(j, "id")) || id != expected || id > TOKEN_ID_MOST)
            problems_add(
                wrong, "added token '%.40s' has id %" JSON_INTEGER_FORMAT ", tokenizers gives it %" JSON_INTEGER_FORMAT,
                content, id, expected);
        if (wrong->n)
            continue;
        *a = (AddedToken){ .id = (uint32_t)id,
                           .lstrip = json_is_true(json_object_get(j, "lstrip")),
                           .rstrip = json_is_true(json_object_get(j, "rstrip")),
                           .normalized = json_is_true(json_object_get(j, "normalized")) };
        TRY(added_text(t, a, content));
        t->n_added++;
        t->begins[(unsigned char)*a->text] |= a->normalized ? 2 : 1;
        next = id >= next ? id + 1 : next;
        t->vocabulary = id >= t->vocabulary ? (uint32_t)id + 1 : t->vocabulary;
    }
    if (t->n_added)
        qsort(t->added, t->n_added, sizeof *t->added, by_bytes);
    for (i = 0; i + 1 < t->n_added; i++)
        if (!by_bytes(&t->added[i], &t->added[i + 1]))
            problems_add(wrong, "added token '%.40s' is there twice", t->added[i].text);
    return ST_OK;
}

static Status read_all(Tokenizer *t, const json_t *root, const char *label)
{
    const json_t *model = json_object_get(root, "model"),
                 *padding = json_object_get(json_object_get(root, "padding"), "pad_id");
    PROBLEMS(wrong);
    bool bytes = false;
    Status st;

    st = normalizer_read(&t->normalizer, json_object_get(root, "normalizer"), &wrong);
    st = st ? st : read_pre_tokenizer(t, json_object_get(root, "pre_tokenizer"), &bytes, &wrong, 0);
    if (bytes == is_unigram(model))
        problems_add(&wrong,
                     bytes ? "a pre_tokenizer with ByteLevel for model Unigram" : "a pre_tokenizer without ByteLevel");
    for (int i = 0; i < t->n_step; i++)
        if (t->step[i].prefix_first && t->normalizer.cuts)
            problems_add(&wrong,
                         "pre_tokenizer Metaspace with prepend_scheme first behind a normalizer that cuts a text's "
                         "beginning off (Strip, StripAccents, Replace by nothing)");
    st = st ? st : read_model(t, model, &wrong);
    if (json_is_integer(padding) && json_integer_value(padding) >= 0 && json_integer_value(padding) <= TOKEN_ID_MOST)
        t->padding = (uint32_t)json_integer_value(padding);
    st = st ? st : read_added(t, json_object_get(root, "added_tokens"), json_object_get(model, "vocab"), &wrong);
    if (st)
        return status_prefix(st, "%s", label);
    return problems_fail(&wrong, E_UNSUPPORTED, "%s: dpexec reads byte-level BPE and Unigram, not", label);
}

/* ---- models of SentencePiece ---- */

/* Control pieces are added tokens that are not looked for in texts: they have names for --separator and padding. */
static Status add_control(Tokenizer *t, const char *text, size_t n, uint32_t id)
{
    AddedToken *a = &t->added[t->n_added];

    *a = (AddedToken){ .text = strndup(text, n), .n = n, .id = id };
    t->n_added += a->text != NULL;
    return a->text ? ST_OK : FAIL_NOMEM();
}

static Status read_sentencepiece(Tokenizer *t, const char *file, size_t n, const char *label)
{
    TRY(sentencepiece_open(&t->spm, file, n, label));
    t->vocabulary = sentencepiece_count(t->spm);
    t->padding = sentencepiece_padding(t->spm);
    t->n_spelling = t->vocabulary;
    if (!(t->spelling = calloc((size_t)t->vocabulary + 1, sizeof *t->spelling)) ||
        !(t->added = calloc((size_t)t->vocabulary + 1, sizeof *t->added)))
        return FAIL_NOMEM();
    for (uint32_t id = 0; id < t->vocabulary; id++) {
        const char *text;
        size_t length;
        uint8_t byte;
        const PieceKind kind = sentencepiece_piece(&text, &length, &byte, t->spm, id);

        if (kind == PIECE_CONTROL)
            TRY(add_control(t, text, length, id));
        else if (kind == PIECE_BYTE)
            TRY(spell_piece(t, id, (const char *)&byte, 1));
        else if (kind == PIECE_UNKNOWN)
            TRY(spell_piece(t, id, UNKNOWN_TEXT, strlen(UNKNOWN_TEXT)));
        else
            TRY(spell_piece(t, id, text, length));
    }
    return ST_OK;
}

Status tokenizer_parse(Tokenizer *t, const char *text, size_t n, const char *label)
{
    json_error_t error;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    Status st;

    if (!root && sentencepiece_is(text, n))
        return read_sentencepiece(t, text, n, label);
    if (!root)
        return FAIL(E_IO, "%s: expected a tokenizer.json; line %d, column %d: %s", label, error.line, error.column,
                    error.text);
    st = read_all(t, root, label);
    json_decref(root);
    return st;
}
