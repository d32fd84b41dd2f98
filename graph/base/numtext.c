/* Numbers as text.  The shortest form is found by trying few digits first: %g drops trailing zeros, so the first text
 * that reads back is the shortest (subnormals need few digits).  printf and strtod follow the host's locale, so this
 * thread switches to the C locale around each call. */
#include "graph/base/numtext.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 512 }; /* the longest number that is read */

int text_vformat(char *buf, size_t size, const char *fmt, va_list ap)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = c ? uselocale(c) : (locale_t)0;
    int n = vsnprintf(buf, size, fmt, ap);

    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return n;
}

int text_format(char *buf, size_t size, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = text_vformat(buf, size, fmt, ap);
    va_end(ap);
    return n;
}

int text_print(FILE *f, const char *fmt, ...)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), old = c ? uselocale(c) : (locale_t)0;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vfprintf(f, fmt, ap);
    va_end(ap);
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return n;
}

__attribute__((format(printf, 2, 3))) static void format(char buf[NUMBER_TEXT], const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    text_vformat(buf, NUMBER_TEXT, fmt, ap);
    va_end(ap);
}

const char *text_hex64(char buf[NUMBER_TEXT], double v)
{
    format(buf, "%a", v);
    return buf;
}

static bool numtext_read(double *out64, float *out32, const char *s, size_t len)
{
    char text[NUMBER_MAX], *end;
    locale_t c, old;

    if (!len || len >= sizeof text || strspn(s, " \t\n\v\f\r") || memchr(s, 'x', len) || memchr(s, 'X', len))
        return false;
    memcpy(text, s, len);
    text[len] = '\0';
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    old = c ? uselocale(c) : (locale_t)0;
    if (out64)
        *out64 = strtod(text, &end);
    else
        *out32 = strtof(text, &end);
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return end == text + len;
}

const char *text_float32(char buf[NUMBER_TEXT], float v)
{
    float back;

    if (isnan(v))
        return strcpy(buf, "nan");
    for (int digits = fabsf(v) < FLT_MIN ? 1 : 6; digits <= 9; digits++) {
        format(buf, "%.*g", digits, v);
        if (text_to_float32(&back, buf, strlen(buf)) && back == v)
            break;
    }
    return buf;
}

const char *text_float64(char buf[NUMBER_TEXT], double v)
{
    double back;

    if (isnan(v))
        return strcpy(buf, "nan");
    for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        format(buf, "%.*g", digits, v);
        if (text_to_float64(&back, buf, strlen(buf)) && back == v)
            break;
    }
    return buf;
}

const char *bytes_text(char text[BYTES_TEXT], uint64_t bytes)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double v = (double)bytes;
    int u = 0;

    for (; u < 4 && v >= 1024; u++)
        v /= 1024;
    text_format(text, BYTES_TEXT, u ? "%.1f %s" : "%.0f %s", v, unit[u]);
    return text;
}

const char *grouped_text(char text[GROUPED_TEXT], int64_t n)
{
    char digits[24];
    const int len = snprintf(digits, sizeof digits, "%lld", (long long)n), sign = n < 0;
    int at = 0;

    for (int i = 0; i < len; i++) {
        if (i > sign && (len - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

bool text_to_float64(double *out, const char *s, size_t len)
{
    double v;

    if (!numtext_read(&v, NULL, s, len))
        return false;
    *out = v;
    return true;
}

bool text_to_int64(int64_t *out, const char *s)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(s, &end, 10);
    if (end == s || *end || errno)
        return false;
    *out = v;
    return true;
}

bool text_to_float32(float *out, const char *s, size_t len)
{
    float v;

    if (!numtext_read(NULL, &v, s, len))
        return false;
    *out = v;
    return true;
}
