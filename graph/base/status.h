/* Status codes and the one-line error message of this thread.
 *
 * Only FAIL makes a code, so no code exists without a message.  A message is one line that names the file, node or
 * flag, what was expected and what was found.  Characters that a terminal obeys are removed from foreign names. */
#ifndef DPX_BASE_STATUS_H
#define DPX_BASE_STATUS_H

#include <stddef.h>

typedef enum {
    ST_OK = 0,
    E_NOMEM = -1,       /* an allocation failed */
    E_INVALID = -2,     /* a wrong argument or option */
    E_MODEL = -3,       /* a malformed model */
    E_UNSUPPORTED = -4, /* a well-formed model that needs something not implemented */
    E_SHAPE = -5,       /* shapes or types that do not fit */
    E_DEVICE = -6,      /* a device is missing or failed */
    E_IO = -7,          /* a file could not be read or written */
    E_INTERNAL = -8,    /* a bug of dpexec */
    E_INTERRUPTED = -9  /* stopped by the caller */
} Status;

#define CHECKED __attribute__((warn_unused_result))

/* Records a one-line message for this thread.  The value is `s` in the expression itself, so that the compiler knows
 * that code after a TRY ran on success. */
#define FAIL(s, ...) ((void)fail_at(__FILE__, __LINE__, (s), __VA_ARGS__), (s))
#define FAIL_NOMEM() FAIL(E_NOMEM, "out of memory")
#define TRY(e)                              \
    do {                                    \
        Status s_ = (e);                    \
        if (s_) {                           \
            fail_trace(__FILE__, __LINE__); \
            return s_;                      \
        }                                   \
    } while (0)
#define TRY_TO(label, st, e)                \
    do {                                    \
        if (((st) = (e))) {                 \
            fail_trace(__FILE__, __LINE__); \
            goto label;                     \
        }                                   \
    } while (0)

Status fail_at(const char *file, int line, Status s, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void fail_trace(const char *file, int line);

/* The message of this thread's last failure; "" when there was none.  Valid until this thread's next failure. */
const char *status_message(void);
/* The place of the last failure and the calls that passed it on ("file:line < file:line ..."), for debugging. */
const char *status_trace(void);
const char *status_name(Status s);
/* The element of the caller's memory that the last failure is about: an address to compare, never to read.  NULL: none.
 */
void status_set_element(const void *at, const char *text);
const void *status_element(void);
const char *status_element_text(void); /* what is wrong with it, for a caller that names the place; "" */
void status_clear(void);

/* Puts "context: " before this thread's message, unless it is there: a file or node that a deeper layer does not know.
 * Returns s; ST_OK does nothing. */
Status status_prefix(Status s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Several problems reported in one error, each named once.  A local list is declared by PROBLEMS and frees itself where
 * its block ends, however that is left; the owner of a struct with a list calls problems_free. */
typedef struct {
    char *text;
    size_t len, cap;
    int n;
} Problems;

#define PROBLEMS(name) Problems name __attribute__((cleanup(problems_free))) = { 0 }

void problems_add(Problems *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns ST_OK if no problem was added; otherwise fails with the header ("": none) and all problems, and empties the
 * list. */
Status problems_fail(Problems *p, Status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Empties the list. */
void problems_free(Problems *p);

#endif
