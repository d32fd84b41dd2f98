/* Results and gradients of operators are PyTorch's, in float64 (autograd.py): central differences know the gradient of
 * what we compute, not whether it is what ONNX and PyTorch mean. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/graph.h"
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

static void compare(const char *name, const char *what, const Tensor *found, const Tensor *wanted)
{
    double largest = 1;

    for (int64_t i = 0; i < tensor_numel(wanted); i++)
        largest = fmax(largest, fabs(tensor_float(wanted, i)));
    for (int64_t i = 0; i < tensor_numel(wanted); i++)
        if (!found || !(fabs(tensor_float(found, i) - tensor_float(wanted, i)) <= LIMIT * largest)) {
            TEST_FAIL("%s: element %lld of %s is %.15g, PyTorch's %.15g", name, (long long)i, what,
                      found ? tensor_float(found, i) : NAN, tensor_float(wanted, i));
            return;
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

static void test_autograd(void)
{
    FILE *f = fopen(SOURCE_DIR "/tests/ops/autograd.txt", "r");
    char *line = NULL;
    size_t size = 0;
    int n = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    for (const char *at; (at = next_line(f, &line, &size)); n += !strncmp(at, "case ", 5)) {
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
    CU_ASSERT(n >= 100);
    free(line);
    fclose(f);
}

DEFINE_SUITE(autograd, { "results and gradients are PyTorch's", test_autograd });
