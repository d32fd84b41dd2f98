/* Judges the predictions of an evaluation sample by sample.  The losses here rank samples; the loss of the evaluation
 * is computed by the graph. */
#include "tools/report/mistakes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/report/sample_values.h"
#include "tools/report/thumbnail.h"
#include "tools/tensor_number.h"

enum { MOST_WORST = 25, MOST_COUNTED = 200, MOST_PAIRS = 1000, TEXT = 200 };
static const int64_t MOST_ELEMENTS = 1 << 26;

typedef enum { LOGITS, LOG_PROBABILITIES, BINARY_LOGIT, BINARY_PROBABILITY, VALUES } Scores;

typedef struct {
    int64_t row;
    double loss;
    char text[TEXT];
    bool judged; /* of one position in one of several classes: `wrong` says whether another one was found */
    bool wrong;
    char *png;      /* in base64; NULL: it is no image */
    char *mask[2];  /* the same of the classes of its pixels: the targets, and those that were found; NULL: none */
    json_t *values; /* of what is no image; NULL: none */
} Worst;

struct Mistakes {
    const Feed *feed;
    Scores scores;
    int axis;   /* of the classes in the scores, by --class-axis; 0: it is not given */
    int target; /* the number of its field */
    int rank;
    int64_t samples, elements;
    Worst worst[MOST_WORST]; /* descending by loss */
    int n_worst;
    int64_t classes, *count; /* [classes, classes] rows are targets; NULL: too many, or none */
    double pair[MOST_PAIRS][2];
    int64_t n_pairs, every; /* each so many samples give a pair */
};

Status mistakes_open(Mistakes **out, Feed *feed, const dpx_options *o, int rank)
{
    static const struct {
        const char *loss;
        Scores scores;
    } kinds[] = { { "cross-entropy", LOGITS },
                  { "nll", LOG_PROBABILITIES },
                  { "bce-logits", BINARY_LOGIT },
                  { "bce", BINARY_PROBABILITY },
                  { "mse", VALUES },
                  { "l1", VALUES },
                  { "huber", VALUES } };
    const char *loss = dpx_options_get(o, "loss");
    const size_t length = strcspn(loss, ":");
    Mistakes m = { .feed = feed,
                   .axis = (int)strtol(dpx_options_get(o, "class-axis"), NULL, 10),
                   .target = -1,
                   .rank = rank,
                   .every = 1 };
    bool known = false;

    *out = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].loss) == length && !strncmp(loss, kinds[i].loss, length)) {
            m.scores = kinds[i].scores;
            known = true;
        }
    for (int i = 0; i < feed->n; i++)
        if (feed->target && !strcmp(feed->field[i].name, feed->target))
            m.target = i;
    if (!known || m.target < 0 || feed->field[m.target].axis)
        return ST_OK;
    if (!(*out = malloc(sizeof m)))
        return FAIL_NOMEM();
    **out = m;
    return ST_OK;
}

static void forget(Worst *w)
{
    free(w->png);
    free(w->mask[0]);
    free(w->mask[1]);
    json_decref(w->values);
}

void mistakes_free(Mistakes *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_worst; i++)
        forget(&m->worst[i]);
    free(m->count);
    free(m);
}

static bool describes(const Dataset *d) { return d->source.format && d->source.format->describe; }
static bool is_float(const dpx_tensor *t) { return t->dtype == DPX_FLOAT32 || t->dtype == DPX_FLOAT64; }

/* The name of a class, or its number. */
static const char *name_class(char text[TEXT], const Feed *f, int64_t c)
{
    snprintf(text, TEXT, "%lld", (long long)c);
    return f->data->class_name && c < f->data->classes ? f->data->class_name[c] : text;
}

/* How wrong one sample is. */
typedef struct {
    double loss;        /* the mean over its positions that count */
    int64_t n, wrong;   /* positions that count; of these, those that are in another class than was found */
    int64_t is, taken;  /* classes of the last one */
    double probability; /* of `taken` */
    double target, prediction;
} Verdict;

/* Scores [..., classes, inner] and as many targets as they have without that axis. */
typedef struct {
    int64_t classes, inner; /* classes 0: values, a score for each target */
    int64_t each;           /* targets of a sample */
    bool shares;            /* the target [N,classes] has the shares of the classes: the largest counts */
} Layout;

/* The class with the largest of n shares from element `at` on. */
static int64_t largest_share(const dpx_tensor *target, int64_t at, int64_t n)
{
    int64_t best = 0;

    for (int64_t c = 1; c < n; c++)
        if (tensor_number(target, at + c) > tensor_number(target, at + best))
            best = c;
    return best;
}

/* The class of position p of a sample whose scores begin at `at`: that of the largest one. */
static int64_t found_class(const Layout *as, const dpx_tensor *scores, int64_t at, int64_t p)
{
    const int64_t first = at + p / as->inner * as->classes * as->inner + p % as->inner;
    int64_t best = 0;

    for (int64_t c = 1; c < as->classes; c++)
        if (tensor_number(scores, first + c * as->inner) > tensor_number(scores, first + best * as->inner))
            best = c;
    return best;
}

/* Judges the classes of one sample, whose scores and targets begin at these elements. */
static void judge_classes(Verdict *v, Mistakes *m, const Layout *as, const dpx_tensor *scores, int64_t at,
                          const dpx_tensor *target, int64_t target_at)
{
    for (int64_t p = 0; p < as->each; p++) {
        const int64_t first = at + p / as->inner * as->classes * as->inner + p % as->inner;
        const double is = as->shares ? (double)largest_share(target, target_at * as->classes, as->classes)
                                     : tensor_number(target, target_at + p);
        int64_t taken;
        double sum = 0, most, log_sum;

        if (!(is >= 0 && is < (double)as->classes)) /* it does not count */
            continue;
        taken = found_class(as, scores, at, p);
        most = tensor_number(scores, first + taken * as->inner);
        for (int64_t c = 0; c < as->classes && m->scores == LOGITS; c++)
            sum += exp(tensor_number(scores, first + c * as->inner) - most);
        log_sum = m->scores == LOGITS ? most + log(sum) : 0;
        v->n++;
        v->wrong += taken != (int64_t)is;
        v->is = (int64_t)is;
        v->taken = taken;
        v->probability = exp(most - log_sum);
        v->loss += log_sum - tensor_number(scores, first + (int64_t)is * as->inner);
        if (m->count)
            m->count[(int64_t)is * as->classes + taken]++;
    }
    v->loss /= v->n ? (double)v->n : 1;
}

static void judge_values(Verdict *v, const Mistakes *m, const dpx_tensor *scores, int64_t at, const dpx_tensor *target,
                         int64_t target_at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double y = tensor_number(scores, at + i), t = tensor_number(target, target_at + i);
        const double p = m->scores == BINARY_LOGIT ? 1 / (1 + exp(-y)) : y;

        v->target = t;
        v->prediction = p;
        v->wrong += m->scores != VALUES && (p > 0.5) != (t > 0.5);
        v->loss += m->scores == BINARY_LOGIT ? (y > 0 ? y : 0) - y * t + log1p(exp(-fabs(y))) : fabs(p - t);
    }
    v->n = n;
    v->loss /= n ? (double)n : 1;
}

static void tell(char text[TEXT], const Mistakes *m, const Verdict *v, bool pixels)
{
    char is[TEXT], taken[TEXT];

    if (m->scores <= LOG_PROBABILITIES && v->n == 1)
        text_format(text, TEXT, "%.80s, predicted %.80s with probability %.3g", name_class(is, m->feed, v->is),
                    v->wrong ? name_class(taken, m->feed, v->taken) : "correctly", v->probability);
    else if (m->scores <= LOG_PROBABILITIES)
        text_format(text, TEXT, "%lld of %lld %swrong", (long long)v->wrong, (long long)v->n, pixels ? "pixels " : "");
    else if (v->n == 1)
        text_format(text, TEXT, "is %.5g, predicted %.5g", v->target, v->prediction);
    else
        text_format(text, TEXT, "mean error %.4g", v->loss);
}

/* Whether targets are the classes of pixels: [N,H,W] of scores [N,classes,H,W]. */
static bool is_mask(const Layout *as, const dpx_tensor *scores, const dpx_tensor *target)
{
    return as->classes && target->rank == 3 && scores->rank == 4 && as->inner == as->each && target->dim[1] > 1 &&
           target->dim[2] > 1;
}

/* Draws the masks of a sample whose scores begin at element `from`, and whose row of the target is `at`. */
static Status draw_masks(char *mask[2], const Layout *as, const dpx_tensor *scores, int64_t from,
                         const dpx_tensor *target, int64_t at)
{
    uint8_t *class_of = malloc((size_t)as->each);
    Status st = class_of ? ST_OK : FAIL_NOMEM();

    for (int k = 0; k < 2 && !st; k++) {
        for (int64_t p = 0; p < as->each; p++) {
            const double c = k ? (double)found_class(as, scores, from, p) : tensor_number(target, at * as->each + p);

            class_of[p] = c >= 0 && c < (double)as->classes ? (uint8_t)((int64_t)c % NO_CLASS) : NO_CLASS;
        }
        st = thumbnail_of_classes(&mask[k], class_of, target->dim[1], target->dim[2]);
    }
    free(class_of);
    return st;
}

/* Keeps the sample, row `at` of the target, if it is among the worst.  Its scores begin at element `from`. */
static Status keep_worst(Mistakes *m, const Verdict *v, const Layout *as, const Loader *l, const Batch *b,
                         const dpx_tensor *scores, int64_t from, int64_t at)
{
    Worst w = { .loss = v->loss, .judged = v->n == 1 && m->scores != VALUES, .wrong = v->wrong };
    int place = m->n_worst;
    Status st = ST_OK;
    const dpx_tensor *target = &b->tensor[m->target];
    int64_t behind = 1;

    if (!isfinite(v->loss) || (m->n_worst == MOST_WORST && v->loss <= m->worst[MOST_WORST - 1].loss))
        return ST_OK;
    for (int i = 1; i < target->rank; i++)
        behind *= target->dim[i];
    w.row = loader_sample(l, b, (const char *)target->data + (size_t)(at * behind) * dpx_dtype_size(target->dtype));
    tell(w.text, m, v, is_mask(as, scores, target));
    for (int i = 0; i < b->n && !w.png; i++)
        if (i != m->target && m->feed->field[i].split == m->feed->field[m->target].split && !m->feed->field[i].axis)
            TRY(thumbnail_base64(&w.png, &b->tensor[i], at));
    if (!w.png && !describes(m->feed->data) && (st = sample_values(&w.values, m->feed, b, m->target, at)))
        return st;
    if (w.png && is_mask(as, scores, target) && (st = draw_masks(w.mask, as, scores, from, target, at))) {
        forget(&w);
        return st;
    }
    if (m->n_worst == MOST_WORST)
        forget(&m->worst[--place]);
    else
        m->n_worst++;
    for (; place && m->worst[place - 1].loss < w.loss; place--)
        m->worst[place] = m->worst[place - 1];
    m->worst[place] = w;
    return ST_OK;
}

/* Keeps at most MOST_PAIRS pairs that lie evenly over the samples. */
static void keep_pair(Mistakes *m, const Verdict *v)
{
    if (v->n != 1 || m->samples % m->every || !isfinite(v->target) || !isfinite(v->prediction))
        return;
    if (m->n_pairs == MOST_PAIRS) {
        for (int64_t i = 0; i < MOST_PAIRS / 2; i++)
            memcpy(m->pair[i], m->pair[2 * i], sizeof *m->pair);
        m->n_pairs /= 2;
        m->every *= 2;
        if (m->samples % m->every)
            return;
    }
    m->pair[m->n_pairs][0] = v->target;
    m->pair[m->n_pairs++][1] = v->prediction;
}

/* The axis without which the scores have the targets' shape: the given one, or the only one; 0: there is none. */
static int class_axis(const Mistakes *m, const dpx_tensor *scores, const dpx_tensor *target)
{
    const int given = m->axis < 0 ? m->axis + scores->rank : m->axis;
    int found = 0, n = 0;

    for (int k = 1; k < scores->rank; k++) {
        bool fits = target->rank == scores->rank - 1 && scores->dim[k] > 1 && (!given || k == given);

        for (int i = 1; i < target->rank && fits; i++)
            fits = target->dim[i] == scores->dim[i < k ? i : i + 1];
        n += fits;
        found = fits ? k : found;
    }
    return n == 1 ? found : 0;
}

/* Whether the scores are [N, classes, ...] or, with values, as many as targets. */
static bool fits(Layout *as, const Mistakes *m, const dpx_tensor *scores, const dpx_tensor *target, const Batch *b)
{
    const bool of_classes = m->scores <= LOG_PROBABILITIES;
    const int axis = of_classes ? class_axis(m, scores, target) : 0;
    int64_t of_scores = 1;

    if (of_classes && is_float(scores) && is_float(target) && scores->rank == 2 && target->rank == 2 &&
        scores->dim[0] == b->samples && scores->dim[1] == target->dim[1]) {
        *as = (Layout){ .classes = scores->dim[1], .inner = 1, .each = 1, .shares = true };
        return true;
    }
    if (!is_float(scores) || scores->rank < 1 || scores->dim[0] != b->samples || target->rank < 1 || !target->dim[0] ||
        (of_classes ? !axis || (target->dtype != DPX_INT64 && target->dtype != DPX_INT32) : !is_float(target)))
        return false;
    *as = (Layout){ .classes = axis ? scores->dim[axis] : 0, .inner = 1, .each = 1 };
    for (int i = 1; i < scores->rank; i++)
        of_scores *= scores->dim[i];
    for (int i = axis + 1; axis && i < scores->rank; i++)
        as->inner *= scores->dim[i];
    for (int i = 1; i < target->rank; i++)
        as->each *= target->dim[i];
    return of_scores == as->each * (axis ? as->classes : 1);
}

Status mistakes_add(Mistakes *m, const Loader *l, const Batch *b, const dpx_result *r)
{
    const dpx_tensor *target = &b->tensor[m->target], *scores = r->outputs;
    const bool split = m->feed->field[m->target].split;
    const int64_t from = split && target->dim[0] != b->samples ? b->part.from : 0;
    Layout as;

    if (r->n_outputs < 1 || m->elements > MOST_ELEMENTS || (m->rank && !split) || !fits(&as, m, scores, target, b))
        return ST_OK;
    if (!m->classes && as.classes && as.classes <= MOST_COUNTED) {
        m->classes = as.classes;
        if (!(m->count = calloc((size_t)(as.classes * as.classes), sizeof *m->count)))
            return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < target->dim[0] && from + i < b->samples; i++) {
        const int64_t scores_each = as.each * (as.classes ? as.classes : 1);
        Verdict v = { .loss = 0 };

        if (as.classes)
            judge_classes(&v, m, &as, scores, (from + i) * scores_each, target, i * as.each);
        else
            judge_values(&v, m, scores, (from + i) * scores_each, target, i * as.each, as.each);
        if (!v.n)
            continue;
        TRY(keep_worst(m, &v, &as, l, b, scores, (from + i) * scores_each, i));
        if (!as.classes)
            keep_pair(m, &v);
        m->samples++;
        m->elements += scores_each;
    }
    return ST_OK;
}

/* ---- what was found, as JSON ---- */

/* Where the sample is from: a file, a line of one, or a row of arrays. */
static json_t *origin(const Dataset *d, int64_t row)
{
    const DataFormat *f = d->source.format;
    char text[TEXT];

    snprintf(text, sizeof text, "%s %lld", f && f->line ? "line" : "row",
             (long long)(f && f->line ? f->line(d, row) : row));
    return shown_text(f && f->file ? f->file(d, row) : text);
}

static Status add_worst(json_t *list, const Mistakes *m, const Worst *at)
{
    json_t *j = json_pack("{s:I, s:f, s:o, s:o}", "row", (json_int_t)at->row, "loss", at->loss, "text",
                          shown_text(at->text), "from", origin(m->feed->data, at->row)),
           *values = NULL;
    Status st = j ? ST_OK : FAIL_NOMEM();

    if (!st && at->judged && json_object_set_new(j, "wrong", json_boolean(at->wrong)))
        st = FAIL_NOMEM();
    if (!st && !at->png && describes(m->feed->data))
        st = sample_described(&values, m->feed->data, at->row);
    if (!st &&
        ((values && json_object_set(j, "values", values)) || (at->values && json_object_set(j, "values", at->values)) ||
         (at->png && json_object_set_new(j, "png", json_string(at->png))) ||
         (at->mask[0] && json_object_set_new(j, "target", json_string(at->mask[0]))) ||
         (at->mask[1] && json_object_set_new(j, "prediction", json_string(at->mask[1]))) || json_array_append(list, j)))
        st = FAIL_NOMEM();
    json_decref(values);
    json_decref(j);
    return st;
}

static Status add_names(json_t *found, const Dataset *d)
{
    json_t *names = json_array();

    if (!names || json_object_set_new(found, "classes", names))
        return FAIL_NOMEM();
    for (int64_t c = 0; d->class_name && c < d->classes; c++)
        if (json_array_append_new(names, shown_text(d->class_name[c])))
            return FAIL_NOMEM();
    return ST_OK;
}

static Status add_counts(json_t *found, const Mistakes *m)
{
    json_t *rows = json_array(), *row;

    if (!rows || json_object_set_new(found, "confusion", rows))
        return FAIL_NOMEM();
    for (int64_t c = 0; c < m->classes; c++) {
        if (!(row = json_array()) || json_array_append_new(rows, row))
            return FAIL_NOMEM();
        for (int64_t k = 0; k < m->classes; k++)
            if (json_array_append_new(row, json_integer(m->count[c * m->classes + k])))
                return FAIL_NOMEM();
    }
    return ST_OK;
}

static Status add_pairs(json_t *found, const Mistakes *m)
{
    json_t *pairs = json_array();

    if (!pairs || json_object_set_new(found, "residuals", pairs))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < m->n_pairs; i++)
        if (json_array_append_new(pairs, json_pack("[f, f]", m->pair[i][0], m->pair[i][1])))
            return FAIL_NOMEM();
    return ST_OK;
}

Status mistakes_found(json_t **out, const Mistakes *m, int64_t step)
{
    json_t *found = json_pack("{s:I, s:I, s:I, s:[]}", "step", (json_int_t)step, "samples", (json_int_t)m->samples,
                              "of", (json_int_t)m->feed->data->samples, "worst");
    Status st = found ? ST_OK : FAIL_NOMEM();

    if (!st && m->count)
        st = add_names(found, m->feed->data);
    for (int i = 0; i < m->n_worst && !st; i++)
        st = add_worst(json_object_get(found, "worst"), m, &m->worst[i]);
    if (!st && m->count)
        st = add_counts(found, m);
    if (!st && m->n_pairs)
        st = add_pairs(found, m);
    if (st)
        json_decref(found);
    else
        *out = found;
    return st;
}

/* ---- of several processes ---- */

/* Merges two lists that descend by loss, and keeps the first of both. */
static Status join_worst(json_t *list, const json_t *more)
{
    json_t *x;
    size_t i, at = 0;

    json_array_foreach(more, i, x) {
        const double loss = json_number_value(json_object_get(x, "loss"));

        while (at < json_array_size(list) &&
               json_number_value(json_object_get(json_array_get(list, at), "loss")) >= loss)
            at++;
        if (at < MOST_WORST && json_array_insert(list, at, x))
            return FAIL_NOMEM();
    }
    while (json_array_size(list) > MOST_WORST)
        json_array_remove(list, MOST_WORST);
    return ST_OK;
}

static Status join_counts(json_t *counts, const json_t *more)
{
    const size_t n = json_array_size(counts);

    for (size_t i = 0; i < n * n; i++) {
        json_t *row = json_array_get(counts, i / n);
        const json_t *x = json_array_get(json_array_get(more, i / n), i % n);

        if (!json_is_integer(x))
            return FAIL(E_IO, "counts of a process, row %zu: expected %zu numbers", i / n, n);
        if (json_array_set_new(row, i % n,
                               json_integer(json_integer_value(json_array_get(row, i % n)) + json_integer_value(x))))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

/* Adds the other pairs, and leaves as many as a page shows, which lie evenly. */
static Status join_pairs(json_t *pairs, const json_t *more)
{
    size_t n, each;

    if (!json_array_size(pairs))
        return ST_OK;
    if (json_array_extend(pairs, (json_t *)more)) /* which does not change it */
        return FAIL_NOMEM();
    n = json_array_size(pairs);
    each = (n + MOST_PAIRS - 1) / MOST_PAIRS;
    for (size_t i = 0; i * each < n; i++)
        if (json_array_set(pairs, i, json_array_get(pairs, i * each)))
            return FAIL_NOMEM();
    for (size_t left = (n + each - 1) / each; json_array_size(pairs) > left;)
        json_array_remove(pairs, json_array_size(pairs) - 1);
    return ST_OK;
}

Status mistakes_join(json_t *found, const json_t *more)
{
    const json_int_t judged =
        json_integer_value(json_object_get(found, "samples")) + json_integer_value(json_object_get(more, "samples"));
    static const struct {
        const char *name;
        Status (*join)(json_t *list, const json_t *more);
    } lists[] = { { "worst", join_worst }, { "confusion", join_counts }, { "residuals", join_pairs } };

    if (json_object_set_new(found, "samples", json_integer(judged)))
        return FAIL_NOMEM();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_t *own = json_object_get(found, lists[i].name), *other = json_object_get(more, lists[i].name);

        if (own && other)
            TRY(lists[i].join(own, other));
        else if (other && json_object_set(found, lists[i].name, other))
            return FAIL_NOMEM();
    }
    return ST_OK;
}
