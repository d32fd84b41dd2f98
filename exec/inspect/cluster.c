/* Reads descriptions of clusters: tables of keys, each with its range.  An unknown key is an error, because it is
 * probably misspelt. */
#include "exec/inspect/cluster.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/numtext.h"

typedef struct {
    const char *key;
    size_t at; /* offset of a double in Cluster */
    double least, most;
    bool required;
} Number;

#define NUMBER(key, field, least, most, required)            \
    {                                                        \
        key, offsetof(Cluster, field), least, most, required \
    }
static const Number device_numbers[] = {
    NUMBER("flops", flops, 1, 1e20, true),
    NUMBER("flops_16", flops_half, 1, 1e20, false),
    NUMBER("memory_bandwidth", bandwidth, 1, 1e18, true),
    NUMBER("memory", memory, 1, 1e18, false),
    NUMBER("cores", cores, 0.001, 1e6, false),
    NUMBER("launch", launch, 0, 1, false),
    NUMBER("between_steps", between_steps, 0, 1000, false),
    NUMBER("jitter", jitter, 0, 1000, false),
    NUMBER("samples_per_second", samples_per_second, 1e-9, 1e12, false),
};
static const Number node_numbers[] = {
    NUMBER("cores", node_cores, 0.001, 1e6, false),
    NUMBER("memory_bandwidth", node_bandwidth, 1, 1e18, false),
    NUMBER("slowdown", node_slowdown, 1, 1000, false),
};
static const Number within_numbers[] = {
    NUMBER("bandwidth", within.bandwidth, 1, 1e18, true),
    NUMBER("latency", within.latency, 0, 1000, true),
};
static const Number between_numbers[] = {
    NUMBER("bandwidth", between.bandwidth, 1, 1e18, true),
    NUMBER("latency", between.latency, 0, 1000, true),
};
enum { N_DEVICE = 9, N_NODE = 3, N_LINK = 2 };

double cluster_latest(double n)
{
    double sum = 0;

    for (int i = 1; i <= n; i++)
        sum += 1.0 / i;
    return sum;
}

/* ---- values ---- */

/* Notes that key `key` of object `in` ("": the root) has a wrong value. */
static void add_wrong(Problems *wrong, const char *in, const char *key, const char *expected, const json_t *found)
{
    char *s = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    problems_add(wrong, "'%s%s%s': expected %s, found %.60s%s", in, *in ? "." : "", key, expected, s ? s : "nothing",
                 s && strlen(s) > 60 ? "..." : "");
    free(s);
}

/* Reads the `count` numbers `n` of object `o`, which is called `in`.  `more`, which may be NULL, lists the other keys
 * that it may have. */
static void cluster_read_numbers(Cluster *out, Problems *wrong, json_t *o, const char *in, const Number *n, int count,
                                 const char *const *more)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o)) {
        add_wrong(wrong, "", in, "an object", o);
        return;
    }
    for (int i = 0; i < count; i++) {
        double found = json_number_value(v = json_object_get(o, n[i].key));
        char expected[96];

        if (!v && !n[i].required)
            continue;
        text_format(expected, sizeof expected, "a number from %g to %g", n[i].least, n[i].most);
        if (!json_is_number(v) || !(found >= n[i].least && found <= n[i].most))
            add_wrong(wrong, in, n[i].key, expected, v);
        else
            *(double *)((char *)out + n[i].at) = found;
    }
    json_object_foreach(o, key, v) {
        bool expected = false;

        for (int i = 0; i < count; i++)
            expected |= !strcmp(n[i].key, key);
        for (const char *const *k = more; k && *k; k++)
            expected |= !strcmp(*k, key);
        if (!expected)
            problems_add(wrong, "'%.60s.%.60s' is no known key", in, key);
    }
}

/* A whole number from `least` to `most`; `fallback`, unless 0, where the key is missing. */
static int read_whole(Problems *wrong, const json_t *v, const char *key, int least, int most, int fallback)
{
    char expected[64];

    snprintf(expected, sizeof expected, "a whole number from %d to %d", least, most);
    if (!v && fallback)
        return fallback;
    if (json_is_integer(v) && json_integer_value(v) >= least && json_integer_value(v) <= most)
        return (int)json_integer_value(v);
    add_wrong(wrong, "", key, expected, v);
    return least;
}

/* The index of the value in the NULL-terminated list `word`, which `expected` describes; `fallback` where the key is
 * missing. */
static int read_word(Problems *wrong, const json_t *v, const char *key, const char *const *word, const char *expected,
                     int fallback)
{
    if (!v)
        return fallback;
    for (int i = 0; json_is_string(v) && word[i]; i++)
        if (!strcmp(word[i], json_string_value(v)))
            return i;
    add_wrong(wrong, "", key, expected, v);
    return fallback;
}

/* ---- parts ---- */

/* "rates": {"Conv": {"flops": 1e12}, "Relu": {"bytes": 1e11}}. */
static void read_rates(Cluster *out, Problems *wrong, json_t *rates)
{
    const char *key;
    json_t *v;

    if (!rates)
        return;
    if (!json_is_object(rates)) {
        add_wrong(wrong, "device", "rates", "an object of operators", rates);
        return;
    }
    json_object_foreach(rates, key, v) {
        const json_t *flops = json_object_get(v, "flops"), *bytes = json_object_get(v, "bytes");
        const json_t *given = flops ? flops : bytes;
        OpRate rate = { .flops = json_number_value(flops), .bytes = json_number_value(bytes) };

        if (!json_is_object(v) || json_object_size(v) != 1 || !json_is_number(given) ||
            !(json_number_value(given) >= 1) || strlen(key) >= CLUSTER_TEXT || out->n_rate == CLUSTER_RATES) {
            problems_add(wrong, "'device.rates.%.40s': expected {\"flops\": X} or {\"bytes\": X} of a second", key);
            continue;
        }
        snprintf(rate.op, sizeof rate.op, "%s", key);
        out->rate[out->n_rate++] = rate;
    }
}

/* How many devices to simulate: the list, or by default 1, 2, 4 ... and all. */
static void read_counts(Cluster *c, Problems *wrong, const json_t *list)
{
    const int all = c->nodes * c->per_node;

    for (int n = 1; !list; n = n * 2 < all ? n * 2 : all) {
        c->count[c->n_count++] = n;
        if (n == all)
            return;
    }
    if (!json_array_size(list) || json_array_size(list) > CLUSTER_COUNTS)
        add_wrong(wrong, "", "counts", "a list of 1 to 64 numbers of devices", list);
    for (size_t i = 0; i < json_array_size(list) && i < CLUSTER_COUNTS; i++)
        c->count[c->n_count++] = read_whole(wrong, json_array_get(list, i), "counts", 1, all, 0);
}

static void read_root(Cluster *c, Problems *wrong, json_t *root)
{
    static const char *const device_keys[] = { "kind", "rates", NULL };
    static const char *const kinds[] = { "cpu", "accelerator", NULL };
    static const char *const keys[] = { "name",      "device",  "nodes",   "devices_per_node", "node", "links",
                                        "algorithm", "overlap", "scaling", "counts",           NULL };
    static const char *const links[] = { "node", "network", NULL };
    static const char *const algorithms[] = { "shares", "ring", "hierarchical", NULL };
    static const char *const scalings[] = { "weak", "strong", NULL };
    json_t *device = json_object_get(root, "device"), *link = json_object_get(root, "links"),
           *name = json_object_get(root, "name"), *node = json_object_get(root, "node"),
           *overlap = json_object_get(root, "overlap");

    cluster_read_numbers(c, wrong, root, "cluster", NULL, 0, keys);
    cluster_read_numbers(c, wrong, device, "device", device_numbers, N_DEVICE, device_keys);
    if (json_is_object(device)) {
        c->accelerator = read_word(wrong, json_object_get(device, "kind"), "device.kind", kinds,
                                   "\"cpu\" or \"accelerator\"", 0) == 1;
        read_rates(c, wrong, json_object_get(device, "rates"));
    }
    c->nodes = read_whole(wrong, json_object_get(root, "nodes"), "nodes", 1, CLUSTER_DEVICES, 1);
    c->per_node = read_whole(wrong, json_object_get(root, "devices_per_node"), "devices_per_node", 1, 1024, 0);
    if ((int64_t)c->nodes * c->per_node > CLUSTER_DEVICES)
        problems_add(wrong, "'nodes' times 'devices_per_node': expected at most %d, found %lld", CLUSTER_DEVICES,
                     (long long)c->nodes * c->per_node);
    cluster_read_numbers(c, wrong, link, "links", NULL, 0, links);
    if (c->per_node > 1)
        cluster_read_numbers(c, wrong, json_object_get(link, "node"), "links.node", within_numbers, N_LINK, NULL);
    if (c->nodes > 1)
        cluster_read_numbers(c, wrong, json_object_get(link, "network"), "links.network", between_numbers, N_LINK,
                             NULL);
    if (node)
        cluster_read_numbers(c, wrong, node, "node", node_numbers, N_NODE, NULL);
    c->algorithm =
        (WireAlgorithm)read_word(wrong, json_object_get(root, "algorithm"), "algorithm", algorithms,
                                 "\"shares\", \"ring\" or \"hierarchical\"", c->accelerator ? WIRE_RING : WIRE_SHARES);
    c->strong =
        read_word(wrong, json_object_get(root, "scaling"), "scaling", scalings, "\"weak\" or \"strong\"", 0) == 1;
    if (json_is_string(overlap) && !strcmp(json_string_value(overlap), "sums"))
        c->overlap = OVERLAP_SUMS;
    else if (overlap && !json_is_boolean(overlap))
        add_wrong(wrong, "", "overlap", "true, false or \"sums\"", overlap);
    else
        c->overlap = (overlap ? json_is_true(overlap) : c->accelerator) ? OVERLAP_ALL : OVERLAP_NONE;
    if (name && (!json_is_string(name) || json_string_length(name) >= CLUSTER_TEXT))
        add_wrong(wrong, "", "name", "a text of at most 63 bytes", name);
    snprintf(c->name, sizeof c->name, "%s", json_is_string(name) ? json_string_value(name) : "");
    if (!wrong->n)
        read_counts(c, wrong, json_object_get(root, "counts"));
}

Status cluster_read(Cluster *out, const char *path)
{
    Cluster c = { .nodes = 1 };
    PROBLEMS(wrong);
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

    if (!root)
        return why.line > 0 ? FAIL(E_INVALID, "%s:%d: %s", path, why.line, why.text)
                            : FAIL(E_IO, "%s: cannot be read: %s", path, why.text);
    if (!json_is_object(root))
        add_wrong(&wrong, "", "cluster", "an object that describes a cluster", root);
    else
        read_root(&c, &wrong, root);
    json_decref(root);
    TRY(problems_fail(&wrong, E_INVALID, "%s: the description of the cluster is wrong", path));
    *out = c;
    return ST_OK;
}
