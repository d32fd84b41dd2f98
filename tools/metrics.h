/* The metrics of a run or an evaluation: their values, and how they are written as JSON and as text. */
#ifndef DPX_TOOLS_METRICS_H
#define DPX_TOOLS_METRICS_H

#include "graph/base/json_writer.h"
#include "graph/base/status.h"
#include "include/dpexec.h"
#include "tools/data/data.h"

typedef struct {
    int n; /* in the order of --metric */
    struct {
        dpx_metric_info info; /* lives as long as the options */
        dpx_metric is;        /* its table is the trainer's, valid until the next evaluation */
    } list[DPX_MAX_METRICS];
    double loss;
    int64_t samples;
    const dpx_log_value *log; /* of evaluations */
    int n_log;
} Metrics;

enum { METRICS_TEXT = 1024 };

/* The names of the metrics in the options, as the user gives them: "auc --metric f1". */
const char *metrics_names(char text[METRICS_TEXT], const dpx_options *o);
/* Takes what the trainer has measured in evaluations, or with `training` in training steps. */
Status metrics_take(Metrics *out, const dpx_trainer *t, const dpx_options *o, bool training) CHECKED;
/* Writes each metric as "eval_accuracy", for `of` "eval": a number, with its bound "eval_auc_bound"; or a table as a
 * list of rows, those of per-class as objects, with the names of the data's classes (d NULL: they have none). */
void metrics_write(JsonWriter *w, const char *of, const Metrics *m, const Dataset *d);
/* ", eval accuracy 0.9867, eval f1 0.9712": the numbers, those that are measured. */
const char *metrics_text(char text[METRICS_TEXT], const char *of, const Metrics *m);
/* The number of the metric of that name; NaN: there is none, or it is not measured. */
double metrics_value(const Metrics *m, const char *name);
/* Writes the log variables without the first, the total, as an object; nothing if there are no others. */
void json_write_log(JsonWriter *w, const char *key, const dpx_log_value *log, int n);
/* Line `i` of the table of per-class, from 0, the heading; NULL: it has no such line, or there is no table. */
const char *metrics_class_line(char text[METRICS_TEXT], const Metrics *m, const Dataset *d, int64_t i);

#endif
