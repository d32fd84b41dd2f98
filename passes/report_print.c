/* The report as text for people and as JSON for programs. */
#include <inttypes.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
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
    if (r->n_decision)
        fprintf(to, "%s\n", summary);
    if (r->n_load) { /* report_graph has seen a graph */
        print_loads(r, to);
        print_phases(r, to);
        print_replicas(r, to);
    }
    for (int k = 0; k < N_KINDS; k++)
        print_notes(r, to, (NoteKind)k);
    if (r->n_load)
        print_collectives(r, to);
    if (r->n_decision)
        report_print_decisions(r, to);
    print_stages(r, to);
    return report_print_finish(to);
}

/* ---- JSON ---- */

static void write_notes(JsonWriter *w, const Report *r, int kind)
{
    json_open(w, keys[kind], '[');
    for (int i = 0; i < r->n_note; i++) {
        if ((int)r->note[i].kind != kind)
            continue;
        json_open(w, NULL, '{');
        json_write_string(w, "name", r->note[i].subject);
        json_write_string(w, "text", r->note[i].text);
        if (kind == NOTE_MIXES) {
            int n;
            const int64_t bytes = mixing_bytes(r, r->note[i].subject, &n);

            json_write_int(w, "collectives", n);
            json_write_int(w, "bytes", bytes);
        }
        json_close(w);
    }
    json_close(w);
}

static void write_stages(JsonWriter *w, const Report *r)
{
    json_open(w, "stages", '[');
    for (int i = 0; i < r->n_stage; i++) {
        const Stage *s = &r->stage[i];

        json_open(w, NULL, '{');
        json_write_string(w, "pass", s->pass);
        json_write_int(w, "before", s->before);
        json_write_int(w, "nodes", s->nodes);
        json_write_int(w, "values", s->values);
        json_write_int(w, "changed", s->changed);
        json_write_int(w, "microseconds", (int64_t)(s->seconds * 1e6));
        json_write_int(w, "graph_bytes", (int64_t)s->graph_bytes);
        json_write_int(w, "scratch_bytes", (int64_t)s->scratch_bytes);
        json_close(w);
    }
    json_close(w);
}

static void write_loads(JsonWriter *w, const Report *r)
{
    json_open(w, "devices", '[');
    for (int i = 0; i < r->n_load; i++) {
        const DeviceLoad *d = &r->load[i];

        json_open(w, NULL, '{');
        json_write_int(w, "device", d->device);
        json_write_int(w, "nodes", d->nodes);
        json_write_int(w, "parameters", d->parameters);
        json_write_int(w, "state_bytes", d->state_bytes);
        json_write_int(w, "flops", d->flops);
        json_write_int(w, "sent_bytes", d->sent_bytes);
        json_write_int(w, "peak_bytes", d->peak_bytes);
        json_close(w);
    }
    json_close(w);
}

/* Writes a time, where times are known. */
static void write_seconds(JsonWriter *w, const Report *r, const char *key, double seconds)
{
    if (r->time.devices)
        json_write_float(w, key, seconds);
}

static void write_phases(JsonWriter *w, const Report *r)
{
    json_open(w, "phases", '[');
    for (int k = PHASE_FORWARD; k < N_PHASES; k++) {
        const PhaseLoad *p = &r->phase[k];

        json_open(w, NULL, '{');
        json_write_string(w, "phase", phase_name(k));
        json_write_int(w, "nodes", p->nodes);
        json_write_int(w, "collectives", p->collectives);
        json_write_int(w, "flops", p->flops);
        json_write_int(w, "bytes", p->bytes);
        json_write_int(w, "collective_bytes", p->sent);
        write_seconds(w, r, "seconds", p->seconds);
        write_seconds(w, r, "collective_seconds", p->wire);
        json_close(w);
    }
    json_close(w);
}

static void write_collectives(JsonWriter *w, const Report *r)
{
    json_open(w, "collectives", '[');
    for (int i = 0; i < r->collectives; i++) {
        const CollectiveLoad *c = &r->collective[i];

        json_open(w, NULL, '{');
        json_write_string(w, "name", c->name);
        json_write_string(w, "kind", c->kind);
        json_write_string(w, "phase", phase_name(c->phase));
        json_write_int(w, "tensors", c->tensors);
        json_write_int(w, "bytes", c->bytes);
        json_write_string(w, "reason", c->reason);
        json_open(w, "of", '[');
        for (int t = 0; t < c->tensors; t++)
            json_write_string(w, NULL, c->of[t]);
        json_close(w);
        write_seconds(w, r, "seconds", c->seconds);
        json_close(w);
    }
    json_close(w);
}

Status report_print_json(const Report *r, FILE *to)
{
    JsonWriter w = { .to = to, .lines = 2 };

    json_open(&w, NULL, '{');
    json_write_int(&w, "batch", r->batch);
    json_write_int(&w, "replicas", r->replicas);
    json_open(&w, "samples", '[');
    for (int i = 0; r->count && i < r->replicas; i++)
        json_write_int(&w, NULL, r->count[i]);
    json_close(&w);
    for (int k = 0; k < N_KINDS; k++)
        write_notes(&w, r, k);
    write_stages(&w, r);
    report_json_decisions(r, &w);
    json_open(&w, "device_of_replica", '[');
    for (int i = 0; r->device_of && i < r->replicas; i++)
        json_write_int(&w, NULL, r->device_of[i]);
    json_close(&w);
    write_loads(&w, r);
    write_phases(&w, r);
    if (r->time.devices) {
        json_open(&w, "time", '{');
        json_write_string(&w, "devices", r->time.devices);
        json_write_float(&w, "seconds", r->time.seconds);
        json_write_float(&w, "compute_seconds", r->time.compute);
        json_write_float(&w, "collective_seconds", r->time.wire);
        json_close(&w);
    }
    write_collectives(&w, r);
    json_close(&w);
    return report_print_finish(to);
}
