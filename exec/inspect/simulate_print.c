/* Prints a simulation: a table for people, JSON for programs. */
#include <inttypes.h>

#include "exec/inspect/simulate.h"
#include "exec/plan/memory_report.h"
#include "graph/base/foreign.h"
#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"

static double rate_of(const Simulated *r) { return r->seconds > 0 ? (double)r->batch / r->seconds : 0; }

/* The first row with one device; NULL: there is none. */
static const Simulated *row_of_one(const Simulation *s)
{
    for (int i = 0; i < s->n_row; i++)
        if (s->row[i].devices == 1)
            return &s->row[i];
    return NULL;
}

/* The samples a second of the devices, relative to as many times those of one. */
static double efficiency(const Simulated *r, const Simulated *one)
{
    return rate_of(one) > 0 ? rate_of(r) / rate_of(one) / r->devices : 0;
}

static void simulate_print_row(const Simulated *r, const Simulated *one, const Cluster *c, FILE *to)
{
    char memory[BYTES_TEXT], within[BYTES_TEXT], between[BYTES_TEXT], share[16] = "-";

    if (one)
        text_format(share, sizeof share, "%.1f %%", 100 * efficiency(r, one));
    text_print(to, "%7d  %-10s %9" PRId64 " %12.3f %12.1f %10s %12.3f %12.3f %11s%s %11s %11s\n", r->devices, r->shard,
               r->batch, 1e3 * r->seconds, rate_of(r), share, 1e3 * r->compute, 1e3 * r->wire,
               bytes_text(memory, (uint64_t)simulated_memory(r)),
               c->memory > 0 && simulated_memory(r) > c->memory ? "!" : " ", bytes_text(within, (uint64_t)r->within),
               bytes_text(between, (uint64_t)r->between));
}

void simulation_print(const Simulation *s, FILE *to)
{
    static const char *const algorithms[] = { "shares", "ring", "hierarchical" };
    static const char *const overlaps[] = { "in place", "beside what is computed", "sums beside what is computed" };
    const Cluster *c = s->cluster;
    bool over = false;

    foreign_print(to, *c->name ? c->name : "cluster");
    fprintf(to, ": %d nodes of %d, %s, collectives %s\n", c->nodes, c->per_node, algorithms[c->algorithm],
            overlaps[c->overlap]);
    fprintf(to, "%7s  %-10s %9s %12s %12s %10s %12s %12s %12s %11s %11s\n", "devices", "shard", "batch", "step ms",
            "samples/s", "efficiency", "compute ms", "wire ms", "memory", "in node", "of node");
    for (int i = 0; i < s->n_row; i++) {
        simulate_print_row(&s->row[i], row_of_one(s), c, to);
        over |= c->memory > 0 && simulated_memory(&s->row[i]) > c->memory;
    }
    if (over)
        fprintf(to, "!: more than a device has\n");
}

void simulation_print_json(const Simulation *s, FILE *to)
{
    JsonWriter w = { .to = to, .compact = true };

    json_open(&w, NULL, '{');
    json_write_string(&w, "cluster", s->cluster->name);
    json_open(&w, "rows", '[');
    for (int i = 0; i < s->n_row; i++) {
        const Simulated *r = &s->row[i];

        json_open(&w, NULL, '{');
        json_write_int(&w, "devices", r->devices);
        json_write_int(&w, "planned", r->shown);
        json_write_string(&w, "shard", r->shard);
        json_write_int(&w, "batch", r->batch);
        json_write_int(&w, "collectives", r->collectives);
        json_write_float(&w, "seconds", r->seconds);
        json_write_float(&w, "samples_per_second", rate_of(r));
        if (row_of_one(s))
            json_write_float(&w, "efficiency", efficiency(r, row_of_one(s)));
        json_write_float(&w, "compute_seconds", r->compute);
        json_write_float(&w, "wire_seconds", r->wire);
        json_write_float(&w, "flops", r->flops);
        json_write_float(&w, "memory", simulated_memory(r));
        json_write_float(&w, "arena", r->arena);
        json_write_float(&w, "states", r->states);
        json_write_float(&w, "constants", r->constants);
        json_write_float(&w, "staging", r->staging);
        json_write_float(&w, "bytes_in_node", r->within);
        json_write_float(&w, "bytes_of_node", r->between);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}
