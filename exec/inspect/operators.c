/* The table of operators, made of the OpDefs and the backends' lists of kernels; no operator is named here.  Only
 * operators of ai.onnx are listed. */
#include "exec/inspect/operators.h"

#include "graph/base/json_writer.h"
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
    return kernel ? "kernel" : op->lower ? "lowered" : op->flags & OPF_VIEW ? "view" : "at import";
}

static const char *gradient(const OpDef *op)
{
    if (op->flags & OPF_ZERO_GRAD)
        return "zero";
    if (op->grad == grad_none)
        return "none";
    return op->grad ? "yes" : op->lower ? "lowered" : "no";
}

static const char *placement(const OpDef *op)
{
    if (!op->place)
        return op->lower ? "lowered" : "gathered";
    return op->elementwise ? "elementwise" : op->place == place_all_b ? "gathered" : "by rule";
}

static void operators_print_row(FILE *to, JsonWriter *w, const OpDef *op)
{
    const CpuKernels cpu = cpu_kernels(NULL);
    const bool fast = has_kernel(cpu.kernel, cpu.n, op);
    char types[TYPES_TEXT] = "any";
    size_t n = 0;

    for (int t = 1; op->dtypes && t < 32; t++)
        if (op->dtypes >> t & 1 && n < TYPES_TEXT)
            n += (size_t)snprintf(types + n, TYPES_TEXT - n, "%s%s", n ? " " : "", dtype_name((DType)t));
    if (!w) {
        fprintf(to, "%-28s%5d  %-12s%-11s%-13s%-6s%s\n", op->name, op->since, operators_forward(op), gradient(op),
                placement(op), fast ? "yes" : "no", types);
        return;
    }
    json_open(w, NULL, '{');
    json_write_string(w, "name", op->name);
    json_write_int(w, "opset", op->since);
    json_write_string(w, "forward", operators_forward(op));
    json_write_string(w, "gradient", gradient(op));
    json_write_string(w, "placement", placement(op));
    json_write_bool(w, "fast", fast);
    json_write_string(w, "types", types);
    json_close(w);
}

Status operators_print(FILE *to, bool json)
{
    JsonWriter w = { .to = to, .lines = 1 };

    if (json)
        json_open(&w, NULL, '[');
    else
        fprintf(to, "%-28s%5s  %-12s%-11s%-13s%-6s%s\n", "operator", "opset", "forward", "gradient", "placement",
                "fast", "types of the first input");
    for (int i = 0; i < op_list_len; i++)
        if (!op_list[i]->domain)
            operators_print_row(to, json ? &w : NULL, op_list[i]);
    if (json)
        json_close(&w);
    return ferror(to) ? FAIL(E_IO, "the table could not be written") : ST_OK;
}
