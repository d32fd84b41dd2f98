/* Results and gradients of operators are PyTorch's, in float64 (autograd.py, sweep.py): central differences know the
 * gradient of what we compute, not whether it is what ONNX and PyTorch mean. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/grad.h"
#include "graph/ir/graph.h"
#include "tests/harness/test.h"
#include "tests/ops/check.h"

static const double LIMIT = 1e-9; /* of the largest number of a tensor, at least of 1 */

/* The next line without its end; NULL: there is none. */
static char *next_line(FILE *f, char **line, size_t *size)
{
    ssize_t n = getline(line, size, f);

    if (n <= 0)
        return NULL;
    (*line)[n - 1] = '\0';
    return *line;
}

/* As many numbers as the tensor has, in a line. */
static bool read_numbers(FILE *f, Tensor *t)
{
    char *line = NULL, *at;
    size_t size = 0;
    int64_t n = 0;

    for (at = next_line(f, &line, &size); at && *at && n < tensor_numel(t); n++)
        tensor_set_float(t, n, strtod(at, &at));
    n = at && !*at ? n : -1;
    free(line);
    return n == tensor_numel(t);
}

/* Up to the line that ends it. */
static char *read_text(FILE *f)
{
    char *line = NULL, *text = NULL, *at;
    size_t size = 0, len = 0;
    FILE *to = open_memstream(&text, &len);

    do {
        at = next_line(f, &line, &size);
        fprintf(to, "%s\n", at ? at : "");
    } while (at && strcmp(at, "}"));
    free(line);
    fclose(to);
    return text;
}

/* What has no gradient has one of 0. */
static void compare(const char *name, const char *what, const Tensor *found, const Tensor *wanted)
{
    double largest = 1;

    for (int64_t i = 0; i < tensor_numel(wanted); i++)
        largest = fmax(largest, fabs(tensor_float(wanted, i)));
    for (int64_t i = 0; i < tensor_numel(wanted); i++) {
        const double x = found ? tensor_float(found, i) : 0;

        if (!(fabs(x - tensor_float(wanted, i)) <= LIMIT * largest)) {
            TEST_FAIL("%s: element %lld of %s is %.15g, PyTorch's %.15g", name, (long long)i, what, x,
                      tensor_float(wanted, i));
            return;
        }
    }
}

/* The numbers of inputs are in order; those of `loss` before them, those of gradients behind. */
static void check_numbers(const char *name, Graph *g, Arena *a, FILE *f)
{
    const Shape scalar = shape_scalar();
    Tensor *loss = tensor_create(a, DT_FLOAT64, &scalar), *x[CHECK_INPUTS], *d[CHECK_INPUTS];
    const Tensor **values = ARENA_NEW(a, const Tensor *, g->n_value);
    bool whole = read_numbers(f, loss);

    for (int part = 0; part < 2; part++)
        for (int i = 0; i < g->n_input; i++) {
            Tensor **t = part ? d : x;

            t[i] = tensor_create(a, DT_FLOAT64, value(g, g->input[i])->shape);
            whole = whole && read_numbers(f, t[i]);
        }
    CU_ASSERT_FATAL(whole);
    for (int i = 0; i < g->n_input; i++)
        values[g->input[i].i] = x[i];
    if (!CHECK_OK(interp_run(a, g, values)))
        return;
    compare(name, "the loss", values[graph_output(g, "loss").i], loss);
    for (int i = 0; i < g->n_input; i++)
        compare(name, gradient_names[i], values[graph_output(g, gradient_names[i]).i], d[i]);
}

/* -> how many cases there are */
static int check_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    int n = 0;

    if (!f)
        TEST_FAIL("%s cannot be read", path);
    for (const char *at; f && (at = next_line(f, &line, &size)); n += !strncmp(at, "case ", 5)) {
        Arena *a = arena_create();
        char *text;
        Graph *g = NULL;

        if (!strncmp(at, "case ", 5)) {
            text = read_text(f);
            if (!graph_with_gradients(&g, a, text))
                check_numbers(at + 5, g, a, f);
            else
                TEST_FAIL("%s: %s", at + 5, status_message());
            free(text);
        }
        graph_free(g);
        arena_free(a);
    }
    free(line);
    if (f)
        fclose(f);
    return n;
}

static void test_autograd(void) { CU_ASSERT(check_file(SOURCE_DIR "/tests/ops/autograd.txt") >= 100); }

/* And those of a file that the environment names. */
static void test_sweep(void)
{
    const char *more = getenv("AUTOGRAD_CASES");

    CU_ASSERT(check_file(SOURCE_DIR "/tests/ops/sweep.txt") >= 60);
    if (more)
        CU_ASSERT(check_file(more) >= 1);
}

/* Whether a line of the file has the operator. */
static bool file_has(const char *path, const char *name)
{
    FILE *f = fopen(path, "r");
    char *line = NULL, call[96];
    size_t size = 0;
    bool found = false;

    snprintf(call, sizeof call, " %s(", name);
    while (f && !found && getline(&line, &size, f) > 0)
        found = strstr(line, call) != NULL;
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* Of ONNX's operators, all of floats that have a gradient, or become others that may. */
static void test_complete(void)
{
    for (int i = 0; i < op_list_len; i++) {
        const OpDef *op = op_list[i];
        const bool floats = !op->dtypes || op->dtypes & DTYPE_BIT(DT_FLOAT64);

        if (op->domain || !floats || op->grad == grad_none || !(op->grad || op->lower || op->flags & OPF_ZERO_GRAD))
            continue;
        if (!file_has(SOURCE_DIR "/tests/ops/autograd.txt", op->name) &&
            !file_has(SOURCE_DIR "/tests/ops/sweep.txt", op->name) &&
            !file_has(SOURCE_DIR "/tests/ops/kinks.h", op->name))
            TEST_FAIL("%s has a gradient that is not compared with PyTorch's", op->name);
    }
}

DEFINE_SUITE(autograd, { "every operator with a gradient is compared", test_complete },
             { "results and gradients are PyTorch's", test_autograd },
             { "of attributes drawn at random, too", test_sweep });
