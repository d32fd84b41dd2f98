/* Numbers as text that reads back to the same bits, whatever the host's locale. */
#ifndef DPX_BASE_NUMTEXT_H
#define DPX_BASE_NUMTEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NUMBER_TEXT = 32 };

/* The shortest decimal form that reads back to v, "inf", "-inf" or "nan"; returns `buf`. */
const char *text_float32(char buf[NUMBER_TEXT], float v);
const char *text_float64(char buf[NUMBER_TEXT], double v);

/* The exact hexadecimal form, for C and CUDA sources; returns `buf`. */
const char *text_hex64(char buf[NUMBER_TEXT], double v);

/* vsnprintf in the C locale. */
int text_vformat(char *buf, size_t size, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

/* snprintf and fprintf in the C locale. */
int text_format(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int text_print(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "12 B", "1.5 KiB", "20.0 MiB": rounded to a tenth of the unit. */
enum { BYTES_TEXT = 24 };
const char *bytes_text(char text[BYTES_TEXT], uint64_t bytes);
/* "1,234,567" */
enum { GROUPED_TEXT = 32 };
const char *grouped_text(char text[GROUPED_TEXT], int64_t n);

/* Parses all of `s` as a number in C's decimal form, or inf or nan with an optional sign.  false: it is something else.
 */
bool text_to_float64(double *out, const char *s, size_t len);
/* Parses all of `s` as a whole number of decimal digits with an optional sign. */
bool text_to_int64(int64_t *out, const char *s);
/* Rounds once from the decimal form, not by way of double. */
bool text_to_float32(float *out, const char *s, size_t len);

#endif
