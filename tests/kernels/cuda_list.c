/* tests/kernels/cuda_types.txt: the types in which CPUs compute operators that CUDA devices compute in others, so that
 * their nodes run on the host.  A line is the operator's name, and after a colon the types; what follows # is a reason.
 * It is written by hand: a type that is lost, or was added, must be noticed.  Operators without any CUDA kernel run on
 * the host as well; the run says so of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cuda/expr.h"
#include "tests/harness/test.h"

enum { LIST = 1 << 14 };

/* The types in which one of the kernels computes the operator. */
static unsigned types_of(const Kernel *const *list, int len, const OpDef *op)
{
    const unsigned all = op->dtypes ? op->dtypes : DTYPES_ALL;
    unsigned types = 0;

    for (int i = 0; i < len; i++)
        if (list[i]->op == op)
            types |= list[i]->dtypes ? list[i]->dtypes & all : all;
    return types;
}

/* A kernel made from an expression computes in the expression's types. */
static unsigned cuda_types(const OpDef *op)
{
    const unsigned all = op->dtypes ? op->dtypes : DTYPES_ALL;

    for (int i = 0; i < cuda_exprs_len; i++)
        if (cuda_exprs[i]->op == op)
            return cuda_exprs[i]->dtypes ? cuda_exprs[i]->dtypes & all : all;
    return types_of(kernels_cuda, kernels_cuda_len, op);
}

static void write_operator(FILE *f, const OpDef *op)
{
    const CpuKernels fast = cpu_kernels(NULL);
    const unsigned cpu = types_of(kernels_ref, kernels_ref_len, op) | types_of(fast.kernel, fast.n, op);
    const unsigned missing = cpu & ~cuda_types(op);

    if (!missing || !cuda_types(op))
        return;
    fputs(op->name, f);
    for (int t = 0, n = 0; t < DT_COUNT; t++)
        if (missing & DTYPE_BIT(t))
            fprintf(f, "%s %s", n++ ? "" : ":", dtype_name((DType)t));
    fputc('\n', f);
}

static void write_list(char *text, size_t size)
{
    FILE *f = fmemopen(text, size, "w");

    CU_ASSERT_FATAL(f != NULL);
    for (int i = 0; i < op_list_len; i++)
        write_operator(f, op_list[i]);
    fclose(f);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The lines in the order of names. */
static void sort_lines(char *text)
{
    char *line[LIST / 8], *copy = strdup(text);
    size_t n = 0, at = 0;

    CU_ASSERT_FATAL(copy != NULL);
    for (char *l = strtok(copy, "\n"); l && n < sizeof line / sizeof *line; l = strtok(NULL, "\n"))
        line[n++] = l;
    qsort(line, n, sizeof *line, by_name);
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(text + at, "%s\n", line[i]);
    free(copy);
}

/* Without what follows #, and without empty lines. */
static void read_list(char *text, size_t size)
{
    FILE *f = fopen(SOURCE_DIR "/tests/kernels/cuda_types.txt", "r");
    char line[512];
    size_t n = 0;

    CU_ASSERT_FATAL(f != NULL);
    while (fgets(line, sizeof line, f) && n + sizeof line + 1 < size) {
        size_t len = strcspn(line, "#\n");

        while (len && line[len - 1] == ' ')
            len--;
        memcpy(text + n, line, len);
        n += len;
        if (len)
            text[n++] = '\n';
    }
    text[n] = '\0';
    fclose(f);
}

static void test_list(void)
{
    static char expected[LIST], found[LIST];

    read_list(expected, sizeof expected);
    write_list(found, sizeof found);
    sort_lines(expected);
    sort_lines(found);
    CHECK_STR(expected, found);
}

/* How many operators CUDA devices compute; the number may only rise. */
enum { LEAST = 158 };

static void test_number(void)
{
    int n = 0;

    for (int i = 0; i < op_list_len; i++)
        n += cuda_types(op_list[i]) != 0;
    if (n < LEAST)
        TEST_FAIL("CUDA kernels compute %d operators, at least %d are wanted", n, LEAST);
}

DEFINE_SUITE(cuda_list, { "the types without a CUDA kernel are those listed", test_list },
             { "no operator lost its CUDA kernel", test_number });
