/* Settings: each has a name, a text that sets it, and the field of a structure that holds its value.
 *
 * The field's C type selects the parser: SETTING_OF finds it by _Generic, so a field of another type does not compile,
 * and a value always has the size of its field.  Options of a run (exec/train/options.c) and those of losses, metrics,
 * optimizers and schedules (graph/recipes/recipe.h) are settings.  Help, man pages, args.json and the C API's list are
 * made from them. */
#ifndef DPX_SETTING_H
#define DPX_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef enum {
    SETTING_CUSTOM, /* parsed by `set` */
    SETTING_FLAG,   /* bool */
    SETTING_INT,
    SETTING_INT64, /* also uint64_t, with a minimum that is not negative */
    SETTING_REAL,  /* double */
    SETTING_TEXT,  /* const char *, not empty */
    SETTING_CHOICE,
    SETTING_CHOICE_FLAG /* of two, in a bool */
} SettingKind;

/* The effect of another value when a run is resumed from a checkpoint; the default is RESUME_FIXED. */
typedef enum {
    RESUME_FIXED,     /* an error: it would be another run */
    RESUME_TOLD,      /* allowed, with a note */
    RESUME_FREE,      /* allowed: results do not depend on it */
    RESUME_ELSEWHERE, /* checked in another way */
    RESUME_BITS       /* allowed, with a note that the last bits of results differ */
} OnResume;

typedef struct Setting {
    const char *name, *metavar; /* metavar NULL: a flag */
    const char *fallback;       /* the default as text; "" when there is none; NULL: must be given */
    const char *help;
    SettingKind kind;
    size_t at; /* offset of the field */
    double min, max;
    bool above_min;      /* the minimum itself is not allowed */
    const char *choices; /* "a|b|c" in the order of the enumeration */
    Status (*set)(const struct Setting *, void *to, const char *value);
    bool repeats;
    bool trains; /* only training reads it; not set for flags of recipes, whose list shows it */
    OnResume on_resume;
    bool derived; /* the command line computes it, and has no such flag */
} Setting;

/* clang-format off */
#define SETTING_KIND(field)                                                                                            \
    _Generic((field), bool: SETTING_FLAG, int: SETTING_INT, int64_t: SETTING_INT64, uint64_t: SETTING_INT64,           \
             double: SETTING_REAL, const char *: SETTING_TEXT)
#define SETTING_CHOICE_KIND(field) _Generic((field), bool: SETTING_CHOICE_FLAG, default: SETTING_CHOICE)
/* clang-format on */
/* The kind and place of field `field` of `Struct`. */
#define SETTING_OF(Struct, field) .kind = SETTING_KIND(((Struct *)0)->field), .at = offsetof(Struct, field)
/* The kind and place of an enumeration, or of a bool, that one of `words` ("a|b|c") sets. */
#define SETTING_CHOICE_OF(Struct, field, words)                                                  \
    .kind = SETTING_CHOICE_KIND(((Struct *)0)->field),                                           \
    .at = offsetof(Struct, field) +                                                              \
          0 * sizeof(struct {                                                                    \
              _Static_assert(SETTING_CHOICE_KIND(((Struct *)0)->field) == SETTING_CHOICE_FLAG || \
                                 sizeof(((Struct *)0)->field) == sizeof(int),                    \
                             "a choice is an enumeration or a bool");                            \
              int unused;                                                                        \
          }),                                                                                    \
    .choices = words
#define SETTING_REAL_MAX 1e30
#define SETTING_COUNT_MAX 1e15

/* Parses `value` into the setting's field of *to; after an error *to is unchanged.  Strings are copied to `arena`. */
Status setting_set(const Setting *s, void *to, Arena *arena, const char *value) CHECKED;
/* Fails with "--name: expected ..., found 'value'". */
Status setting_bad(const Setting *s, const char *value, const char *expected) CHECKED;
/* Parsers for `set` functions: they check the setting's range or words, whatever its kind. */
Status setting_read_int(int64_t *out, const Setting *s, const char *value) CHECKED;
Status setting_read_real(double *out, const Setting *s, const char *value) CHECKED;
Status setting_read_choice(int *out, const Setting *s, const char *value) CHECKED;

#endif
