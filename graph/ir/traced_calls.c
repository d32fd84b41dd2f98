/* Parsers of the calls and the signature in the metadata of PyTorch's exporter. */
#include "graph/ir/traced_calls.h"

#include <string.h>

#include "graph/base/numtext.h"

bool text_part_is(TextPart p, const char *text) { return strlen(text) == p.n && !strncmp(p.s, text, p.n); }
/* The letters, digits, '_' and '.' at s. */
static TextPart word_at(const char *s)
{
    return (TextPart){ s, strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") };
}

/* "aten.mul.Tensor"; empty when there is none. */
static TextPart target_of(const char *call)
{
    const char *at = call ? strstr(call, "[target=torch.ops.") : NULL;

    return at ? word_at(at + strlen("[target=torch.ops.")) : (TextPart){ "", 0 };
}

bool call_is(const char *call, const char *operator)
{
    const TextPart target = target_of(call);
    const size_t n = strlen(operator);

    return target.n >= n && !strncmp(target.s, operator, n) && (target.n == n || target.s[n] == '.');
}

/* The text from the first argument on. */
static const char *arguments_of(const char *call)
{
    const char *at = call ? strstr(call, "](args = (") : NULL;

    return at ? at + strlen("](args = (") : NULL;
}

bool call_next(TextPart *argument, const char **at)
{
    const char *s = *at && **at == '%' ? arguments_of(*at) : *at;

    while (s && *s && *s != '%')
        s++;
    if (!s || !*s)
        return false;
    *argument = word_at(s + 1);
    *at = argument->s + argument->n;
    return true;
}

/* The text from argument i on, with a leading space; NULL: there are fewer. */
static const char *argument(const char *call, int i)
{
    const char *s = arguments_of(call);
    int depth = 0;

    for (; s && *s && i > 0 && depth >= 0; s++) {
        depth += *s == '(' || *s == '[';
        depth -= *s == ')' || *s == ']';
        i -= *s == ',' && !depth;
    }
    return i > 0 || depth < 0 ? NULL : s;
}

bool call_number(const char *call, int i, double *number)
{
    const char *s = argument(call, i);
    size_t n;

    if (!s)
        return false;
    s += strspn(s, " ");
    n = strcspn(s, ",)");
    *number = n == 4 && !strncmp(s, "True", n);
    return s[n] && (*number || (n == 5 && !strncmp(s, "False", n)) || text_to_float64(number, s, n));
}

bool call_has_statistics(const char *call)
{
    const char *s = call_is(call, "aten.instance_norm") ? argument(call, 3) : NULL;

    return s && s[strspn(s, " ")] == '%';
}

/* Does the name consist of one of `begins` and, optionally, '_' and a number? */
static bool is_called(TextPart name, const char *const *begins, size_t n_begins)
{
    for (size_t i = 0; i < n_begins; i++) {
        size_t k = strlen(begins[i]);

        if (name.n < k || strncmp(name.s, begins[i], k))
            continue;
        if (k < name.n && name.s[k] == '_')
            k++;
        while (k < name.n && name.s[k] >= '0' && name.s[k] <= '9')
            k++;
        if (k == name.n)
            return true;
    }
    return false;
}

bool call_detaches(TextPart name)
{
    static const char *const begins[] = { "detach_copy", "detach_", "detach" };

    return is_called(name, begins, sizeof begins / sizeof *begins);
}

bool call_copies(TextPart name)
{
    static const char *const begins[] = { "clone" };

    return is_called(name, begins, 1);
}

int call_users(const char *call)
{
    const char *at = call ? strstr(call, "[num_users=") : NULL;
    int n = 0;

    for (at = at ? at + strlen("[num_users=") : ""; *at >= '0' && *at <= '9' && n < 1000000; at++)
        n = 10 * n + (*at - '0');
    return n;
}

NormMode call_norm(const char *call)
{
    const TextPart target = target_of(call);
    const char *at = arguments_of(call), *on, *off;

    if (!at || !target.n)
        return NORM_UNKNOWN;
    if (call_is(call, "aten._native_batch_norm_legit_no_training"))
        return NORM_EVALUATION;
    if (!call_is(call, "aten._native_batch_norm_legit_functional") && !call_is(call, "aten._native_batch_norm_legit") &&
        !call_is(call, "aten.native_batch_norm") && !call_is(call, "aten.batch_norm") &&
        !call_is(call, "aten.cudnn_batch_norm"))
        return NORM_UNKNOWN;
    on = strstr(at, "True");
    off = strstr(at, "False");
    return on && (!off || on < off) ? NORM_TRAINING : off ? NORM_EVALUATION : NORM_UNKNOWN;
}

/* ---- the signature ---- */

static TextPart quoted_at(const char *s)
{
    const char *end = s && (*s == '\'' || *s == '"') ? strchr(s + 1, *s) : NULL;

    return end ? (TextPart){ s + 1, (size_t)(end - s - 1) } : (TextPart){ "", 0 };
}

/* Reads "name: KIND target='...'", up to `end`. */
static bool read_line(SignatureLine *out, const char *s, const char *end)
{
    const char *target;
    SignatureLine line = { .name = word_at(s), .target = { "", 0 } };

    s = line.name.s + line.name.n;
    if (!line.name.n || s + 2 > end || s[0] != ':' || s[1] != ' ')
        return false;
    line.kind = word_at(s + 2);
    target = strstr(s, "target=");
    if (target && target < end)
        line.target = quoted_at(target + strlen("target="));
    *out = line;
    return line.kind.n > 0;
}

/* Reads the object that older versions print instead:
 * InputSpec(kind=<InputKind.PARAMETER: 1>, arg=TensorArgument(name='p_w'), target='w', persistent=None). */
static bool read_spec(SignatureLine *out, const char *s, const char *end)
{
    const char *kind = strstr(s, "kind=<"), *name = strstr(s, "name="), *target = strstr(s, "target=");

    if (!kind || !name || kind > end || name > end || !(kind = strchr(kind, '.')) || kind > end)
        return false;
    *out = (SignatureLine){ .name = quoted_at(name + strlen("name=")), .kind = word_at(kind + 1), .target = { "", 0 } };
    if (target && target < end)
        out->target = quoted_at(target + strlen("target="));
    return out->name.n && out->kind.n;
}

bool signature_next(SignatureLine *line, const char **at)
{
    const char *s = *at;

    while (s && *s) {
        const char *spec = strstr(s, "putSpec(kind="), *end = strchr(s, '\n');

        if (spec) {
            end = strstr(spec + 1, "putSpec(kind=");
            end = end ? end : spec + strlen(spec);
        } else
            end = end ? end : s + strlen(s);
        *at = *end == '\n' ? end + 1 : end;
        if (spec ? read_spec(line, spec, end) : read_line(line, s, end))
            return true;
        s = *at;
    }
    return false;
}
