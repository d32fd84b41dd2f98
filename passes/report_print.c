/* The report as text for people and as JSON for programs. */
#include <inttypes.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "graph/text/write_json.h"
#include "graph/ir/phase.h"
#include "passes/report.h"

static const char *const headings[] = { "inputs",
                                        "operators that mix samples of the batch",
                                        "parameters without a gradient",
                                        "values that every device holds in full",
                                        "operators that the host computes",
                                        "what is trained, guessed",
                                        "exporter",
                                        "what accumulation leaves apart",
                                        "outputs that are not of the whole batch",
                                        "parts that are padded like the longest",
                                        "notes" };
static const char *const keys[] = { "inputs",   "mixes",        "no_gradient", "replicated", "host", "guesses",
                                    "exporter", "accumulation", "outputs",     "padding",    "notes" };
enum { N_KINDS = sizeof keys / sizeof *keys };

static Status report_print_finish(FILE *to)
{
    return fflush(to) || ferror(to) ? FAIL(E_IO, "the report could not be written") : ST_OK;
}

/* ---- text ---- */

static void print_bytes(FILE *to, int64_t n)
{
    if (n < 10 * 1024)
        fprintf(to, "%" PRId64 " B", n);
    else if (n < 10 * 1024 * 1024)
        text_print(to, "%.1f KiB", (double)n / 1024);
    else
        text_print(to, "%.1f MiB", (double)n / (1024 * 1024));
}

/* Bytes that enter collectives because the operator `subject` mixes samples; *collectives: their number. */
static int64_t mixing_bytes(const Report *r, const char *subject, int *collectives)
{
    int64_t bytes = 0;

    *collectives = 0;
    for (int i = 0; i < r->collectives; i++)
        if (r->collective[i].subject && !strcmp(r->collective[i].subject, subject)) {
            bytes += r->collective[i].bytes;
            ++*collectives;
        }
    return bytes;
}

static void print_notes(const Report *r, FILE *to, NoteKind kind)
{
    bool any = false;

    for (int i = 0; i < r->n_note; i++) {
        int n = 0;
        int64_t bytes = 0;

        if (r->note[i].kind != kind)
            continue;
        if (kind == NOTE_MIXES)
            bytes = mixing_bytes(r, r->note[i].subject, &n);
        if (!any)
            fprintf(to, "%s\n", headings[kind]);
        any = true;
        fprintf(to, "  %s: %s", r->note[i].subject, r->note[i].text);
        if (n) {
            fprintf(to, "; costs %d collective%s of ", n, n == 1 ? "" : "s");
            print_bytes(to, bytes);
            fprintf(to, " a step");
        }
        fprintf(to, "\n");
    }
}

static void print_loads(const Report *r, FILE *to)
{
    for (int i = 0; i < r->n_load; i++) {
        const DeviceLoad *d = &r->load[i];

        fprintf(to, "device %d: %d node%s, %" PRId64 " parameter%s, state ", d->device, d->nodes,
                d->nodes == 1 ? "" : "s", d->parameters, d->parameters == 1 ? "" : "s");
        print_bytes(to, d->state_bytes);
        text_print(to, ", %.4g MFLOP a step, sends ", (double)d->flops * 1e-6);
        print_bytes(to, d->sent_bytes);
        fprintf(to, " a step");
        if (d->peak_bytes) {
            fprintf(to, ", peak ");
            print_bytes(to, d->peak_bytes);
        }
        fprintf(to, "\n");
    }
}

static void print_replicas(const Report *r, FILE *to)
{
    int64_t from = 0;

    if (!r->device_of)
        return;
    fprintf(to, "replicas\n");
    for (int i = 0; i < r->replicas; from += r->count ? r->count[i] : 0, i++) {
        fprintf(to, "  replica %d: ", i);
        if (r->device_of[i] < 0)
            fprintf(to, "no device");
        else
            fprintf(to, "device %d", r->device_of[i]);
        if (r->count)
            fprintf(to, ", %" PRId64 " sample%s", r->count[i], r->count[i] == 1 ? "" : "s");
        if (r->count && r->count[i])
            fprintf(to, r->count[i] > 1 ? " (%" PRId64 " to %" PRId64 ")" : " (%" PRId64 ")", from,
                    from + r->count[i] - 1);
        fprintf(to, "\n");
    }
}

/* A node takes the longer of the times of its FLOPs and of its operands, a collective its latency and the time of its
 * bytes. */
static void print_phases(const Report *r, FILE *to)
{
    fprintf(to, "phases%15s %11s %12s %16s %20s%s\n", "nodes", "collectives", "MFLOP", "MiB of operands",
            "MiB into collectives", r->time.devices ? "         ms collectives ms" : "");
    for (int k = PHASE_FORWARD; k < N_PHASES; k++) {
        const PhaseLoad *p = &r->phase[k];

        text_print(to, "  %-12s %6d %11d %12.4g %16.4g %20.4g", phase_name(k), p->nodes, p->collectives,
                   1e-6 * (double)p->flops, (double)p->bytes / (1024 * 1024), (double)p->sent / (1024 * 1024));
        if (r->time.devices)
            text_print(to, " %10.4g %14.4g", 1e3 * p->seconds, 1e3 * p->wire);
        fprintf(to, "\n");
    }
    if (!r->time.devices) {
        fprintf(to, "  what they take: --links auto measures these devices, --links FILE describes them\n");
        return;
    }
    fprintf(to, "time of a step on ");
    foreign_print(to, r->time.devices);
    text_print(to, ": %.4g ms, of which the busiest device computes %.4g ms and collectives are %.4g ms\n",
               1e3 * r->time.seconds, 1e3 * r->time.compute, 1e3 * r->time.wire);
}

enum { NAMED_TENSORS = 3 }; /* so many tensors stand in the name of a bucket */

/* Prints each collective, and below it the tensors of a bucket whose name does not list them all. */
static void print_collectives(const Report *r, FILE *to)
{
    static const char gradient[] = "gradient of ";

    fprintf(to, "collectives: %d\n", r->collectives);
    for (int i = 0; i < r->collectives; i++) {
        const CollectiveLoad *c = &r->collective[i];

        fprintf(to, "  %-9s %-14s ", phase_name(c->phase), c->kind);
        print_bytes(to, c->bytes);
        fprintf(to, " in %d tensor%s", c->tensors, c->tensors == 1 ? "" : "s");
        if (r->time.devices)
            text_print(to, ", %.4g ms", 1e3 * c->seconds);
        fprintf(to, ": ");
        foreign_print(to, c->name);
        fprintf(to, ": %s\n", c->reason);
        if (c->tensors <= NAMED_TENSORS)
            continue;
        fprintf(to, "%27sof", "");
        for (int t = 0; t < c->tensors; t++) {
            const bool of_gradient = !strncmp(c->of[t], gradient, sizeof gradient - 1);

            fputs(t ? ", " : " ", to);
            foreign_print(to, c->of[t] + (of_gradient ? sizeof gradient - 1 : 0));
        }
        fprintf(to, "\n");
    }
}

static void print_stages(const Report *r, FILE *to)
{
    const double mib = 1024 * 1024;
    double seconds = 0;

    if (!r->n_stage)
        return;
    fprintf(to, "stages%17s %8s %8s %8s %9s %11s %12s\n", "before", "nodes", "values", "changed", "seconds",
            "graph, MiB", "scratch, MiB");
    for (int i = 0; i < r->n_stage; i++) {
        const Stage *s = &r->stage[i];

        text_print(to, "  %-20s %8d %8d %8d %8d %9.3f %11.1f %12.1f\n", s->pass, s->before, s->nodes, s->values,
                   s->changed, s->seconds, (double)s->graph_bytes / mib, (double)s->scratch_bytes / mib);
        seconds += s->seconds;
    }
    text_print(to, "  %-20s %36s %9.3f\n", "all of them", "", seconds);
}

Status report_print(const Report *r, FILE *to)
{
    char summary[REPORT_SUMMARY];

    if (r->count) {
        fprintf(to, "batch of %" PRId64 " over %d replica%s:", r->batch, r->replicas, r->replicas == 1 ? "" : "s");
        for (int i = 0; i < r->replicas; i++)
            fprintf(to, " %" PRId64, r->count[i]);
        fprintf(to, "\n");
    }
    report_summary(summary, r);
    if (r->n_decision) {
        fprintf(to, "%s\n", summary);
        report_print_decisions(r, to);
    }
    for (int k = 0; k < N_KINDS; k++)
        print_notes(r, to, (NoteKind)k);
    print_stages(r, to);
    if (r->n_load) { /* report_graph has seen a graph */
        print_replicas(r, to);
        print_loads(r, to);
        print_phases(r, to);
        print_collectives(r, to);
    }
    return report_print_finish(to);
}

/* ---- JSON ---- */

static void json_notes(const Report *r, FILE *to, int kind)
{
    const char *separator = "";

    fprintf(to, "  \"%s\": [", keys[kind]);
    for (int i = 0; i < r->n_note; i++) {
        if ((int)r->note[i].kind != kind)
            continue;
        fprintf(to, "%s\n    {\"name\": ", separator);
        json_write_string(to, r->note[i].subject);
        fprintf(to, ", \"text\": ");
        json_write_string(to, r->note[i].text);
        if (kind == NOTE_MIXES) {
            int n;
            const int64_t bytes = mixing_bytes(r, r->note[i].subject, &n);

            fprintf(to, ", \"collectives\": %d, \"bytes\": %" PRId64, n, bytes);
        }
        fprintf(to, "}");
        separator = ",";
    }
    fprintf(to, "%s],\n", *separator ? "\n  " : "");
}

static void json_loads(const Report *r, FILE *to)
{
    fprintf(to, "  \"devices\": [");
    for (int i = 0; i < r->n_load; i++) {
        const DeviceLoad *d = &r->load[i];

        fprintf(to,
                "%s\n    {\"device\": %d, \"nodes\": %d, \"parameters\": %" PRId64 ", \"state_bytes\": %" PRId64
                ", \"flops\": %" PRId64 ", \"sent_bytes\": %" PRId64 ", \"peak_bytes\": %" PRId64 "}",
                i ? "," : "", d->device, d->nodes, d->parameters, d->state_bytes, d->flops, d->sent_bytes,
                d->peak_bytes);
    }
    fprintf(to, "%s],\n", r->n_load ? "\n  " : "");
}

/* Writes a time, where times are known. */
static void json_seconds(const Report *r, FILE *to, const char *key, double seconds)
{
    if (!r->time.devices)
        return;
    fprintf(to, ", \"%s\": ", key);
    json_write_float(to, seconds);
}

static void json_phases(const Report *r, FILE *to)
{
    fprintf(to, "  \"phases\": [");
    for (int k = PHASE_FORWARD; k < N_PHASES; k++) {
        const PhaseLoad *p = &r->phase[k];

        fprintf(to,
                "%s\n    {\"phase\": \"%s\", \"nodes\": %d, \"collectives\": %d, \"flops\": %" PRId64
                ", \"bytes\": %" PRId64 ", \"collective_bytes\": %" PRId64,
                k == PHASE_FORWARD ? "" : ",", phase_name(k), p->nodes, p->collectives, p->flops, p->bytes, p->sent);
        json_seconds(r, to, "seconds", p->seconds);
        json_seconds(r, to, "collective_seconds", p->wire);
        fprintf(to, "}");
    }
    fprintf(to, "\n  ],\n");
}

static void json_collectives(const Report *r, FILE *to)
{
    fprintf(to, "  \"collectives\": [");
    for (int i = 0; i < r->collectives; i++) {
        const CollectiveLoad *c = &r->collective[i];

        fprintf(to, "%s\n    {\"name\": ", i ? "," : "");
        json_write_string(to, c->name);
        fprintf(to,
                ", \"kind\": \"%s\", \"phase\": \"%s\", \"tensors\": %d, \"bytes\": %" PRId64 ", \"reason\": ", c->kind,
                phase_name(c->phase), c->tensors, c->bytes);
        json_write_string(to, c->reason);
        fprintf(to, ", \"of\": [");
        for (int t = 0; t < c->tensors; t++) {
            fputs(t ? ", " : "", to);
            json_write_string(to, c->of[t]);
        }
        fprintf(to, "]");
        json_seconds(r, to, "seconds", c->seconds);
        fprintf(to, "}");
    }
    fprintf(to, "%s]\n", r->collectives ? "\n  " : "");
}

Status report_print_json(const Report *r, FILE *to)
{
    fprintf(to, "{\n  \"batch\": %" PRId64 ",\n  \"replicas\": %d,\n  \"samples\": [", r->batch, r->replicas);
    for (int i = 0; r->count && i < r->replicas; i++)
        fprintf(to, "%s%" PRId64, i ? ", " : "", r->count[i]);
    fprintf(to, "],\n");
    for (int k = 0; k < N_KINDS; k++)
        json_notes(r, to, k);
    fprintf(to, "  \"stages\": [");
    for (int i = 0; i < r->n_stage; i++) {
        fprintf(to, "%s\n    {\"pass\": ", i ? "," : "");
        json_write_string(to, r->stage[i].pass);
        fprintf(to,
                ", \"before\": %d, \"nodes\": %d, \"values\": %d, \"changed\": %d, \"microseconds\": %" PRId64
                ", \"graph_bytes\": %zu, \"scratch_bytes\": %zu}",
                r->stage[i].before, r->stage[i].nodes, r->stage[i].values, r->stage[i].changed,
                (int64_t)(r->stage[i].seconds * 1e6), r->stage[i].graph_bytes, r->stage[i].scratch_bytes);
    }
    fprintf(to, "%s],\n", r->n_stage ? "\n  " : "");
    report_json_decisions(r, to);
    fprintf(to, ",\n");
    fprintf(to, "  \"device_of_replica\": [");
    for (int i = 0; r->device_of && i < r->replicas; i++)
        fprintf(to, "%s%d", i ? ", " : "", r->device_of[i]);
    fprintf(to, "],\n");
    json_loads(r, to);
    json_phases(r, to);
    if (r->time.devices) {
        fprintf(to, "  \"time\": {\"devices\": ");
        json_write_string(to, r->time.devices);
        json_seconds(r, to, "seconds", r->time.seconds);
        json_seconds(r, to, "compute_seconds", r->time.compute);
        json_seconds(r, to, "collective_seconds", r->time.wire);
        fprintf(to, "},\n");
    }
    json_collectives(r, to);
    fprintf(to, "}\n");
    return report_print_finish(to);
}
