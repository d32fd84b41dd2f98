/* Views said in digits find the elements that the operators themselves do, when these run on the numbers 0, 1, 2 ... */
#include "graph/ir/views.h"

#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"
#include "tests/passes/step.h"

enum { ELEMENTS = 120 };

/* The numbers, which are where they came from. */
static void check_elements(const Strided *s, const Tensor *found)
{
    const int64_t *v = found->data;
    int64_t wrong = 0;

    for (int64_t i = 0; i < tensor_numel(found); i++) {
        int64_t at = s->offset, rest = i;

        for (int k = s->n_digit - 1; k >= 0; k--) {
            at += rest % s->digit[k].size * s->digit[k].step;
            rest /= s->digit[k].size;
        }
        wrong += at != v[i] || rest != 0;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Each output of the graph, a view of %x or of the value that `base` names. */
static void check(const char *body, const char *base)
{
    char text[1024];
    const Shape x = SHAPE(2, 3, 4, 5);
    long long numbers[ELEMENTS];
    Graph *g = NULL;
    Step step;

    for (int i = 0; i < ELEMENTS; i++)
        numbers[i] = i;
    snprintf(text, sizeof text, "graph \"g\" { input %%x : int64[2,3,4,5]\n%s }", body);
    if (!CHECK_OK(graph_parse(&g, text, strlen(text))) || !CHECK_OK(step_open(&step, g)))
        return;
    step_give(&step, "x", step_ints(&step, &x, numbers));
    if (CHECK_OK(step_run(&step)))
        for (int i = 0; i < g->n_output; i++) {
            Strided s;
            ValueId of;

            strided_of(&s, &of, g, g->output[i].value);
            CU_ASSERT_STRING_EQUAL(value(g, of)->name, base);
            if (!strcmp(base, "x"))
                check_elements(&s, step.values[g->output[i].value.i]);
        }
    step_close(&step);
}

static void test_views(void)
{
    check("const %a : int64[1] = {1}\n const %b : int64[1] = {3}\n const %two : int64[1] = {2}\n"
          "const %minus : int64[1] = {-1}\n const %low : int64[1] = {-9}\n const %joined : int64[2] = {24,5}\n"
          "const %cut : int64[5] = {2,2,3,2,5}\n const %flat : int64[1] = {120}\n"
          "%t = Transpose(%x) {perm=[2,0,3,1]}\n %u = Unsqueeze(%t, %two)\n"
          "%s = Slice(%x, %a, %b, %two)\n %r = Slice(%x, %minus, %low, %b, %minus)\n"
          "%p, %q = Split(%x) {axis=2, num_outputs=2}\n %qt = Transpose(%q) {perm=[3,2,1,0]}\n"
          "%j = Reshape(%x, %joined)\n %c = Reshape(%j, %cut)\n %ct = Transpose(%c) {perm=[3,1,4,0,2]}\n"
          "%f = Reshape(%t, %flat)\n"
          "output \"t\" = %t\n output \"u\" = %u\n output \"s\" = %s\n output \"r\" = %r\n output \"p\" = %p\n"
          "output \"qt\" = %qt\n output \"ct\" = %ct\n output \"f\" = %f\n",
          "x");
}

/* Joined axes keep their digits, so that what was joined out of order can be cut again and put back. */
static void test_joined(void)
{
    check("const %joined : int64[2] = {4,30}\n const %apart : int64[4] = {4,5,2,3}\n const %a : int64[1] = {6}\n"
          "const %b : int64[1] = {18}\n const %one : int64[1] = {1}\n"
          "%t = Transpose(%x) {perm=[2,3,0,1]}\n %j = Reshape(%t, %joined)\n %c = Reshape(%j, %apart)\n"
          "%y = Transpose(%c) {perm=[2,3,0,1]}\n %s = Slice(%j, %a, %b, %one)\n"
          "output \"j\" = %j\n output \"y\" = %y\n output \"s\" = %s\n",
          "x");
}

/* What digits cannot say is a base of its own: a cut across the digits of joined axes. */
static void test_base(void)
{
    check("const %joined : int64[2] = {4,30}\n const %a : int64[1] = {1}\n const %b : int64[1] = {5}\n"
          "%t = Transpose(%x) {perm=[2,3,0,1]}\n %j = Reshape(%t, %joined)\n %s = Slice(%j, %a, %b, %a)\n"
          "output \"s\" = %s\n",
          "s");
    check("const %cut : int64[4] = {3,5,2,4}\n %t = Transpose(%x) {perm=[0,2,1,3]}\n %c = Reshape(%t, %cut)\n"
          "%n = Neg(%x)\n output \"c\" = %c\n",
          "c");
}

DEFINE_SUITE(strided, { "views", test_views }, { "joined axes", test_joined }, { "bases of their own", test_base });
