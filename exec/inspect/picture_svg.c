/* The picture of a step as SVG.  Lengths are pixels.  Text is fitted into its box by the widest of the usual fonts.
 *
 * Colours stand in attributes, for programs that read no styles, and again in a style for a dark page. */
#include <string.h>

#include "exec/inspect/picture_layout.h"
#include "exec/inspect/picture_text.h"
#include "exec/inspect/text_fit.h"
#include "graph/base/foreign.h"
#include "graph/ir/collective.h"

enum { MOST_NODES = 40, LEAST_FLOPS = 1000, PAD = 9, SIZE = 12, SMALL = 11 };

static const char style[] =
    "<style>@media (prefers-color-scheme: dark) {\n"
    ".ground { fill: #14161d } .text { fill: #e6e8ef } .soft { fill: #9aa2b6 } .heat { fill: #6ea0ff }\n"
    ".line { stroke: #5f6a85 } .tip { fill: #5f6a85 } .track { stroke: #c08bdc } .end { fill: #c08bdc }\n"
    ".card1 { fill: #1d2c40 } .card2 { fill: #38321c } .card3 { fill: #3b2820 } .card4 { fill: #20351f }\n"
    ".band1 { fill: #171d28 } .band2 { fill: #201e18 } .band3 { fill: #211b19 } .band4 { fill: #191f19 }\n"
    ".card { stroke: #4a5470 } .frame { stroke: #6b7693; fill: #ffffff; fill-opacity: .02 }\n"
    "}</style>\n";

static const char *const fills[N_PHASES] = { "#ffffff", "#dbe9f6", "#fff2cc", "#f9e0d2", "#dcefd8" };
static const char *const bands[N_PHASES] = { "#ffffff", "#f4f8fc", "#fffbef", "#fdf6f1", "#f4faf3" };

typedef struct {
    FILE *f;
    const PictureTree *t;
    const Report *report;
    PageLayout l;
    Arena *a;
    bool failed; /* memory ran out for a text */
} Draw;

/* Writes at most `max` bytes, escaped for XML. */
static void write_text(FILE *f, const char *s, size_t max)
{
    const char *end = s + strnlen(s, max);

    for (int n; s < end; s += n ? n : 1) {
        n = foreign_length(s);
        if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '"')
            fputs("&quot;", f);
        else
            n ? (void)fwrite(s, 1, (size_t)n, f) : (void)putc('?', f);
    }
}

void picture_text(FILE *f, const char *s, size_t max)
{
    write_text(f, s, max);
    if (strnlen(s, max + 1) > max)
        fputs("...", f);
}

/* ---- text ---- */

typedef struct {
    int size;
    bool bold, right, middle; /* right: x is the right edge; middle: shortened in its middle */
    const char *class, *fill;
} TextStyle;

static const TextStyle title_style = { SIZE, true, false, true, "text", "#1d2030" },
                       soft_style = { SMALL, false, false, false, "soft", "#505870" },
                       soft_right = { SMALL, false, true, false, "soft", "#505870" };

/* Draws a line of text in `width` pixels from x on, or up to x; returns the pixels that it takes.  A text with
 * characters of unknown width is told its width. */
static int draw_text(Draw *d, int x, int y, int width, const char *s, const TextStyle *how)
{
    const char *fit = s ? text_fit(d->a, s, width, how->size, how->bold, how->middle) : NULL;
    double w;
    bool known;

    if (!fit) {
        d->failed = true;
        return 0;
    }
    if (!*fit)
        return 0;
    w = text_width(fit, how->size, how->bold, &known);
    fprintf(d->f, "<text class=\"%s\" fill=\"%s\" x=\"%d\" y=\"%d\" font-size=\"%d\"%s%s", how->class, how->fill, x, y,
            how->size, how->bold ? " font-weight=\"bold\"" : "", how->right ? " text-anchor=\"end\"" : "");
    if (!known)
        fprintf(d->f, " textLength=\"%d\"", (int)w);
    fputs(">", d->f);
    write_text(d->f, fit, strlen(fit));
    fputs("</text>\n", d->f);
    return (int)w + 1;
}

/* The tooltip: the nodes of a block in one lane of a column, and its collectives. */
static void draw_tooltip(const Draw *d, const Block *b, int column)
{
    int n = 0, lane = -1;

    fputs("<title>", d->f);
    if (*b->path && b->kind != BLOCK_BAR) {
        picture_text(d->f, b->path, 400);
        fputs("\n", d->f);
    }
    FOR_NODES(d->t->picture.g, x) {
        const int at = d->t->block_of[x->index], its_lane = d->t->picture.lane_of[x->index];

        if (at < b->index || at >= b->end || (its_lane >= 0 && d->t->column_of[x->index] != column))
            continue;
        if (its_lane >= 0 && lane >= 0 && its_lane != lane)
            continue;
        lane = its_lane >= 0 ? its_lane : lane;
        if (n++ >= MOST_NODES)
            continue;
        picture_text(d->f, x->name ? x->name : "", 200);
        fprintf(d->f, " (%s", x->op->name);
        picture_tensors(d->f, d->t->picture.g, x, picture_text);
        fputs(")\n", d->f);
    }
    if (n > MOST_NODES)
        fprintf(d->f, "… %d nodes in all\n", n);
    fputs("</title>\n", d->f);
}

/* ---- blocks ---- */

/* A bar at the lower edge of a card: its part of the seconds of the phase, or else of the FLOPs, if they are worth
 * it. */
static void draw_heat(const Draw *d, const Block *b, int column, int x, int y, int w)
{
    const Part *phase, *p = &b->part[column];
    const Block *up = b;
    double share;

    while (up->parent && up->kind != BLOCK_PHASE)
        up = up->parent;
    phase = &up->part[column];
    share = phase->seconds > 0            ? p->seconds / phase->seconds
            : phase->flops >= LEAST_FLOPS ? p->flops / phase->flops
                                          : 0;
    if (share * w >= 1)
        fprintf(d->f, "<rect class=\"heat\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"3\" fill=\"#2563eb\"/>\n", x + 1,
                y - 4, (int)(share * (w - 2)));
}

/* The name of a block: of a repeat with how often it comes. */
static const char *name_of(Draw *d, const Block *b)
{
    return b->kind == BLOCK_REPEAT ? arena_printf(d->a, "%s  ×%d", b->title, b->n_child) : b->title;
}

/* Draws what one column has of a block that is not open. */
static void draw_part(Draw *d, const Block *b, int column, int x, int y, int w, int h)
{
    const Part *p = &b->part[column];
    const int inner = w - 2 * PAD;
    const char *name = b->unnamed ? p->ops : name_of(d, b),
               *below = b->n_child   ? picture_contents(d->a, b)
                        : b->unnamed ? ""
                                     : p->ops,
               *numbers = picture_numbers(d->a, p);
    int used;

    if (!p->nodes)
        return;
    if (numbers && b->bars)
        numbers = arena_printf(d->a, b->bars > 1 ? "%s · %d collectives" : "%s · %d collective", numbers, b->bars);
    fputs("<g>\n", d->f);
    draw_tooltip(d, b, column);
    if (b->n_child) /* a second card behind it */
        fprintf(d->f,
                "<rect class=\"card card%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" "
                "stroke=\"#8a93ad\"/>\n",
                b->phase, x + 4, y + 3, w - 8, h, fills[b->phase]);
    fprintf(d->f,
            "<rect class=\"card card%d box\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" "
            "stroke=\"#8a93ad\"/>\n",
            b->phase, x, y, w, h, fills[b->phase]);
    draw_heat(d, b, column, x, y + h, w);
    used = draw_text(d, x + w - PAD, y + 17, inner * 3 / 5, picture_shape(d->a, p), &soft_right);
    draw_text(d, x + PAD, y + 17, inner - used - PAD, name, &title_style);
    if (h == CARD_NARROW) {
        draw_text(d, x + PAD, y + 33, inner, below, &soft_style);
        draw_text(d, x + PAD, y + 49, inner, numbers, &soft_style);
    } else {
        used = draw_text(d, x + w - PAD, y + 33, inner * 3 / 5, numbers, &soft_right);
        draw_text(d, x + PAD, y + 33, inner - used - PAD, !strcmp(below ? below : "", name ? name : "") ? "" : below,
                  &soft_style);
    }
    fputs("</g>\n", d->f);
}

/* The left edge of a column in a block of the layout. */
static int column_left(const Draw *d, const Box *box, int column)
{
    const int n = d->t->n_drawn ? d->t->n_drawn : 1;

    return box->x + column * box->w / n;
}

static void draw_card(Draw *d, const Block *b)
{
    const Box *box = &d->l.box[b->index];

    for (int c = 0; b->part && c < d->t->n_drawn; c++) {
        const int x = column_left(d, box, c), next = column_left(d, box, c + 1);

        draw_part(d, b, c, x, box->y, next - x - (c + 1 < d->t->n_drawn ? GAP / 2 : 0), box->h);
    }
}

static void draw_bar(Draw *d, const Block *b)
{
    static const TextStyle on_bar = { SMALL, false, false, true, "on", "#ffffff" };
    const Exchange e = exchange_of(b->bar);
    const Box *box = &d->l.box[b->index];

    fputs("<g>\n", d->f);
    draw_tooltip(d, b, -1);
    fprintf(d->f, "<rect class=\"box\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/>\n", box->x,
            box->y, box->w, box->h, box->h / 2, picture_bar_colour(&e));
    draw_text(d, box->x + 12, box->y + 14, box->w - 24, picture_bar_label(d->a, b), &on_bar);
    fputs("</g>\n", d->f);
}

static void draw_block(Draw *d, const Block *b);

/* The frame of an open block, its head and what it holds. */
static void draw_frame(Draw *d, const Block *b)
{
    const Box *box = &d->l.box[b->index];
    const bool phase = b->kind == BLOCK_PHASE;
    Block *const *child;
    int n, used;

    if (phase)
        fprintf(d->f, "<rect class=\"band%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\"/>\n",
                b->phase, box->x, box->y, box->w, box->h, bands[b->phase]);
    else
        fprintf(d->f,
                "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#334\" "
                "fill-opacity=\".02\" "
                "stroke=\"#8a93ad\"%s/>\n",
                box->x, box->y, box->w, box->h, b->kind == BLOCK_REPEAT ? " stroke-dasharray=\"5 3\"" : "");
    used = draw_text(d, box->x + box->w - INSET - PAD, box->y + 18, (box->w - 2 * INSET) * 3 / 5,
                     picture_phase_numbers(d->a, b), &soft_right);
    draw_text(d, box->x + INSET, box->y + 18, box->w - 2 * INSET - 2 * PAD - used, name_of(d, b), &title_style);
    child = layout_children(b, &n);
    for (int i = 0; i < n; i++)
        draw_block(d, child[i]);
}

/* An arrow from the block above. */
static void draw_arrow(const Draw *d, const Box *box)
{
    const int x = box->x + 40, y = box->y;

    fprintf(d->f,
            "<path class=\"line\" d=\"M%d %dV%d\" stroke=\"#8a93ad\" stroke-width=\"1.5\"/>"
            "<path class=\"tip\" d=\"M%d %dl-4 -6h8z\" fill=\"#8a93ad\"/>\n",
            x, y - GAP + 3, y - 5, x, y);
}

static void draw_block(Draw *d, const Block *b)
{
    const Box *box = &d->l.box[b->index];

    if (box->arrow)
        draw_arrow(d, box);
    if (box->open)
        draw_frame(d, b);
    else if (b->bar)
        draw_bar(d, b);
    else
        draw_card(d, b);
}

/* Values that pass other blocks, at the right of all. */
static void draw_buses(const Draw *d)
{
    for (int i = 0; i < d->l.n_bus; i++) {
        const Bus *b = &d->l.bus[i];
        const Box *from = &d->l.box[b->from], *last = &d->l.box[b->to[b->n - 1]];
        const int x = d->l.right + 10 + TRACK * b->track, out = from->y + from->h - 8;

        fprintf(d->f,
                "<path class=\"track\" d=\"M%d %dH%dV%d\" fill=\"none\" stroke=\"#8e5bb0\" stroke-width=\"1.3\" "
                "stroke-linejoin=\"round\"/>\n",
                from->x + from->w, out, x, last->y + 9);
        for (int k = 0; k < b->n; k++) {
            const Box *to = &d->l.box[b->to[k]];

            fprintf(d->f,
                    "<path class=\"track\" d=\"M%d %dH%d\" stroke=\"#8e5bb0\" stroke-width=\"1.3\"/>"
                    "<path class=\"end\" d=\"M%d %dl6 -4v8z\" fill=\"#8e5bb0\"/>\n",
                    x, to->y + 9, to->x + to->w + 5, to->x + to->w, to->y + 9);
        }
    }
}

/* ---- the page ---- */

static void draw_legend(Draw *d, int y)
{
    static const struct {
        const char *mark, *text;
    } entry[] = {
        { "<rect class=\"card card1\" x=\"0\" y=\"-10\" width=\"18\" height=\"12\" rx=\"3\" fill=\"#dbe9f6\" "
          "stroke=\"#8a93ad\"/>",
          "layer: operators, output; parameters, FLOPs, bytes read and written" },
        { "<rect class=\"card card1\" x=\"3\" y=\"-8\" width=\"14\" height=\"12\" rx=\"3\" fill=\"#dbe9f6\" "
          "stroke=\"#8a93ad\"/>"
          "<rect class=\"card card1\" x=\"0\" y=\"-10\" width=\"18\" height=\"12\" rx=\"3\" fill=\"#dbe9f6\" "
          "stroke=\"#8a93ad\"/>",
          "layers, folded" },
        { "<rect class=\"frame\" x=\"0\" y=\"-10\" width=\"18\" height=\"12\" rx=\"3\" fill=\"none\" "
          "stroke=\"#8a93ad\" "
          "stroke-dasharray=\"4 2\"/>",
          "×N: drawn once, numbers inside are of one" },
        { "<path class=\"track\" d=\"M0 -4H18\" stroke=\"#8e5bb0\" stroke-width=\"1.5\"/>", "skip connection" },
        { "<rect class=\"heat\" x=\"0\" y=\"-6\" width=\"18\" height=\"3\" fill=\"#2563eb\"/>",
          "" }, /* by what there is */
        { "<rect x=\"0\" y=\"-10\" width=\"18\" height=\"11\" rx=\"5\" fill=\"" COLOUR_GIVEN "\"/>",
          "scatter, broadcast" },
        { "<rect x=\"0\" y=\"-10\" width=\"18\" height=\"11\" rx=\"5\" fill=\"" COLOUR_JOINED "\"/>",
          "gather, all-gather" },
        { "<rect x=\"0\" y=\"-10\" width=\"18\" height=\"11\" rx=\"5\" fill=\"" COLOUR_SUM "\"/>",
          "all-reduce, reduce-scatter" },
    };
    const int n = sizeof entry / sizeof *entry - (d->t->root.bars ? 0 : 3);
    int x = PAGE_MARGIN;

    for (int i = 0; i < n; i++) {
        const char *text = *entry[i].text                                    ? entry[i].text
                           : d->t->root.part && d->t->root.part->seconds > 0 ? "share of the phase's time"
                                                                             : "share of the phase's FLOPs";
        const int w = (int)text_width(text, SMALL, false, NULL) + 24;

        if (x + w > d->l.width - PAGE_MARGIN) {
            x = PAGE_MARGIN;
            y += LEGEND_LINE;
        }
        fprintf(d->f, "<g transform=\"translate(%d %d)\">%s</g>\n", x, y, entry[i].mark);
        draw_text(d, x + 23, y, w, text, &soft_style);
        x += w + 14;
    }
}

static void draw_heads(Draw *d)
{
    static const TextStyle big = { 16, true, false, true, "text", "#1d2030" };
    const int width = d->l.width - 2 * PAGE_MARGIN;
    const PictureTree *t = d->t;

    draw_text(d, PAGE_MARGIN, 30, width, t->picture.g->name && *t->picture.g->name ? t->picture.g->name : "graph",
              &big);
    draw_text(d, PAGE_MARGIN, 50, width, picture_facts(d->a, t, d->report), &soft_style);
    draw_legend(d, 74);
    if (t->picture.n_lane < 2)
        return;
    for (int c = 0; c < t->n_drawn; c++) {
        const Box *phase = &d->l.box[t->root.child[0]->index];
        const Box inner = { .x = phase->x + INSET, .w = phase->w - 2 * INSET };
        const int x = column_left(d, &inner, c), w = inner.w / t->n_drawn - GAP;
        const bool cut = c + 1 == t->n_drawn && t->n_drawn < t->n_column;

        draw_text(d, x, layout_head(&d->l) + 12, w,
                  cut ? arena_printf(d->a, "%s, and %d more columns", t->column[c].title, t->n_column - t->n_drawn)
                      : t->column[c].title,
                  &title_style);
        draw_text(d, x, layout_head(&d->l) + 28, w, t->column[c].note, &soft_style);
    }
}

Status picture_svg(FILE *f, const Graph *g, const Report *r)
{
    Arena *a = arena_create_beside(g->arena);
    PictureTree t;
    Draw d = { .f = f, .t = &t, .report = r, .a = a };
    Status st = a ? picture_tree(&t, g, r ? r->node_seconds : NULL, a) : FAIL_NOMEM();

    if (!st)
        st = layout_make(&d.l, &t, a);
    if (!st) {
        fprintf(f,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                "font-family=\"Helvetica, Arial, sans-serif\">\n%s<rect class=\"ground\" width=\"%d\" height=\"%d\" "
                "fill=\"#ffffff\"/>\n",
                d.l.width, d.l.height, d.l.width, d.l.height, style, d.l.width, d.l.height);
        draw_heads(&d);
        for (int i = 0; i < t.root.n_child; i++)
            draw_block(&d, t.root.child[i]);
        draw_buses(&d);
        fputs("</svg>\n", f);
        st = d.failed ? FAIL_NOMEM() : ST_OK;
    }
    if (!st && ferror(f))
        st = FAIL(E_IO, "writing the picture of graph '%s' failed", g->name);
    arena_free(a);
    return st;
}
