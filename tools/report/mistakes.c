/* Judges the predictions of an evaluation sample by sample.  The losses here rank samples; the loss of the evaluation
 * is computed by the graph. */
#include "tools/report/mistakes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/report/thumbnail.h"
#include "tools/tensor_number.h"

enum { MOST_WORST = 25, MOST_COUNTED = 200, MOST_PAIRS = 1000, TEXT = 200 };
static const int64_t MOST_ELEMENTS = 1 << 26;

typedef enum { LOGITS, LOG_PROBABILITIES, BINARY_LOGIT, BINARY_PROBABILITY, VALUES } Scores;

typedef struct {
    int64_t row;
    double loss;
    char text[TEXT];
    char *png; /* in base64; NULL: it is no image */
} Worst;

struct Mistakes {
    const Feed *feed;
    Scores scores;
    bool by_axis_1; /* the scores' axis of classes */
    int target;     /* the number of its field */
    int64_t samples, elements;
    Worst worst[MOST_WORST]; /* descending by loss */
    int n_worst;
    int64_t classes, *count; /* [classes, classes] rows are targets; NULL: too many, or none */
    double pair[MOST_PAIRS][2];
    int64_t n_pairs, every; /* each so many samples give a pair */
};

Status mistakes_open(Mistakes **out, const Feed *feed, const dpx_options *o)
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
    const char *loss = dpx_options_get(o, "loss"), *axis = dpx_options_get(o, "class-axis");
    const size_t length = strcspn(loss, ":");
    Mistakes m = { .feed = feed, .by_axis_1 = !*axis || !strcmp(axis, "1"), .target = -1, .every = 1 };
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

void mistakes_free(Mistakes *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_worst; i++)
        free(m->worst[i].png);
    free(m->count);
    free(m);
}

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
    int64_t n, wrong;   /* positions that count; of these, those taken for another class */
    int64_t is, taken;  /* classes of the last one */
    double probability; /* of `taken` */
    double target, prediction;
} Verdict;

/* Judges the classes of one sample: scores [classes, ...] from element `at` on, `inner` apart, of `positions`. */
static void judge_classes(Verdict *v, Mistakes *m, const dpx_tensor *scores, int64_t at, const dpx_tensor *target,
                          int64_t target_at, int64_t classes, int64_t positions)
{
    for (int64_t p = 0; p < positions; p++) {
        const double is = tensor_number(target, target_at + p);
        int64_t taken = 0;
        double sum = 0, most, log_sum;

        if (!(is >= 0 && is < (double)classes)) /* it does not count */
            continue;
        for (int64_t c = 1; c < classes; c++)
            taken = tensor_number(scores, at + c * positions + p) > tensor_number(scores, at + taken * positions + p)
                        ? c
                        : taken;
        most = tensor_number(scores, at + taken * positions + p);
        for (int64_t c = 0; c < classes && m->scores == LOGITS; c++)
            sum += exp(tensor_number(scores, at + c * positions + p) - most);
        log_sum = m->scores == LOGITS ? most + log(sum) : 0;
        v->n++;
        v->wrong += taken != (int64_t)is;
        v->is = (int64_t)is;
        v->taken = taken;
        v->probability = exp(most - log_sum);
        v->loss += log_sum - tensor_number(scores, at + (int64_t)is * positions + p);
        if (m->count)
            m->count[(int64_t)is * classes + taken]++;
    }
    v->loss /= v->n ? (double)v->n : 1;
}

static void judge_values(Verdict *v, const Mistakes *m, const dpx_tensor *scores, int64_t at, const dpx_tensor *target,
                         int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double y = tensor_number(scores, at + i), t = tensor_number(target, at + i);
        const double p = m->scores == BINARY_LOGIT ? 1 / (1 + exp(-y)) : y;

        v->target = t;
        v->prediction = p;
        v->loss += m->scores == BINARY_LOGIT ? (y > 0 ? y : 0) - y * t + log1p(exp(-fabs(y))) : fabs(p - t);
    }
    v->n = n;
    v->loss /= n ? (double)n : 1;
}

static void tell(char text[TEXT], const Mistakes *m, const Verdict *v)
{
    char is[TEXT], taken[TEXT];

    if (m->scores <= LOG_PROBABILITIES && v->n == 1)
        text_format(text, TEXT, "%.80s, %s%.80s with probability %.3g", name_class(is, m->feed, v->is),
                    v->wrong ? "taken for " : "", v->wrong ? name_class(taken, m->feed, v->taken) : "found",
                    v->probability);
    else if (m->scores <= LOG_PROBABILITIES)
        text_format(text, TEXT, "%lld of %lld wrong, loss %.4g", (long long)v->wrong, (long long)v->n, v->loss);
    else if (v->n == 1)
        text_format(text, TEXT, "is %.5g, predicted %.5g", v->target, v->prediction);
    else
        text_format(text, TEXT, "mean error %.4g", v->loss);
}

/* Keeps the sample if it is among the worst. */
static Status keep_worst(Mistakes *m, const Verdict *v, const Loader *l, const Batch *b, int64_t at)
{
    Worst w = { .loss = v->loss };
    int place = m->n_worst;
    const dpx_tensor *target = &b->tensor[m->target];
    int64_t behind = 1;

    if (!isfinite(v->loss) || (m->n_worst == MOST_WORST && v->loss <= m->worst[MOST_WORST - 1].loss))
        return ST_OK;
    for (int i = 1; i < target->rank; i++)
        behind *= target->dim[i];
    w.row = loader_sample(l, b, (const char *)target->data + (size_t)(at * behind) * dpx_dtype_size(target->dtype));
    tell(w.text, m, v);
    for (int i = 0; i < b->n && !w.png; i++)
        if (i != m->target && m->feed->field[i].split == m->feed->field[m->target].split && !m->feed->field[i].axis)
            TRY(thumbnail_base64(&w.png, &b->tensor[i], at));
    if (m->n_worst == MOST_WORST)
        free(m->worst[--place].png);
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
    if (v->n != 1 || m->samples % m->every)
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

/* Whether the scores are [N, classes, ...] or, with values, as many as targets; *classes: 0 for values. */
static bool fits(int64_t *classes, int64_t *each, const Mistakes *m, const dpx_tensor *scores, const dpx_tensor *target,
                 const Batch *b)
{
    const bool of_classes = m->scores <= LOG_PROBABILITIES;
    int64_t of_scores = 1, of_target = 1;

    if (!is_float(scores) || scores->rank < 1 || scores->dim[0] != b->samples || target->rank < 1 || !target->dim[0] ||
        (of_classes ? target->dtype != DPX_INT64 && target->dtype != DPX_INT32 : !is_float(target)))
        return false;
    for (int i = 1; i < scores->rank; i++)
        of_scores *= scores->dim[i];
    for (int i = 1; i < target->rank; i++)
        of_target *= target->dim[i];
    *each = of_target;
    *classes = of_classes && scores->rank > 1 ? scores->dim[1] : 0;
    return of_classes ? m->by_axis_1 && *classes > 1 && *classes * of_target == of_scores : of_scores == of_target;
}

Status mistakes_add(Mistakes *m, const Loader *l, const Batch *b, const dpx_result *r)
{
    const dpx_tensor *target = &b->tensor[m->target], *scores = r->outputs;
    const bool split = m->feed->field[m->target].split && target->dim[0] != b->samples;
    const int64_t from = split ? b->part.from : 0;
    int64_t classes, each;

    if (r->n_outputs < 1 || m->elements > MOST_ELEMENTS || !fits(&classes, &each, m, scores, target, b))
        return ST_OK;
    if (!m->classes && classes && classes <= MOST_COUNTED) {
        m->classes = classes;
        if (!(m->count = calloc((size_t)(classes * classes), sizeof *m->count)))
            return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < target->dim[0] && from + i < b->samples; i++) {
        Verdict v = { .loss = 0 };

        if (classes)
            judge_classes(&v, m, scores, (from + i) * classes * each, target, i * each, classes, each);
        else
            judge_values(&v, m, scores, (from + i) * each, target, each);
        if (!v.n)
            continue;
        TRY(keep_worst(m, &v, l, b, i));
        if (!classes)
            keep_pair(m, &v);
        m->samples++;
        m->elements += each * (classes ? classes : 1);
    }
    return ST_OK;
}

/* Where the sample is from: a file, a line of one, or a row of arrays. */
static void write_origin(JsonWriter *w, const Mistakes *m, int64_t row)
{
    const DataFormat *f = m->feed->data->source.format;
    char text[TEXT];

    json_write_int(w, "row", row);
    snprintf(text, sizeof text, "%s %lld", f && f->line ? "line" : "row",
             (long long)(f && f->line ? f->line(m->feed->data, row) : row));
    json_write_string(w, "from", f && f->file ? f->file(m->feed->data, row) : text);
}

static void write_worst(JsonWriter *w, const Mistakes *m)
{
    json_open(w, "worst", '[');
    for (const Worst *at = m->worst; at < m->worst + m->n_worst; at++) {
        json_open(w, NULL, '{');
        write_origin(w, m, at->row);
        json_write_float(w, "loss", at->loss);
        json_write_string(w, "text", at->text);
        if (at->png)
            json_write_string(w, "png", at->png);
        json_close(w);
    }
    json_close(w);
}

Status mistakes_write(const Mistakes *m, const char *path, int64_t step)
{
    JsonWriter w = { .compact = true };
    OutFile *file;

    TRY(outfile_open(&file, path));
    w.to = outfile_stream(file);
    json_open(&w, NULL, '{');
    json_write_int(&w, "step", step);
    json_write_int(&w, "samples", m->samples);
    json_write_int(&w, "of", m->feed->data->samples);
    if (m->count) {
        json_open(&w, "confusion", '[');
        for (int64_t c = 0; c < m->classes; c++) {
            json_open(&w, NULL, '[');
            for (int64_t k = 0; k < m->classes; k++)
                json_write_int(&w, NULL, m->count[c * m->classes + k]);
            json_close(&w);
        }
        json_close(&w);
    }
    write_worst(&w, m);
    if (m->n_pairs) {
        json_open(&w, "residuals", '[');
        for (int64_t i = 0; i < m->n_pairs; i++) {
            json_open(&w, NULL, '[');
            json_write_float(&w, NULL, m->pair[i][0]);
            json_write_float(&w, NULL, m->pair[i][1]);
            json_close(&w);
        }
        json_close(&w);
    }
    json_close(&w);
    return outfile_close(file, ST_OK);
}
