/* Writes the text of a generated kernel from the facts that kernels/cuda/cuda_generate.c collected. */
#include "kernels/cuda/device/update.h"
#include "kernels/cuda/generator.h"

#include <string.h>

/* ---- expressions ---- */

/* Nodes go on with what other kernels read: a 16-bit output is rounded for them too. */
static bool rounds_again(const Generator *g, ValueId v)
{
    bool output = false;

    for (int i = 0; i < g->n_stored; i++)
        output = output || value_eq(g->body->output[i].value, v);
    return output && g->read[v.i] &&
           strcmp(cuda_computed_type(value(g->body, v)->dtype), cuda_stored_type(value(g->body, v)->dtype));
}

static void generate_text_write_node(const Generator *g, const Node *n)
{
    const CudaExpr *e = cuda_expr_find(g->body, n);
    const char *arg[GENERATED_POINTERS];
    DType type = value(g->body, n->out[0])->dtype;
    bool rounds = rounds_again(g, n->out[0]);
    int n_arg = cuda_expr_args(e, n);

    for (int i = 0; i < n_arg; i++)
        arg[i] = has_in(n, i) ? g->text[n->in[i].i] : NULL;
    fprintf(g->f, "            const %s t%u = ", cuda_computed_type(type), n->out[0].i);
    if (rounds)
        fprintf(g->f, "ew::cast<%s>(", cuda_stored_type(type));
    cuda_expr_write(g->f, e, g->body, n, arg);
    fputs(rounds ? ");\n" : ";\n", g->f);
}

/* ---- the text ---- */

static ValueId pointer_value(const Generator *g, int i)
{
    int of = g->out->of[i];

    return of >= 0 ? g->body->input[of] : g->body->output[-1 - of].value;
}

/* Sizes and strides, in the order of list_numbers. */
static void write_space(const Generator *g)
{
    if (!g->out->n_number)
        return;
    fputs("struct Space {\n", g->f);
    for (int i = 0; i < g->rank - 1; i++)
        fprintf(g->f, "    u32 size%d, mul%d, shift%d;\n", i, i, i);
    for (int k = 0; k < g->body->n_input; k++)
        for (int i = 1; i < g->rank && g->access[k] >= AT_ROW; i++)
            fprintf(g->f, "    u32 stride%d_%d;\n", k, i);
    fputs("};\n\n", g->f);
}

/* Each pointer's declaration, with what ends it. */
static void write_pointers(const Generator *g, const char *end)
{
    for (int i = 0; i < g->out->n_pointer; i++)
        fprintf(g->f, "%s%s *p%d%s", g->out->of[i] < 0 ? "" : "const ",
                cuda_stored_type(value(g->body, pointer_value(g, i))->dtype), i, end);
}

static void write_head(const Generator *g)
{
    fprintf(g->f, "KERNEL(%s, (", g->out->name);
    write_pointers(g, ", ");
    fprintf(g->f, "i64 count, int aligned%s))\n{\n", g->out->n_number ? ", Space s" : "");
    fprintf(g->f, "    constexpr int N = %d;\n    const i64 step = (i64)gridDim.x * blockDim.x;\n", g->out->vector);
}

static void write_coordinates(const Generator *g)
{
    if (g->rank == 1)
        return;
    fputs("        const u32 q0 = (u32)group;\n", g->f);
    for (int i = 0; i < g->rank - 1; i++)
        fprintf(g->f, "        const u32 q%d = ew::divide(q%d, s.mul%d, s.shift%d), c%d = q%d - q%d * s.size%d;\n",
                i + 1, i, i, i, i, i, i + 1, i);
    fprintf(g->f, "        const u32 c%d = q%d;\n", g->rank - 1, g->rank - 1);
}

static void write_offset(const Generator *g, int k)
{
    fputs(g->access[k] == AT_ROW ? "c0 * N" : "0", g->f);
    for (int i = 1; i < g->rank; i++)
        fprintf(g->f, " + c%d * s.stride%d_%d", i, k, i);
}

/* Before the loop: the operands of one element for all. */
static void write_scalars(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++) {
        int k = g->out->of[i];
        ValueId v = pointer_value(g, i);

        if (k < 0 || g->access[k] != AT_SCALAR)
            continue;
        fprintf(g->f, "    const %s x%u = ew::widen<%s>(p%d[0]);\n", cuda_computed_type(value(g->body, v)->dtype), v.i,
                cuda_computed_type(value(g->body, v)->dtype), i);
    }
}

static void write_loads(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++) {
        int k = g->out->of[i];
        ValueId v = pointer_value(g, i);
        const char *type = cuda_computed_type(value(g->body, v)->dtype);

        if (k < 0 || g->access[k] == AT_SCALAR)
            continue;
        if (g->access[k] == AT_SPLAT) {
            fprintf(g->f, "        const %s x%u = ew::widen<%s>(p%d[", type, v.i, type, i);
            write_offset(g, k);
            fputs("]);\n", g->f);
            continue;
        }
        fprintf(g->f, "        %s x%u[N];\n        ew::load<N>(x%u, p%d + ", type, v.i, v.i, i);
        if (g->access[k] == AT_INDEX)
            fputs("at", g->f);
        else
            write_offset(g, k);
        fputs(", count - at, whole);\n", g->f);
    }
}

static void write_stores(const Generator *g)
{
    for (int i = 0; i < g->out->n_pointer; i++)
        if (g->out->of[i] < 0)
            fprintf(g->f, "        ew::store<N>(p%d + at, y%d, count - at, whole);\n", i, -1 - g->out->of[i]);
}

static void write_elements(const Generator *g)
{
    const Graph *body = g->body;

    for (int i = 0; i < body->n_output; i++)
        fprintf(g->f, "        %s y%d[N];\n", cuda_computed_type(value(body, body->output[i].value)->dtype), i);
    fputs("#pragma unroll\n        for (int k = 0; k < N; k++) {\n", g->f);
    FOR_NODES(body, n)
        generate_text_write_node(g, n);
    for (int i = 0; i < body->n_output; i++)
        fprintf(g->f, "            y%d[k] = %s;\n", i, g->text[body->output[i].value.i]);
    fputs("        }\n", g->f);
}

static void write_elementwise(const Generator *g)
{
    fputs("#include \"kernels/cuda/device/elementwise.cuh\"\n\n", g->f);
    write_space(g);
    write_head(g);
    write_scalars(g);
    fputs("\n    for (i64 group = (i64)blockIdx.x * blockDim.x + threadIdx.x; group * N < count; group += step) {\n"
          "        const i64 at = group * N;\n        const bool whole = aligned && at + N <= count;\n",
          g->f);
    write_coordinates(g);
    write_loads(g);
    write_elements(g);
    write_stores(g);
    fputs("    }\n}\n", g->f);
}

/* ---- over many tensors ---- */

static bool in_table(const Generator *g, int i) { return g->out->of[i] < 0 || g->access[g->out->of[i]] == AT_INDEX; }

static const char *type_of_pointer(const Generator *g, int i)
{
    return cuda_stored_type(value(g->body, pointer_value(g, i))->dtype);
}

static void write_many_head(const Generator *g)
{
    int n = 0;

    for (int i = 0; i < g->out->n_pointer; i++)
        n += in_table(g, i);
    fprintf(g->f, "struct Entry {\n    i64 count, block;\n    void *at[%d];\n};\n\n", n);
    fprintf(g->f, "KERNEL(%s, (const Entry *table, const u32 *which", g->out->name);
    for (int i = 0; i < g->out->n_pointer; i++)
        if (!in_table(g, i))
            fprintf(g->f, ", const %s *p%d", type_of_pointer(g, i), i);
    fprintf(g->f, "))\n{\n    constexpr int N = %d;\n    const Entry &t = table[which[blockIdx.x]];\n", g->out->vector);
    fprintf(g->f, "    const i64 from = ((i64)blockIdx.x - t.block) * %d;\n", UPDATE_WORK);
    fprintf(g->f, "    const i64 count = from + %d < t.count ? from + %d : t.count;\n", UPDATE_WORK, UPDATE_WORK);
}

/* The table's pointers, and whether all of them let N elements be taken at a time. */
static void write_entry(const Generator *g)
{
    int n = 0;

    for (int i = 0; i < g->out->n_pointer; i++)
        if (in_table(g, i))
            fprintf(g->f, "    %s%s *p%d = (%s%s *)t.at[%d];\n", g->out->of[i] < 0 ? "" : "const ",
                    type_of_pointer(g, i), i, g->out->of[i] < 0 ? "" : "const ", type_of_pointer(g, i), n++);
    fputs("    const bool aligned = true", g->f);
    for (int i = 0; i < g->out->n_pointer; i++)
        if (in_table(g, i))
            fprintf(g->f, " && (u64)p%d %% (N * sizeof *p%d) == 0", i, i);
    fputs(";\n", g->f);
}

static void write_many(const Generator *g)
{
    fputs("#include \"kernels/cuda/device/elementwise.cuh\"\n\n", g->f);
    write_many_head(g);
    write_entry(g);
    write_scalars(g);
    fputs("\n    for (i64 at = from + threadIdx.x * N; at < count; at += blockDim.x * N) {\n"
          "        const bool whole = aligned && at + N <= count;\n",
          g->f);
    write_loads(g);
    write_elements(g);
    write_stores(g);
    fputs("    }\n}\n", g->f);
}

/* ---- with a sum ---- */

static ValueId summed(const Generator *g) { return g->body->output[g->n_stored].value; }

/* A group of elements as a function: stores the outputs and leaves the terms of the sum in y. */
static void write_program(const Generator *g)
{
    const char *type = cuda_computed_type(value(g->body, summed(g))->dtype);

    fprintf(g->f, "struct Program {\n    typedef %s Sum;\n    static constexpr int N = %d;\n    ", type,
            g->out->vector);
    write_pointers(g, ";\n    ");
    fprintf(g->f,
            "bool whole;\n%s\n    __device__ __forceinline__ void operator()(i64 at, Sum (&sum)[N]) const\n    {\n",
            g->out->n_number ? "    Space s;\n" : "");
    fputs("        const i64 group = at / N, count = at + N;\n        (void)group;\n", g->f);
    write_scalars(g);
    write_coordinates(g);
    write_loads(g);
    write_elements(g);
    write_stores(g);
    fprintf(g->f, "#pragma unroll\n        for (int k = 0; k < N; k++)\n            sum[k] = y%d[k];\n    }\n};\n\n",
            g->n_stored);
}

static void write_sum(const Generator *g)
{
    const char *type = cuda_computed_type(value(g->body, summed(g))->dtype);

    fputs("#include \"kernels/cuda/device/elementwise.cuh\"\n#include \"kernels/cuda/device/reduction.h\"\n"
          "#include \"kernels/cuda/device/walk.h\"\n#include \"kernels/cuda/device/fused_sum.h\"\n\n",
          g->f);
    write_space(g);
    write_program(g);
    fprintf(g->f, "KERNEL(%s, (", g->out->name);
    write_pointers(g, ", ");
    fprintf(g->f, "%s *y, %s *partial, Reduction r, int lanes, int aligned%s))\n{\n    const Program f = { ",
            cuda_stored_type(g->sum), type, g->out->n_number ? ", Space s" : "");
    for (int i = 0; i < g->out->n_pointer; i++)
        fprintf(g->f, "p%d, ", i);
    fprintf(g->f, "aligned != 0%s };\n\n    fused::sum_%s(f, y, partial, r%s);\n}\n", g->out->n_number ? ", s" : "",
            g->columns ? "columns" : "runs", g->columns ? "" : ", lanes");
}

void generator_write(const Generator *g)
{
    if (g->sum)
        write_sum(g);
    else if (g->n_array)
        write_many(g);
    else
        write_elementwise(g);
}
