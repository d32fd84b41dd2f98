/* What metadata of PyTorch's exporter say of its program. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/traced_calls.h"
#include "tests/onnx/build.h"

static void expect_args(const char *call, const char *wanted)
{
    char found[256] = "";
    TextPart arg;

    for (const char *at = call; call_next(&arg, &at);)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%.*s", *found ? " " : "", TEXT_PART(arg));
    CHECK_STR(wanted, found);
}

static void test_calls(void)
{
    static const char call[] = "%add_1 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, "
                               "[%detach, %p_w.0], 2), kwargs = {alpha: %a})";

    CU_ASSERT(call_is(call, "aten.add") && !call_is(call, "aten.ad") && !call_is(call, "aten.add.Tens"));
    CU_ASSERT(call_is(call, "aten.add.Tensor") && !call_is(NULL, "aten.add"));
    expect_args(call, "x detach p_w.0 a");
    expect_args("%x : [num_users=1] = placeholder[target=x]", "");
    expect_args("%", "");
    expect_args("", "");
    expect_args(NULL, "");
}

static void test_names(void)
{
    static const char *const detached[] = {
        "detach", "detach_1", "detach_23", "detach_", "detach__4", "detach_copy_2"
    };
    static const char *const others[] = { "detached", "detach_x", "detach_1a", "detac", "linear", "" };

    for (size_t i = 0; i < sizeof detached / sizeof *detached; i++)
        CU_ASSERT(call_detaches((TextPart){ detached[i], strlen(detached[i]) }));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CU_ASSERT(!call_detaches((TextPart){ others[i], strlen(others[i]) }));
}

#define CALL(target, args) \
    "%n : [num_users=1] = call_function[target=torch.ops.aten." target "](args = (" args "), kwargs = {})"

static void test_norms(void)
{
    CU_ASSERT_EQUAL(call_norm(CALL("_native_batch_norm_legit_no_training.default", "%x, %w, 0.1, 1e-5")),
                    NORM_EVALUATION);
    CU_ASSERT_EQUAL(call_norm(CALL("_native_batch_norm_legit_functional.default", "%x, %w, True, 0.1")), NORM_TRAINING);
    CU_ASSERT_EQUAL(call_norm(CALL("batch_norm.default", "%x, %w, False, 0.1, 1e-5, True")), NORM_EVALUATION);
    CU_ASSERT_EQUAL(call_norm(CALL("layer_norm.default", "%x, True")), NORM_UNKNOWN);
    CU_ASSERT_EQUAL(call_norm("BatchNorm"), NORM_UNKNOWN);
    CU_ASSERT_EQUAL(call_norm(NULL), NORM_UNKNOWN);
    CU_ASSERT(call_has_statistics(CALL("instance_norm.default", "%x, %w, %b, %b_running_mean, %b_running_var, True")));
    CU_ASSERT(call_has_statistics(CALL("instance_norm.default", "%x, None, None, %b_running_mean, %b_v, True, 0.1")));
    CU_ASSERT(!call_has_statistics(CALL("instance_norm.default", "%x, %w, %b, None, None, True, 0.1, 1e-05, False")));
    CU_ASSERT(!call_has_statistics(CALL("instance_norm.default", "%x, %w")) && !call_has_statistics(NULL));
    CU_ASSERT(!call_has_statistics(CALL("group_norm.default", "%x, %w, %b, %c, %d")));
}

static void test_numbers(void)
{
    const char *call = CALL("f.default", "%x, [1, (2, 3)], -4, None, 0.5, [], 6");
    double v = 7;

    CU_ASSERT(call_number(call, 2, &v) && v == -4);
    CU_ASSERT(call_number(call, 4, &v) && v == 0.5);
    CU_ASSERT(call_number(call, 6, &v) && v == 6);
    for (int i = 0; i < 9; i++)
        CU_ASSERT_EQUAL(call_number(call, i, &v), i == 2 || i == 4 || i == 6);
    CU_ASSERT(!call_number(CALL("f.default", "%x"), 1, &v) && !call_number(CALL("f.default", ""), 0, &v));
    CU_ASSERT(!call_number("%n : [num_users=1] = call_function[target=torch.ops.aten.f](args = (%x, 1", 1, &v));
    CU_ASSERT(!call_number(NULL, 0, &v));
    CU_ASSERT(call_number(CALL("f.default", "%x, True"), 1, &v) && v == 1);
    CU_ASSERT(call_number(CALL("f.default", "%x, False, 2"), 1, &v) && v == 0);
}

static void expect_lines(const char *signature, const char *wanted)
{
    char found[512] = "";
    SignatureLine line;

    for (const char *at = signature; signature_next(&line, &at);)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s:%.*s:%.*s ", TEXT_PART(line.name),
                 TEXT_PART(line.kind), TEXT_PART(line.target));
    CHECK_STR(wanted, found);
}

/* As versions 2.8 and later print it, and those before. */
static void test_signatures(void)
{
    expect_lines(
        "\n# inputs\np_w: PARAMETER target='a.w'\nx: USER_INPUT\n\n# outputs\nadd: BUFFER_MUTATION target='c'\n"
        "y: USER_OUTPUT\n",
        "p_w:PARAMETER:a.w x:USER_INPUT: add:BUFFER_MUTATION:c y:USER_OUTPUT: ");
    expect_lines(
        "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_w'), "
        "target='a.w', persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=TensorArgument(name='x'), "
        "target=None, persistent=None)], output_specs=[OutputSpec(kind=<OutputKind.BUFFER_MUTATION: 3>, "
        "arg=TensorArgument(name='add'), target='c')])",
        "p_w:PARAMETER:a.w x:USER_INPUT: add:BUFFER_MUTATION:c ");
    expect_lines("", "");
    expect_lines("nothing of this kind", "");
    expect_lines("InputSpec(kind=<", "");
    expect_lines("a: B target='", "a:B: ");
}

DEFINE_SUITE(program, { "calls", test_calls }, { "names of what is detached", test_names },
             { "modes of batch-norms", test_norms }, { "numbers", test_numbers }, { "signatures", test_signatures });
