/* Names and numbers in the blocks of pictures. */
#include "exec/inspect/picture_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "graph/ir/op.h"

enum { MOST_TITLES = 12, LEAST_SPAN = 3 /* titles that only differ in a number */ };
static const char dot[] = " · ";

/* "2.36 M": three digits and the prefix of a unit. */
static const char *si(char text[NUMBER_TEXT], double x)
{
    static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
    int k = 0;

    for (; fabs(x) >= 999.5 && k < 6; k++)
        x /= 1000;
    text_format(text, NUMBER_TEXT, k ? "%.*f %s" : "%.*f%s",
                !k          ? 0
                : x < 9.995 ? 2
                : x < 99.95 ? 1
                            : 0,
                x, prefixes[k]);
    return text;
}

static const char *seconds(char text[NUMBER_TEXT], double x)
{
    const double unit = x >= 1 ? 1 : x >= 1e-3 ? 1e-3 : 1e-6, t = x / unit;

    text_format(text, NUMBER_TEXT, "%.*f %s",
                t < 9.995   ? 2
                : t < 99.95 ? 1
                            : 0,
                t,
                x >= 1      ? "s"
                : x >= 1e-3 ? "ms"
                            : "µs");
    return text;
}

/* Appends to a text of parts. */
static const char *join(Arena *a, const char *text, const char *part)
{
    return !text ? NULL : *text ? arena_printf(a, "%s%s%s", text, dot, part) : arena_strdup(a, part);
}

const char *picture_numbers(Arena *a, const Part *p)
{
    char number[NUMBER_TEXT], part[64], bytes[BYTES_TEXT];
    const char *text = "";

    if (p->parameters) {
        snprintf(part, sizeof part, "%s params", si(number, (double)p->parameters));
        text = join(a, text, part);
    }
    if (p->flops > 0) {
        si(number, p->flops);
        snprintf(part, sizeof part, "%s%sFLOP", number, p->flops < 999.5 ? " " : "");
        text = join(a, text, part);
    }
    if (p->bytes > 0)
        text = join(a, text, bytes_text(bytes, (uint64_t)p->bytes));
    return p->seconds > 0 ? join(a, text, seconds(number, p->seconds)) : text;
}

const char *picture_phase_numbers(Arena *a, const Block *b)
{
    char number[NUMBER_TEXT], part[120], bytes[BYTES_TEXT];
    const char *text = picture_numbers(a, b->part);

    if (!b->bars)
        return text;
    snprintf(part, sizeof part, b->bars > 1 ? "%d collectives of %s" : "%d collective of %s", b->bars,
             bytes_text(bytes, (uint64_t)b->sent));
    text = join(a, text, part);
    if (b->wire > 0) {
        snprintf(part, sizeof part, "%s on the wire", seconds(number, b->wire));
        text = join(a, text, part);
    }
    return text;
}

/* Whether two titles differ at most in the number at their end, behind a point: "double_conv.0" and "double_conv.3". */
static bool same_stem(const char *x, const char *y)
{
    const char *point = strrchr(x, '.');
    const size_t n = point ? (size_t)(point - x) + 1 : 0;

    return n && !strncmp(x, y, n) && x[n] && y[n] && !x[n + strspn(x + n, "0123456789")] &&
           !y[n + strspn(y + n, "0123456789")];
}

const char *picture_contents(Arena *a, const Block *b)
{
    const char *text = "";
    int layers = 0, listed = 0, entries = 0;

    if (b->kind == BLOCK_REPEAT && b->child[0]->n_child)
        b = b->child[0];
    for (int i = 0; i < b->n_child; i++)
        layers += b->child[i]->kind != BLOCK_BAR;
    for (int i = 0, last; i < b->n_child && text && entries < MOST_TITLES; i = last + 1) {
        const Block *first = b->child[i];
        int n = 1;

        last = i;
        if (first->kind == BLOCK_BAR)
            continue;
        for (int k = i + 1;
             k < b->n_child && (b->child[k]->kind == BLOCK_BAR || same_stem(first->title, b->child[k]->title)); k++)
            if (b->child[k]->kind != BLOCK_BAR) {
                last = k;
                n++;
            }
        if (n < LEAST_SPAN) {
            n = 1;
            last = i;
        }
        text = arena_printf(a, "%s%s%s", text, listed ? ", " : "",
                            n > 1 ? picture_span(a, first->title, b->child[last]->title) : first->title);
        listed += n;
        entries++;
    }
    return text && listed < layers ? arena_printf(a, "%s … %d in all", text, layers) : text;
}

const char *picture_shape(Arena *a, const Part *p)
{
    char shape[SHAPE_TEXT];

    return p->out && p->out->shape && p->out->dtype
               ? arena_printf(a, "%s %s", dtype_name(p->out->dtype), shape_text(p->out->shape, shape))
               : "";
}

const char *picture_bar_label(Arena *a, const Block *b)
{
    char number[NUMBER_TEXT], bytes[BYTES_TEXT];
    const char *text = arena_printf(a, "%s, %s", b->title, bytes_text(bytes, (uint64_t)b->sent));

    return b->wire > 0 && text ? arena_printf(a, "%s, %s", text, seconds(number, b->wire)) : text;
}

const char *picture_facts(Arena *a, const PictureTree *t, const Report *r)
{
    char number[NUMBER_TEXT], bytes[BYTES_TEXT];
    const Picture *p = &t->picture;
    const Part *whole = t->root.part;
    double flops = 0;
    int nodes = 0, devices = 0;
    const char *text;

    FOR_NODES(p->g, n)
        nodes++;
    for (int i = 0; i < p->n_lane; i++)
        devices += p->lane[i].device >= 0 && (!i || p->lane[i - 1].device != p->lane[i].device);
    for (int c = 0; whole && c < t->n_drawn; c++)
        flops += whole[c].flops * t->column[c].lanes;
    text = arena_printf(a, devices > 1 ? "%d nodes on %d devices" : "%d nodes", nodes, devices);
    if (flops > 0 && text) {
        si(number, flops);
        text = arena_printf(a, "%s%s%s%sFLOP a step", text, dot, number, flops < 999.5 ? " " : "");
    }
    if (t->root.bars && text)
        text = arena_printf(a, t->root.bars > 1 ? "%s%s%d collectives of %s" : "%s%s%d collective of %s", text, dot,
                            t->root.bars, bytes_text(bytes, (uint64_t)t->root.sent));
    if (r && r->time.devices && text)
        text =
            arena_printf(a, "%s%sa step takes %s on %s", text, dot, seconds(number, r->time.seconds), r->time.devices);
    return text;
}
