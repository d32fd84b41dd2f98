/* A setting: a name, the text that sets it, and the field of a structure where its value goes.
 *
 * The field's C type says how the text is read: SETTING_OF finds the kind by _Generic, so a field of a type that has no
 * reader does not compile, and no value is stored with another size than its field has.  Options of a run
 * (exec/train/options.c) and those of losses, metrics, optimizers and schedules (graph/recipes/recipe.h) are settings;
 * help, man pages, args.json and the C API's list are made of them. */
#ifndef DPX_SETTING_H
#define DPX_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef enum {
    SETTING_CUSTOM, /* read by `set` */
    SETTING_FLAG,   /* bool */
    SETTING_INT,
    SETTING_INT64, /* also uint64_t, with a minimum that is not negative */
    SETTING_REAL,  /* double */
    SETTING_TEXT,  /* const char *, not empty */
    SETTING_CHOICE,
    SETTING_CHOICE_FLAG /* of two, in a bool */
} SettingKind;

/* What another value means to a run that goes on from a checkpoint; what nobody has thought of is fixed. */
typedef enum {
    RESUME_FIXED,     /* another run */
    RESUME_TOLD,      /* may be wanted, and is told */
    RESUME_FREE,      /* nothing that is computed */
    RESUME_ELSEWHERE, /* compared in another way */
    RESUME_BITS       /* other last bits, which is told */
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
    bool trains; /* only training reads it; of a recipe's flags the list of recipes says it */
    OnResume on_resume;
    bool derived; /* the command line sets it itself, and takes no such flag */
} Setting;

/* clang-format off */
#define SETTING_KIND(field)                                                                                            \
    _Generic((field), bool: SETTING_FLAG, int: SETTING_INT, int64_t: SETTING_INT64, uint64_t: SETTING_INT64,           \
             double: SETTING_REAL, const char *: SETTING_TEXT)
#define SETTING_CHOICE_KIND(field) _Generic((field), bool: SETTING_CHOICE_FLAG, default: SETTING_CHOICE)
/* clang-format on */
/* The kind and place of field `field` of `Struct`. */
#define SETTING_OF(Struct, field) .kind = SETTING_KIND(((Struct *)0)->field), .at = offsetof(Struct, field)
/* The same of an enumeration, or of a bool, that one of `words` sets. */
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

/* Reads `value` into the field of *to, a structure of the kind that the setting was made for; *to stays as it was when
 * the text is wrong. Strings are copied to `arena`. */
Status setting_set(const Setting *s, void *to, Arena *arena, const char *value) CHECKED;
/* "--name: expected ..., found 'value'" */
Status setting_bad(const Setting *s, const char *value, const char *expected) CHECKED;
/* What `set` functions share: reading by the setting's range or words, whatever its kind. */
Status setting_read_int(int64_t *out, const Setting *s, const char *value) CHECKED;
Status setting_read_real(double *out, const Setting *s, const char *value) CHECKED;
Status setting_read_choice(int *out, const Setting *s, const char *value) CHECKED;

#endif
