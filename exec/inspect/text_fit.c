/* Widths of text by the advances of DejaVu Sans, in thousandths of the font's size. */
#include "exec/inspect/text_fit.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"

enum { FIRST = 32, LAST = 126, OTHER = 1300 };
static const char dots[] = "…";

/* Of the characters 32 to 126, as FreeType gives them (PIL's ImageFont.getlength). */
static const unsigned short advance[2][LAST - FIRST + 1] = {
    { 318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
      636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
      575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
      611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
      278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838 },
    { 348, 456,  521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415,  380, 365, 696, 696,  696,
      696, 696,  696, 696, 696, 696,  696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830,  683,
      683, 821,  837, 372, 372, 775,  637, 995, 837, 850, 733, 850, 770, 720,  682, 812, 774, 1103, 771,
      724, 725,  457, 365, 457, 838,  500, 500, 675, 716, 593, 716, 678, 435,  716, 712, 343, 343,  665,
      343, 1042, 712, 687, 716, 716,  493, 595, 478, 712, 652, 924, 645, 652,  582, 712, 365, 712,  838 }
};

/* Others that pictures write; none is wider in bold. */
static const struct {
    const char *text;
    int width;
} signs[] = { { dots, 1000 }, { "×", 838 }, { "–", 500 }, { "·", 380 }, { "µ", 740 } };

/* The thousandths of the character at `s`, whose bytes go to *n; negative: unknown.  One that must not be shown is a
 * '?'. */
static int character_width(const char *s, bool bold, int *n)
{
    *n = foreign_length(s);
    if (!*n) {
        *n = 1;
        return advance[bold]['?' - FIRST];
    }
    if (*n == 1)
        return advance[bold][*s - FIRST];
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (!strncmp(s, signs[i].text, strlen(signs[i].text)))
            return signs[i].width;
    return -OTHER;
}

double text_width(const char *s, double size, bool bold, bool *known)
{
    double sum = 0;

    if (known)
        *known = true;
    for (int n, w; *s; s += n) {
        w = character_width(s, bold, &n);
        sum += abs(w);
        if (known && w < 0)
            *known = false;
    }
    return sum * size / 1000;
}

/* The bytes from the beginning of `s` that are at most `width` thousandths wide. */
static size_t head_within(const char *s, double width, bool bold)
{
    const char *at = s;

    for (int n; *at && (width -= abs(character_width(at, bold, &n))) >= 0;)
        at += n;
    return (size_t)(at - s);
}

/* The first byte of the end of `s` that is at most `width` thousandths wide. */
static const char *tail_within(const char *s, double width, bool bold)
{
    double sum = text_width(s, 1000, bold, NULL);

    for (int n; sum > width; s += n)
        sum -= abs(character_width(s, bold, &n));
    return s;
}

const char *text_fit(Arena *a, const char *s, double width, double size, bool bold, bool middle)
{
    const double room = width * 1000 / size - OTHER; /* beside the dots */

    if (text_width(s, size, bold, NULL) <= width)
        return s;
    if (room <= 0)
        return "";
    if (!middle)
        return arena_printf(a, "%.*s%s", (int)head_within(s, room, bold), s, dots);
    return arena_printf(a, "%.*s%s%s", (int)head_within(s, room * 0.45, bold), s, dots,
                        tail_within(s, room * 0.5, bold));
}
