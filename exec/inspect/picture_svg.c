/* The picture of a step as SVG.  Lengths are pixels of a page that is WIDTH wide. */
#include <inttypes.h>
#include <string.h>

#include "exec/inspect/picture.h"
#include "graph/base/foreign.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"

enum {
    WIDTH = 1240,
    GUTTER = 64,      /* names of phases, and repeats */
    BEFORE = 200,     /* the model's column */
    HEAD = 64,        /* titles of lanes */
    LINE = 14,        /* height of a line of text */
    PAD = 5,          /* around text */
    GAP = 4,          /* between rows */
    BAND_GAP = 12,    /* between phases */
    GROUP_PAD = 6,    /* around rows that repeat */
    CHAR = 6,         /* largest width of a character at 10.5 pixels */
    MOST_LINES = 9,   /* of a box's operators */
    NAME_LINES = 3,   /* of a box's parameters */
    MODEL_LINES = 48, /* of the model's operators */
    MOST_LANES = 8    /* that are drawn; a line says how many there are */
};

static const char *const fills[N_PHASES] = { "#ffffff", "#dbe9f6", "#fff2cc", "#f9e0d2", "#dcefd8" };
static const char *const bands[N_PHASES] = { "#ffffff", "#f4f8fc", "#fffbef", "#fdf6f1", "#f4faf3" };

typedef struct {
    FILE *f;
    const Picture *p;
    const Graph *model;
    Arena *a;
    int left, lane, lanes; /* x of the first lane, width and number of those drawn */
    int chars;             /* in a line of a box */
    int y;
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

/* ---- text in lines ---- */

/* The bytes of the next line, at most `most`, broken behind a blank where there is one; *s moves to its beginning. */
static size_t next_line(const char **s, size_t most)
{
    size_t n = strlen(*s += strspn(*s, " ")), end;

    if (n <= most)
        return n;
    for (end = most; end > 0 && (*s)[end] != ' ';)
        end--;
    return end ? end : most;
}

static int count_lines(const char *s, int chars, int most)
{
    int n = 0;

    for (size_t len; (len = next_line(&s, (size_t)chars)); s += len)
        n++;
    return n > most ? most : n;
}

static void draw_lines(const Draw *d, const char *s, int x, int y, int chars, int most)
{
    int n = 0;

    for (size_t len; (len = next_line(&s, (size_t)chars)) && n < most; s += len, n++) {
        bool last = n + 1 == most && s[len];

        fprintf(d->f, "<text x=\"%d\" y=\"%d\">", x, y + LINE * n);
        write_text(d->f, s, last && len > 3 ? len - 3 : len);
        fputs(last ? "...</text>\n" : "</text>\n", d->f);
    }
}

static void draw_box(const Draw *d, int x, int y, int w, int h, const char *fill)
{
    fprintf(d->f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"#667\"/>\n", x, y,
            w, h, fill);
}

/* ---- rows ---- */

static int label_lines(const Draw *d, const Cell *c) { return count_lines(c->label, d->chars, MOST_LINES); }

static int row_height(const Draw *d, const Row *r)
{
    int lines = 1;

    if (r->bar)
        return LINE + 4;
    for (int i = 0; i < d->lanes; i++) {
        const Cell *c = &r->cell[i];
        int n = c->label ? label_lines(d, c) : 0;

        n += n && c->of ? count_lines(c->of, d->chars, NAME_LINES) : 0;
        lines = n > lines ? n : lines;
    }
    return lines * LINE + 2 * PAD;
}

/* The tooltip: all nodes of a box, or with lane -1 of a bar. */
static void draw_title(const Draw *d, int row, int lane)
{
    fputs("<title>", d->f);
    FOR_NODES(d->p->g, n)
        if (d->p->row_of[n->index] == row && d->p->lane_of[n->index] == lane) {
            picture_text(d->f, n->name, 120);
            fprintf(d->f, " (%s", n->op->name);
            picture_tensors(d->f, d->p->g, n, picture_text);
            fputs(")\n", d->f);
        }
    fputs("</title>\n", d->f);
}

static void draw_cells(const Draw *d, int k, int h)
{
    const Row *r = &d->p->row[k];

    for (int i = 0; i < d->lanes; i++) {
        int x = d->left + i * d->lane;

        if (!r->cell[i].label)
            continue;
        fprintf(d->f, "<g class=\"e\" id=\"b%d_%d\">\n", k, i);
        draw_title(d, k, i);
        draw_box(d, x + 4, d->y, d->lane - 8, h, fills[r->phase]);
        draw_lines(d, r->cell[i].label, x + 10, d->y + PAD + 10, d->chars, MOST_LINES);
        if (r->cell[i].of) { /* parameters below the operators */
            fputs("<g font-style=\"italic\" fill=\"#557\">\n", d->f);
            draw_lines(d, r->cell[i].of, x + 10, d->y + PAD + 10 + LINE * label_lines(d, &r->cell[i]), d->chars,
                       NAME_LINES);
            fputs("</g>\n", d->f);
        }
        fputs("</g>\n", d->f);
    }
}

/* The lanes that take part in collective n, [from, to); all lanes where none is found. */
static void lanes_of_bar(const Draw *d, const Node *n, int *from, int *to)
{
    *from = d->lanes;
    *to = 0;
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const ValueId v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        const Value *x = has_value(v) ? value(d->p->g, v) : NULL;

        for (int i = 0; x && i < d->lanes; i++) {
            const Lane *lane = &d->p->lane[i];

            if (x->device != lane->device || x->device < 0 ||
                (x->replica >= 0 && lane->replica >= 0 && x->replica != lane->replica))
                continue;
            *from = i < *from ? i : *from;
            *to = i + 1 > *to ? i + 1 : *to;
        }
    }
    if (*from >= *to) {
        *from = 0;
        *to = d->lanes;
    }
}

static void draw_bar(const Draw *d, int k, int h)
{
    const Row *r = &d->p->row[k];
    const Exchange e = exchange_of(r->bar);
    const char *label = picture_bar(d->a, d->p, k);
    int from, to, x, w;

    lanes_of_bar(d, r->bar, &from, &to);
    x = d->left + from * d->lane + 4;
    w = (to - from) * d->lane - 8;
    fprintf(d->f, "<g class=\"e c\" id=\"b%d_-1\">\n", k);
    draw_title(d, k, -1);
    fprintf(d->f, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/>\n", x, d->y, w, h, h / 2,
            e.sum      ? "#a33c2a"
            : e.joined ? "#6a4c93"
                       : "#3f6e8c");
    fprintf(d->f, "<text x=\"%d\" y=\"%d\" fill=\"#ffffff\" text-anchor=\"middle\">", x + w / 2, d->y + 13);
    picture_text(d->f, label ? label : "", (size_t)(w / CHAR) - 4);
    fputs("</text>\n</g>\n", d->f);
}

/* ---- the model beside it ---- */

static const char *model_chain(const Draw *d)
{
    const char **op = ARENA_NEW(d->a, const char *, d->model->n_node + 1);
    int n = 0;

    FOR_NODES(d->model, x)
        if (op && !(x->op->flags & OPF_VIEW))
            op[n++] = x->op->name;
    return op ? picture_chain(d->a, op, n, 2 * MODEL_LINES) : NULL;
}

/* Draws the model's operators in the band of the forward pass; returns the bottom edge. */
static int draw_before(const Draw *d, int phase, int top)
{
    const int chars = (BEFORE - 24) / CHAR;
    const char *text = phase == PHASE_FORWARD ? model_chain(d) : "";
    int h = text ? count_lines(text, chars, MODEL_LINES) * LINE + 2 * PAD : 0;

    if (!text || !*text)
        return top;
    draw_box(d, GUTTER + 4, top, BEFORE - 12, h, "#eeeeee");
    draw_lines(d, text, GUTTER + 10, top + PAD + 10, chars, MODEL_LINES);
    return top + h;
}

/* ---- the page ---- */

/* Draws the rows of one phase, from row `first` on; returns the first row of the next phase. */
static int draw_rows(Draw *d, int first)
{
    const int phase = d->p->row[first].phase;
    int k = first;

    for (int group_top = 0; k < d->p->n_row && d->p->row[k].phase == phase; k++) {
        const Row *r = &d->p->row[k];
        const bool begins = r->group && (k == first || r[-1].group != r->group),
                   ends = r->group && (k + 1 == d->p->n_row || r[1].group != r->group);
        int h = row_height(d, r);

        if (begins) {
            group_top = d->y;
            d->y += GROUP_PAD;
        }
        r->bar ? draw_bar(d, k, h) : draw_cells(d, k, h);
        d->y += h + GAP;
        if (ends) {
            d->y += GROUP_PAD - GAP;
            fprintf(d->f,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"none\" stroke=\"#889\" "
                    "stroke-dasharray=\"4 3\"/>\n"
                    "<text x=\"%d\" y=\"%d\" font-weight=\"bold\" text-anchor=\"end\">x%d</text>\n",
                    d->left - 2, group_top, d->lanes * d->lane + 4, d->y - group_top, WIDTH - 10, group_top + 12,
                    r->repeats);
            d->y += GAP;
        }
    }
    return k;
}

static int rows_bottom(const Draw *d, int first)
{
    const int phase = d->p->row[first].phase;
    int y = d->y;

    for (int k = first; k < d->p->n_row && d->p->row[k].phase == phase; k++) {
        const Row *r = &d->p->row[k];

        y += row_height(d, r) + GAP;
        y += r->group && (k == first || r[-1].group != r->group) ? GROUP_PAD : 0;
        y += r->group && (k + 1 == d->p->n_row || r[1].group != r->group) ? GROUP_PAD : 0;
    }
    return y;
}

static int before_bottom(const Draw *d, int phase)
{
    const char *text = d->model && phase == PHASE_FORWARD ? model_chain(d) : NULL;

    return text ? d->y + count_lines(text, (BEFORE - 24) / CHAR, MODEL_LINES) * LINE + 2 * PAD + GAP : d->y;
}

static int draw_band(Draw *d, int first)
{
    const int phase = d->p->row[first].phase, top = d->y, rows = rows_bottom(d, first), model = before_bottom(d, phase);
    int bottom = (rows > model ? rows : model), next;

    bottom = bottom - top < 70 ? top + 70 : bottom;
    fprintf(d->f, "<rect x=\"0\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", top - 6, WIDTH, bottom - top + 8,
            bands[phase]);
    fprintf(d->f,
            "<text class=\"p\" transform=\"translate(24 %d) rotate(-90)\" text-anchor=\"end\" font-size=\"13\" "
            "font-weight=\"bold\">%s</text>\n",
            top + 2, phase_name(phase));
    if (d->model)
        draw_before(d, phase, top);
    next = draw_rows(d, first);
    d->y = bottom + BAND_GAP;
    return next;
}

static void draw_samples(const Draw *d, const Lane *lane, int x)
{
    int64_t from, n;

    if (lane->replica < 0 || !d->p->scatter)
        return;
    picture_samples(d->p, lane->replica, &from, &n);
    fprintf(d->f, "<text x=\"%d\" y=\"52\">", x);
    if (n > 1)
        fprintf(d->f, "samples %" PRId64 " to %" PRId64 "</text>\n", from, from + n - 1);
    else if (n == 1)
        fprintf(d->f, "sample %" PRId64 "</text>\n", from);
    else
        fputs("no samples</text>\n", d->f);
}

static void draw_heads(const Draw *d)
{
    if (d->model)
        fprintf(d->f, "<text x=\"%d\" y=\"38\" font-weight=\"bold\">the model, before</text>\n", GUTTER + 10);
    for (int i = 0; i < d->lanes; i++) {
        const Lane *lane = &d->p->lane[i];
        int x = d->left + i * d->lane;

        draw_samples(d, lane, x + 10);
        fprintf(d->f, "<text x=\"%d\" y=\"38\" font-weight=\"bold\">", x + 10);
        if (lane->device < 0)
            fputs("host</text>\n", d->f);
        else if (lane->replica < 0)
            fprintf(d->f, "device %d, shared</text>\n", lane->device);
        else
            fprintf(d->f, "device %d, replica %d</text>\n", lane->device, lane->replica);
        fprintf(d->f, "<line x1=\"%d\" y1=\"58\" x2=\"%d\" y2=\"58\" stroke=\"#334\"/>\n", x + 4, x + d->lane - 4);
    }
    fputs("<text x=\"10\" y=\"22\" font-size=\"16\" font-weight=\"bold\">", d->f);
    picture_text(d->f, d->p->g->name, 60);
    fputs("</text>\n", d->f);
    if (d->lanes < d->p->n_lane)
        fprintf(d->f, "<text x=\"%d\" y=\"22\" text-anchor=\"end\">the first %d of %d lanes</text>\n", WIDTH - 10,
                d->lanes, d->p->n_lane);
}

static int page_height(Draw *d)
{
    int y = HEAD + 10;

    for (int k = 0; k < d->p->n_row;) {
        int phase = d->p->row[k].phase, rows, model;

        d->y = y;
        rows = rows_bottom(d, k);
        model = before_bottom(d, phase);
        rows = rows > model ? rows : model;
        y = (rows - y < 70 ? y + 70 : rows) + BAND_GAP;
        while (k < d->p->n_row && d->p->row[k].phase == phase)
            k++;
    }
    return y;
}

Status picture_draw(FILE *f, const Picture *p, const Graph *model, Arena *a)
{
    Draw d = { .f = f, .p = p, .model = model, .a = a };
    int height;

    d.lanes = p->n_lane > MOST_LANES ? MOST_LANES : p->n_lane;
    d.left = GUTTER + (model ? BEFORE : 0);
    d.lane = (WIDTH - 34 - d.left) / (d.lanes ? d.lanes : 1);
    d.chars = (d.lane - 20) / CHAR;
    height = page_height(&d);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"10.5\" fill=\"#223\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height, WIDTH, height);
    draw_heads(&d);
    d.y = HEAD + 10;
    for (int k = 0; k < p->n_row;)
        k = draw_band(&d, k);
    fputs("</svg>\n", f);
    return ferror(f) ? FAIL(E_IO, "writing the picture of graph '%s' failed", p->g->name) : ST_OK;
}

Status picture_svg(FILE *f, const Graph *g, const Graph *model)
{
    Arena *a = arena_create_beside(g->arena);
    Picture p;
    Status st = a ? picture_fold(&p, g, a) : FAIL_NOMEM();

    if (!st)
        st = picture_draw(f, &p, model, a);
    arena_free(a);
    return st;
}
