/* dpexec new: writes a network with initial values as an ONNX model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/networks/network.h"
#include "tools/commands.h"

#define AS_FLAG(field, meta, least, most, text) { #field, meta, text },
static const Flag flags[] = {
    { "o", "FILE.onnx", "the file to write" },
    NETWORK_OPTION_ROWS(AS_FLAG) /* with the networks' own defaults */
    { "seed", "S", "seed of the initial values [0]" },
    { "quiet", NULL, "print nothing but warnings and errors" },
    { NULL, NULL, NULL },
};

/* "Linear layers with ReLU, for tables: --inputs N --layers 2": the options that a network takes, with its defaults. */
static const char *choice_at(int index, char help[512])
{
    const NetworkDef *d = network_list[index];
    size_t n;

    if (!d)
        return NULL;
    n = (size_t)snprintf(help, 512, "%s:", d->help);
    for (int i = 0; i < N_NETWORK_OPTIONS && n + 40 < 512; i++)
        if (d->takes[i])
            n += (size_t)snprintf(help + n, 512 - n, " --%s %s", network_option_name(i),
                                  *d->takes[i] ? d->takes[i] : "N");
    return d->name;
}

static const FirstArgument networks = { "Networks (NETWORK), their options and defaults", choice_at };

const Command command_new = { "new",
                              "NETWORK -o FILE.onnx [options]",
                              "Writes a network with initial values.",
                              flags,
                              NO_OPTIONS,
                              1,
                              1,
                              .first = &networks };

/* Finds the network; E_INVALID lists all of them. */
static Status find_network(const NetworkDef **out, const char *name)
{
    char list[256];
    size_t len = 0;
    Nearest near = { 0 };

    for (const NetworkDef *const *d = network_list; *d; d++) {
        if (!strcmp((*d)->name, name)) {
            *out = *d;
            return ST_OK;
        }
        nearest_add(&near, (*d)->name, name);
        if (len + 20 < sizeof list)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "", (*d)->name);
    }
    if (near.name)
        return FAIL(E_INVALID, "there is no network '%s': did you mean %s?", name, near.name);
    return FAIL(E_INVALID, "there is no network '%s': expected %s", name, list);
}

/* The given options, and the network's defaults of the others. */
static Status read_sizes(NetworkSizes *out, const NetworkDef *d, const Args *a)
{
    *out = (NetworkSizes){ 0 };
    for (int i = 0; i < N_NETWORK_OPTIONS; i++) {
        const char *given = args_value(a, network_option_name(i)), *text = given ? given : d->takes[i];

        if (given || (text && *text))
            TRY(network_set(out, d, i, text));
    }
    return ST_OK;
}

/* Prints the command that trains the network. */
static void print_next(const NetworkDef *d, const NetworkSizes *s, const char *path)
{
    printf("train it: dpexec train %s --data %s --loss %s\n", path,
           s->vocab && d->data_of_ids ? d->data_of_ids : d->data, s->outputs ? "mse" : "cross-entropy");
}

static Status write_network(const Args *a)
{
    const char *path = args_value(a, "o");
    const NetworkDef *d = NULL;
    NetworkSizes sizes;
    NetworkSummary sum;
    int64_t seed;

    TRY(find_network(&d, a->positional[0]));
    if (!path)
        return FAIL(E_INVALID, "-o FILE.onnx is missing: the file to write");
    TRY(args_int(&seed, a, "seed", 0, 0, INT64_MAX));
    TRY(status_prefix(read_sizes(&sizes, d, a), "%s", d->name));
    TRY(status_prefix(network_write(&sum, d, &sizes, (uint64_t)seed, path), "%s", d->name));
    if (args_has(a, "quiet"))
        return ST_OK;
    printf("%s: %s, %" PRId64 " parameters in %d tensors; input %s, output %s\n", path, d->name, sum.parameters,
           sum.tensors, sum.input, sum.output);
    print_next(d, &sizes, path);
    return ST_OK;
}

int run_new(const Args *a)
{
    Status st = write_network(a);

    return st ? args_failed(a, "dpexec", status_prefix(st, "new")) : EXIT_DONE;
}
