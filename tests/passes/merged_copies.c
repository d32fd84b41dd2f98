/* Networks of equal layers, of which a tool kept one tensor each: after unmerge and untie every layer reads the
 * parameter that it had. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/simplifier_traces.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/passes.gen.h"
#include "tests/harness/test.h"

/* What the file still shows of the layers. */
typedef enum {
    MODULES,   /* each node's module, from the exporter's metadata */
    READ_AS,   /* the same, and the names under which tensors are read */
    SCOPES,    /* each node's module, as a part of its name */
    LISTS,     /* the same, and onnxsim's list of removed tensors */
    CUT_LISTS, /* the same, but the list ends with "... (+5 more)" */
    CHANGES,   /* onnxsim's lists of removed tensors and changed nodes; names of nodes are numbers */
    N_SHOWN
} Shown;

static const char *const evidence_names[] = { "modules", "read as", "scopes", "lists", "cut lists", "changes" };

typedef enum { GEMM, NORM, PRODUCT, N_LAYER_KINDS } LayerKind;

static const struct {
    const char *op;
    int n_tensor;
} kinds[] = { [GEMM] = { "Gemm", 2 }, [NORM] = { "LayerNormalization", 2 }, [PRODUCT] = { "MatMul", 1 } };

/* One node with parameters. */
typedef struct {
    LayerKind kind;
    char module[40], scope[64];
    char tensor[2][48]; /* the names before a tool merged them */
    int numbers[2];     /* equal for tensors that are equal */
} Layer;

enum { MOST_LAYERS = 72, FILLED = 100 };

typedef struct {
    Layer layer[MOST_LAYERS];
    int n;
    uint32_t random;
} Network;

static uint32_t draw(Network *net, uint32_t below)
{
    net->random = net->random * 1664525u + 1013904223u;
    return (net->random >> 8) % below;
}

/* Adds a layer.  `numbers`: of its first tensor; the second has the next ones.  A norm's are 1 and 0 throughout. */
static Layer *add_layer(Network *net, LayerKind kind, const char *module, const char *scope, int numbers)
{
    static const char *const words[] = { "weight", "bias" };
    Layer *l = &net->layer[net->n++];

    l->kind = kind;
    snprintf(l->module, sizeof l->module, "%s", module);
    snprintf(l->scope, sizeof l->scope, "%s", scope);
    for (int i = 0; i < kinds[kind].n_tensor; i++) {
        snprintf(l->tensor[i], sizeof l->tensor[i], "%s.%s", module, words[i]);
        l->numbers[i] = kind == NORM ? FILLED + 1 - i : numbers + i;
    }
    return l;
}

/* A stack of so many copies of some layers, a norm and a dense layer behind it. */
static void make_stack(Network *net, int copies)
{
    static const char *const parts[] = { "in", "mix", "out" };
    LayerKind kind[3];

    for (int k = 0; k < 3; k++)
        kind[k] = (LayerKind)draw(net, N_LAYER_KINDS);
    kind[0] = GEMM;
    for (int i = 0; i < copies; i++)
        for (int k = 0; k < 3; k++) {
            char module[40], scope[64];

            snprintf(module, sizeof module, "layers.%d.%s", i, parts[k]);
            snprintf(scope, sizeof scope, "/layers/layers.%d/%s/%s", i, parts[k], kinds[kind[k]].op);
            add_layer(net, kind[k], module, scope, 10 * k);
        }
    add_layer(net, NORM, "norm", "/norm/LayerNormalization", 0);
    add_layer(net, GEMM, "head", "/head/Gemm", 50);
}

/* ---- the file ---- */

/* The name of the first tensor with these numbers. */
static const char *kept_name(const Network *net, int numbers)
{
    for (int i = 0; i < net->n; i++)
        for (int k = 0; k < kinds[net->layer[i].kind].n_tensor; k++)
            if (net->layer[i].numbers[k] == numbers)
                return net->layer[i].tensor[k];
    return "";
}

static void write_tensor(FILE *f, const Layer *l, int k)
{
    const int numbers = l->numbers[k];

    fprintf(f, "  const %%%s : float32[%s] = ", l->tensor[k], l->kind == NORM || k ? "2" : "2,2");
    if (numbers >= FILLED)
        fprintf(f, "all %d\n", numbers - FILLED);
    else if (k)
        fprintf(f, "{%d.5, -%d}\n", numbers, numbers);
    else
        fprintf(f, "{%d, %d.5, -%d, 0.25}\n", numbers + 1, numbers, numbers);
}

static void node_name(char *out, size_t size, const Network *net, int i, Shown evidence)
{
    if (evidence == CHANGES || evidence == MODULES || evidence == READ_AS)
        snprintf(out, size, "%s_%d", kinds[net->layer[i].kind].op, i);
    else
        snprintf(out, size, "%s", net->layer[i].scope);
}

static char *network_text(const Network *net, Shown evidence)
{
    char *text = NULL, name[80];
    size_t size;
    FILE *f = open_memstream(&text, &size);

    fputs("graph \"g\" {\n", f);
    for (int i = 0; i < net->n; i++)
        for (int k = 0; k < kinds[net->layer[i].kind].n_tensor; k++)
            if (kept_name(net, net->layer[i].numbers[k]) == net->layer[i].tensor[k])
                write_tensor(f, &net->layer[i], k);
    fputs("  input %h0 : float32[?,2]\n", f);
    for (int i = 0; i < net->n; i++) {
        const Layer *l = &net->layer[i];

        node_name(name, sizeof name, net, i, evidence);
        fprintf(f, "  %%h%d = %s(%%h%d, %%%s", i + 1, kinds[l->kind].op, i, kept_name(net, l->numbers[0]));
        if (kinds[l->kind].n_tensor > 1)
            fprintf(f, ", %%%s", kept_name(net, l->numbers[1]));
        fprintf(f, ") \"%s\"\n", name);
    }
    fprintf(f, "  output \"y\" = %%h%d\n}\n", net->n);
    fclose(f);
    return text;
}

/* onnxsim's lists, tensor by tensor in the order of the kept ones. */
static Status add_lists(Graph *g, const Network *net, Shown evidence)
{
    char *removed = NULL, *changed = NULL, name[80];
    size_t size;
    FILE *r = open_memstream(&removed, &size), *c = open_memstream(&changed, &size);
    const char *comma = "", *between = "";
    Status st;

    for (int i = 0; i < net->n; i++)
        for (int k = 0; k < kinds[net->layer[i].kind].n_tensor; k++) {
            const int numbers = net->layer[i].numbers[k];

            if (kept_name(net, numbers) != net->layer[i].tensor[k])
                continue;
            for (int at = i + 1; at < net->n; at++)
                for (int in = 0; in < kinds[net->layer[at].kind].n_tensor; in++)
                    if (net->layer[at].numbers[in] == numbers) {
                        fprintf(r, "%s%s", comma, net->layer[at].tensor[in]);
                        comma = ", ";
                    }
        }
    if (evidence == CUT_LISTS)
        fputs(", ... (+5 more)", r);
    for (int i = 0; i < net->n && evidence == CHANGES; i++) {
        bool reads_other = false;

        for (int k = 0; k < kinds[net->layer[i].kind].n_tensor; k++)
            reads_other |= kept_name(net, net->layer[i].numbers[k]) != net->layer[i].tensor[k];
        node_name(name, sizeof name, net, i, evidence);
        if (reads_other) {
            fprintf(c, "%s%s (%s) -> %s (%s)", between, kinds[net->layer[i].kind].op, name,
                    kinds[net->layer[i].kind].op, name);
            between = ", ";
        }
    }
    fclose(r);
    fclose(c);
    st = simplified_set(g, SIMPLIFIER, ONNXSIM);
    st = st ? st : simplified_set(g, REMOVED_VALUES, removed);
    st = st || evidence != CHANGES ? st : simplified_set(g, CHANGED_NODES, changed);
    free(removed);
    free(changed);
    return st;
}

static void add_modules(Graph *g, const Network *net, bool read_as)
{
    for (int i = 0; i < net->n; i++) {
        const Layer *l = &net->layer[i];
        const char **names = ARENA_NEW(g->arena, const char *, 3);

        g->node[i]->module = l->module;
        for (int k = 0; k < kinds[l->kind].n_tensor; k++)
            names[1 + k] = l->tensor[k];
        if (read_as) {
            g->node[i]->read_as = names;
            g->node[i]->n_read_as = 1 + kinds[l->kind].n_tensor;
        }
    }
}

/* Repairs the file, and checks what each layer reads. */
static void check_network(const Network *net, Shown evidence, uint32_t seed)
{
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    char *text = network_text(net, evidence);
    Graph *g = NULL;

    if (CHECK_OK(graph_parse(&g, text, strlen(text)))) {
        if (evidence == MODULES || evidence == READ_AS)
            add_modules(g, net, evidence == READ_AS);
        else if (evidence != SCOPES)
            CHECK_OK(add_lists(g, net, evidence));
        CHECK_OK(pass_unmerge.run(g, &ctx));
        CHECK_OK(pass_untie.run(g, &ctx));
        for (int i = 0; i < net->n; i++)
            for (int k = 0; k < kinds[net->layer[i].kind].n_tensor; k++) {
                const char *found = value(g, g->node[i]->in[1 + k])->name;

                if (strcmp(found, net->layer[i].tensor[k]))
                    TEST_FAIL("network %d, by %s: %s %s reads '%s', expected '%s'", (int)seed, evidence_names[evidence],
                              kinds[net->layer[i].kind].op, net->layer[i].module, found, net->layer[i].tensor[k]);
            }
    }
    graph_free(g);
    free(text);
    arena_free(ctx.scratch);
}

/* ---- tests ---- */

static void test_copies(void)
{
    for (uint32_t seed = 0; seed < 12; seed++)
        for (Shown evidence = MODULES; evidence < N_SHOWN; evidence++) {
            Network net = { .random = seed * 2654435761u + 1 };

            make_stack(&net, seed < 9 ? 2 + (int)draw(&net, 3) : 11 + (int)seed);
            check_network(&net, evidence, seed);
        }
}

/* An output layer that has the first layer's weight but another bias shares it. */
static void test_shared(void)
{
    for (Shown evidence = MODULES; evidence <= SCOPES; evidence++) {
        Network net = { .random = 1 };
        Layer *tied;

        make_stack(&net, 3);
        tied = add_layer(&net, GEMM, "tied", "/tied/Gemm", 70);
        tied->numbers[0] = net.layer[0].numbers[0];
        snprintf(tied->tensor[0], sizeof tied->tensor[0], "%s", net.layer[0].tensor[0]);
        check_network(&net, evidence, 1);
    }
}

/* A module that is called twice has one parameter. */
static void test_called_twice(void)
{
    for (Shown evidence = MODULES; evidence <= SCOPES; evidence++) {
        Network net = { .random = 2 };
        Layer *again;

        make_stack(&net, 3);
        again = add_layer(&net, GEMM, evidence == SCOPES ? "layers.0.in_1" : "layers.0.in",
                          "/layers/layers.0/in_1/Gemm", net.layer[0].numbers[0]);
        for (int k = 0; k < 2; k++)
            snprintf(again->tensor[k], sizeof again->tensor[k], "%s", net.layer[0].tensor[k]);
        check_network(&net, evidence, 2);
    }
}

/* ---- nodes that a tool merged ---- */

enum { MOST_BRANCHES = 3, MOST_DEPTH = 2 };
static const char *const branch_names[MOST_BRANCHES] = { "left", "right", "third" };
/* The nodes of a branch's layers: onnxsim's lists do not tell two of one operator apart. */
static const char *const layer_ops[MOST_DEPTH] = { "Gemm", "LayerNormalization" }, *const act_ops[MOST_DEPTH] = {
    "Relu", "Tanh"
};

/* How nodes are called: by their module; the same with a number, which copies do not share; by numbers alone. */
typedef enum { BY_MODULE, NUMBERED, BY_NUMBER, N_NAMINGS } Naming;

/* The name of node `at` of a branch: its layers, each with an activation behind it. */
static void branch_node(char *out, size_t size, Naming naming, int branch, int at)
{
    const char *op = at % 2 ? act_ops[at / 2] : layer_ops[at / 2], *module = branch_names[branch];

    if (naming == BY_NUMBER)
        snprintf(out, size, "%s_%d", op, 10 * branch + at);
    else if (naming == NUMBERED && branch)
        snprintf(out, size, "/%s/%s.%d/%s_%d", module, module, at, op, 10 * branch);
    else
        snprintf(out, size, "/%s/%s.%d/%s", module, module, at, op);
}

/* Branches of `depth` layers that begin as copies and read one input, each with a head of its own behind it.  The file
 * has the nodes of the first branch alone, which all heads read, and onnxsim's lists of the others. */
static char *branches_text(int branches, int depth, Naming naming)
{
    char *text = NULL, before[16] = "x", layer[64], act[64];
    size_t size;
    FILE *f = open_memstream(&text, &size);

    fputs("graph \"g\" {\n", f);
    for (int k = 0; k < depth; k++)
        fprintf(f,
                "  const %%left.%d.weight : float32[%s}\n"
                "  const %%left.%d.bias : float32[2] = {%d, 0.5}\n",
                2 * k, k ? "2] = {1, 2" : "2,2] = {5, 2, 3, 4.5", 2 * k, k);
    for (int b = 0; b < branches; b++)
        fprintf(f, "  const %%head%d.weight : float32[2,2] = {1, %d, 3, 4}\n", b, b);
    fputs("  input %x : float32[?,2]\n", f);
    for (int k = 0; k < depth; k++) {
        branch_node(layer, sizeof layer, naming, 0, 2 * k);
        branch_node(act, sizeof act, naming, 0, 2 * k + 1);
        fprintf(f, "  %%h%d = %s(%%%s, %%left.%d.weight, %%left.%d.bias) \"%s\"\n  %%r%d = %s(%%h%d) \"%s\"\n", k,
                layer_ops[k], before, 2 * k, 2 * k, layer, k, act_ops[k], k, act);
        snprintf(before, sizeof before, "r%d", k);
    }
    for (int b = 0; b < branches; b++)
        fprintf(f, "  %%y%d = MatMul(%%%s, %%head%d.weight) \"/head%d/MatMul\"\n  output \"y%d\" = %%y%d\n", b, before,
                b, b, b, b);
    fputs("}\n", f);
    fclose(f);
    return text;
}

static Status list_branches(Graph *g, int branches, int depth, Naming naming)
{
    char *nodes = NULL, *values = NULL, *changed = NULL, name[64];
    size_t size;
    FILE *n = open_memstream(&nodes, &size), *v = open_memstream(&values, &size), *c = open_memstream(&changed, &size);
    Status st;

    for (int b = 1; b < branches; b++) {
        for (int at = 0; at < 2 * depth; at++) {
            const char *comma = b > 1 || at ? ", " : "", *module = branch_names[b];

            branch_node(name, sizeof name, naming, b, at);
            fprintf(n, "%s%s (%s)", comma, at % 2 ? act_ops[at / 2] : layer_ops[at / 2], name);
            if (at % 2 == 0)
                fprintf(v, "%s%s.%d.bias, %s.%d.weight", comma, module, at, module, at);
        }
        fprintf(c, "%sMatMul (/head%d/MatMul) -> MatMul (/head%d/MatMul)", b > 1 ? ", " : "", b, b);
    }
    fclose(n);
    fclose(v);
    fclose(c);
    st = simplified_set(g, SIMPLIFIER, ONNXSIM);
    st = st ? st : simplified_set(g, REMOVED_NODES, nodes);
    st = st ? st : simplified_set(g, REMOVED_VALUES, values);
    st = st ? st : simplified_set(g, CHANGED_NODES, changed);
    free(nodes);
    free(values);
    free(changed);
    return st;
}

/* Checks that the branch in front of the head reads its own tensors. */
static void check_branch(const Graph *g, int branch, int depth)
{
    const Node *n = value(g, g->output[branch].value)->producer;

    for (int k = depth; k-- > 0;) {
        static const char *const words[] = { "weight", "bias" };

        n = in_value(g, in_value(g, n, 0)->producer, 0)->producer;
        for (int i = 0; i < 2; i++) {
            char expected[32];

            snprintf(expected, sizeof expected, "%s.%d.%s", branch_names[branch], 2 * k, words[i]);
            CHECK_STR(expected, in_value(g, n, 1 + i)->name);
        }
    }
}

static void check_branches(int branches, int depth, Naming naming)
{
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    char *text = branches_text(branches, depth, naming);
    Graph *g = NULL;

    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(list_branches(g, branches, depth, naming)) &&
        CHECK_OK(pass_unmerge.run(g, &ctx)) && CHECK_OK(pass_untie.run(g, &ctx))) {
        if (g->n_node != (uint32_t)(branches * (2 * depth + 1)))
            TEST_FAIL("%d branches of %d layers, named in way %d: found %d nodes", branches, depth, (int)naming,
                      (int)g->n_node);
        for (int b = 0; b < branches; b++)
            check_branch(g, b, depth);
    }
    graph_free(g);
    free(text);
    arena_free(ctx.scratch);
}

/* Names that are numbers do not show which copies are of one branch. */
static void test_branches(void)
{
    for (Naming naming = BY_MODULE; naming < N_NAMINGS; naming++)
        for (int branches = 2; branches <= (naming == BY_NUMBER ? 2 : MOST_BRANCHES); branches++)
            for (int depth = 1; depth <= MOST_DEPTH; depth++)
                check_branches(branches, depth, naming);
}

DEFINE_SUITE(merged_copies, { "equal layers", test_copies }, { "a shared weight", test_shared },
             { "a module called twice", test_called_twice }, { "equal branches", test_branches });
