/* The table of operators, made of the OpDefs and the backends' lists of kernels; no operator is named here.  Only
 * operators of ai.onnx are listed. */
#include "exec/inspect/operators.h"

#include "graph/ir/grad.h"
#include "graph/ir/op.h"
#include "graph/ir/placement_rules.h"
#include "kernels/backend.h"

enum { TYPES_TEXT = 256 };

static bool has_kernel(const Kernel *const *list, int n, const OpDef *op)
{
    for (int i = 0; i < n; i++)
        if (list[i]->op == op)
            return true;
    return false;
}

/* How the operator is computed. */
static const char *operators_forward(const OpDef *op)
{
    const bool kernel = has_kernel(kernels_ref, kernels_ref_len, op);

    if (op->flags & OPF_DYNAMIC)
        return "interpreted";
    return kernel ? "kernel" : op->lower ? "by others" : op->flags & OPF_VIEW ? "view" : "at import";
}

static const char *gradient(const OpDef *op)
{
    if (op->flags & OPF_ZERO_GRAD)
        return "zero";
    if (op->grad == grad_none)
        return "none";
    return op->grad ? "yes" : op->lower ? "by others" : "no";
}

static const char *placement(const OpDef *op)
{
    if (!op->place)
        return op->lower ? "by others" : "gathered";
    return op->elementwise ? "elementwise" : op->place == place_all_b ? "gathered" : "by rule";
}

static void operators_print_row(FILE *to, const OpDef *op, bool json, bool first)
{
    const bool fast = has_kernel(kernels_cpu, kernels_cpu_len, op);
    char types[TYPES_TEXT] = "any";
    size_t n = 0;

    for (int t = 1; op->dtypes && t < 32; t++)
        if (op->dtypes >> t & 1 && n < TYPES_TEXT)
            n += (size_t)snprintf(types + n, TYPES_TEXT - n, "%s%s", n ? " " : "", dtype_name((DType)t));
    if (json)
        fprintf(
            to,
            "%s {\"name\": \"%s\", \"opset\": %d, \"forward\": \"%s\", \"gradient\": \"%s\", \"placement\": \"%s\", "
            "\"fast\": %s, \"types\": \"%s\"}",
            first ? "" : ",\n", op->name, op->since, operators_forward(op), gradient(op), placement(op),
            fast ? "true" : "false", types);
    else
        fprintf(to, "%-28s%5d  %-12s%-11s%-13s%-6s%s\n", op->name, op->since, operators_forward(op), gradient(op),
                placement(op), fast ? "yes" : "no", types);
}

Status operators_print(FILE *to, bool json)
{
    bool first = true;

    if (json)
        fputs("[\n", to);
    else
        fprintf(to, "%-28s%5s  %-12s%-11s%-13s%-6s%s\n", "operator", "opset", "forward", "gradient", "placement",
                "fast", "types of the first input");
    for (int i = 0; i < op_list_len; i++)
        if (!op_list[i]->domain) {
            operators_print_row(to, op_list[i], json, first);
            first = false;
        }
    if (json)
        fputs("\n]\n", to);
    return ferror(to) ? FAIL(E_IO, "the table could not be written") : ST_OK;
}
