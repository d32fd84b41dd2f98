/* The trained and fixed tensors of a model: a summary line for every run, and the table of graph-transform
 * --parameters. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "passes/report.h"

void report_summary(char text[REPORT_SUMMARY], const Report *r)
{
    int64_t numbers = 0, tensors = 0, fixed = 0, remembered = 0;
    char a[32], b[32], c[32], d_text[32], why[96] = "", constants[64];

    for (int i = 0; i < r->n_decision; i++) {
        const Decision *d = &r->decision[i];

        numbers += d->trained ? shape_numel(d->shape) : 0;
        tensors += d->trained;
        if (!d->trained && d->kind == DECISION_DATA && shape_numel(d->shape) > 1) {
            fixed++;
            remembered += !strcmp(d->reason, REASON_FIXED_BY_FILE);
        }
    }
    *constants = '\0';
    if (fixed)
        snprintf(constants, sizeof constants, "; %s constant%s fixed", grouped_text(c, fixed),
                 fixed == 1 ? " is" : "s are");
    if (remembered)
        snprintf(why, sizeof why, ", %s because the run that wrote this file fixed them; --train '*' trains all",
                 remembered == fixed ? "all" : grouped_text(d_text, remembered));
    snprintf(text, REPORT_SUMMARY, "trains %s parameter%s in %s tensor%s%s%s", grouped_text(a, numbers),
             numbers == 1 ? "" : "s", grouped_text(b, tensors), tensors == 1 ? "" : "s", constants, why);
}

static void report_parameters_print_row(const Report *r, const Decision *d, int width, FILE *to)
{
    const int length = (int)strlen(d->name);
    const Way *w = report_way(r, d->name);
    char shape[SHAPE_TEXT], name[160];

    foreign_print(to, d->name);
    fprintf(to, "%*s  %-16s  %-7s  %s%s", length < width ? width - length : 0, "", shape_text(d->shape, shape),
            d->trained ? "trained" : "fixed", d->reason, d->guess ? " (a guess)" : "");
    if (w && w->reduced_by) { /* "all-reduce bucket 1", without the rest of the bucket in parentheses */
        const char *rest = strstr(w->reduced_by, " (");

        snprintf(name, sizeof name, "%.*s", (int)(rest ? rest - w->reduced_by : (ptrdiff_t)strlen(w->reduced_by)),
                 w->reduced_by);
        fprintf(to, "; gradient by ");
        foreign_print(to, name);
    }
    fprintf(to, "\n");
}

void report_print_decisions(const Report *r, FILE *to)
{
    int width = 4;

    for (int i = 0; i < r->n_decision; i++)
        width = (int)strlen(r->decision[i].name) > width ? (int)strlen(r->decision[i].name) : width;
    width = width > 60 ? 60 : width;
    for (int trained = 1; trained >= 0; trained--)
        for (int i = 0; i < r->n_decision; i++)
            if (r->decision[i].trained == (trained != 0))
                report_parameters_print_row(r, &r->decision[i], width, to);
}

void report_json_decisions(const Report *r, JsonWriter *w)
{
    json_open(w, "parameters", '[');
    for (int i = 0; i < r->n_decision; i++) {
        const Decision *d = &r->decision[i];
        const Way *way = report_way(r, d->name);

        json_open(w, NULL, '{');
        json_write_string(w, "name", d->name);
        json_open(w, "shape", '[');
        for (int k = 0; k < d->shape->rank; k++)
            json_write_int(w, NULL, d->shape->dim[k]);
        json_close(w);
        json_write_bool(w, "trained", d->trained);
        json_write_bool(w, "guess", d->guess);
        json_write_string(w, "reason", d->reason);
        if (way) {
            json_write_string(w, "gradient_by", way->reduced_by);
            json_write_string(w, "updated_by", way->updated_by);
        }
        json_close(w);
    }
    json_close(w);
}

Status report_print_parameters(const Report *r, FILE *to, bool json)
{
    JsonWriter w = { .to = to, .lines = 2 };
    char summary[REPORT_SUMMARY];

    if (json) {
        json_open(&w, NULL, '{');
        report_json_decisions(r, &w);
        json_close(&w);
    } else {
        report_summary(summary, r);
        report_print_decisions(r, to);
        fprintf(to, "%s\n", summary);
    }
    return fflush(to) || ferror(to) ? FAIL(E_IO, "the table could not be written") : ST_OK;
}
