/* Reading and writing ONNX files.
 *
 * A file is hostile until it has been checked.  Its bytes are scanned before they are unpacked (wire_scan.c), its
 * fields are checked before they are used, and external data stays inside the model's folder (external.c).
 * docs/reference/onnx.md lists what is read, what is refused, and why. */
#ifndef DPX_ONNX_H
#define DPX_ONNX_H

#include <stdio.h>

#include "graph/ir/op.h"

/* The opsets of the default domain that the operators' `import` functions cover. */
enum { ONNX_OPSET_MIN = 1, ONNX_OPSET_MAX = 27 };

typedef struct {
    const char *key, *value;
} OnnxProp;

/* A model's declaration of an output: not relied on, but exported again where nothing better is known. */
typedef struct {
    const char *name;
    DType dtype;
    Shape shape;
    const char *const *dim_param; /* as in Value */
    bool sequence;                /* of such tensors: outputs NAME.0, NAME.1, ... of the graph */
    bool optional;                /* an optional of the type that the other fields describe */
} OnnxOutput;

/* The parts of a model that its graph does not hold, for a later export. */
typedef struct {
    int64_t ir_version, opset;       /* newest opset of the default domain among the nodes of the file */
    const char *producer_name, *doc; /* NULL when absent */
    const OnnxProp *prop;            /* metadata_props, without those of dpexec */
    int n_prop;
    const OnnxOutput *output;
    int n_output;
    const char *const *structured; /* inputs that are sequences or optional */
    int n_structured;
    const char *const *given; /* inputs that the options gave a value */
    int n_given;
    const char *const *call; /* prefixes of the names of nodes that inlined functions made; callers first */
    int n_call;
    Graph *initial;          /* computes tensors' first values (training_info), where training was read; or NULL */
    const OnnxProp *first;   /* names of these tensors, and of the outputs of `initial` */
    int n_first;             /* 0: none */
    const char *not_initial; /* why there is no `initial` for them */
    Arena *arena;            /* owns all but `initial` */
} OnnxModel;

void onnx_model_free(OnnxModel *m); /* NULL is legal */
/* The file's declaration of the graph's output of this name; NULL: none, or `m` is NULL. */
const OnnxOutput *onnx_model_output(const OnnxModel *m, const char *name);

/* The metadata property of this key; NULL: none. */
const char *onnx_model_prop(const OnnxModel *m, const char *key);
/* Sets it, or removes it for value NULL.  E_INVALID: the key is one of dpexec's own marks. */
Status onnx_model_set_prop(OnnxModel *m, const char *key, const char *value) CHECKED;

/* Computes the outputs of a graph from its inputs into `out` [part->n_output], in the arena.  After E_UNSUPPORTED its
 * nodes are computed one by one instead. */
typedef Status OnnxCompute(void *user, const Tensor **out, Arena *arena, const Graph *part,
                           const Tensor *const *in /* [part->n_input] */);

/* The declared type of an input or output: a tensor, a sequence of tensors, or an optional of either. */
typedef struct {
    bool optional, sequence;
    DType dtype; /* of the tensors; DT_NONE: not declared */
    Shape shape; /* of a tensor, as far as it is declared */
} OnnxType;

/* Sets `*n` to the number of tensors in input `i` of the model, a sequence or optional, where inputs with a default do
 * not count.  ONNX_ABSENT: an optional that holds nothing; ONNX_UNKNOWN: nobody knows. */
typedef Status OnnxMembers(void *user, int *n, int i, const char *name, const OnnxType *type);
enum { ONNX_ABSENT = -1, ONNX_UNKNOWN = -2 };
enum { MAX_SEQUENCE = 4096 }; /* tensors */

/* The numbers that replace the input, "16000" or "1,2,3"; NULL: it stays an input. */
typedef const char *OnnxInputValue(void *user, const char *name);

/* Reads `bytes` bytes, from byte `offset` on, of the external data that a tensor names by `location`. */
typedef Status OnnxExternal(void *user, const char *location, size_t offset, size_t bytes, void *to);

/* A model that lies in memory, read only during the import. */
typedef struct {
    const void *data;
    size_t size;
    OnnxExternal *external; /* NULL: external data is an error */
    void *external_user;
} OnnxMemory;

typedef struct {
    Evaluator eval;          /* computes conditions and trip counts; NULL: only constants are known */
    MemoryBudget *budget;    /* of the graph, which holds it; NULL: no limit */
    const OperatorList *own; /* the embedder's operators, which must outlive the graph; NULL: none */
    OnnxMembers *members;    /* of inputs that are no tensors; NULL: there must be none */
    void *members_user;
    OnnxInputValue *input_value; /* of the model's tensors; NULL: all are inputs */
    void *input_value_user;
    OnnxCompute *compute; /* in an evaluation, computes many nodes at once; NULL: each is computed alone */
    void *compute_user;
    bool texts;        /* tensors of strings are taken, in a graph that is exported or interpreted; never in bodies */
    int64_t max_nodes; /* with functions inlined and loops unrolled; 0: ONNX_MAX_NODES */
    bool training;     /* with the algorithms of its training_info, whose updates are Value.next */
    bool initialize;   /* tensors get the first values that the training_info computes; `training` implies it */
    uint64_t seed;     /* of random numbers in these first values, and in an evaluation */
    bool file_modes;   /* in an evaluation, operators that training changes are in the mode that the file gives */
} ImportOptions;
enum { ONNX_MAX_NODES = 300000 };

/* Import a model as a graph in the order of its nodes.  Initializers and Constant nodes are V_CONST, inputs have -1 for
 * symbolic dimensions (dim_param names them), operators are in the IR's spelling and normalised, shapes are not
 * inferred.  `model` and `opt` may be NULL.  E_UNSUPPORTED lists all that is not supported.  `name` stands in messages.
 */
Status onnx_import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt) CHECKED;
Status onnx_import_memory(Graph **out, OnnxModel **model, const OnnxMemory *memory, const char *name,
                          const ImportOptions *opt) CHECKED;

/* ---- values ---- */

typedef struct {
    OnnxType type;
    bool nothing;              /* an optional that holds nothing */
    int n;                     /* tensors: of a sequence any number, else one */
    const Tensor *const *item; /* [n] */
} OnnxValue;
typedef struct {
    const char *name;
    OnnxValue value;
} OnnxNamedValue;
/* Sets `*out` to the value of input `i` of a model, of the declared type; inputs with a default do not count. */
typedef Status OnnxInput(void *user, OnnxValue *out, Arena *arena, int i, const char *name, const OnnxType *type);

/* Computes the model's outputs, in its order, for the inputs that `input` gives.  Each node is computed as it is read,
 * so that control flow, shapes and lengths of sequences may depend on data (evaluate.c).  Operators that training
 * changes are in inference mode, unless file_modes is set.  The arena owns the outputs; intermediate results are
 * charged to the options' budget. */
Status onnx_evaluate_file(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, const ImportOptions *opt,
                          OnnxInput *input, void *user) CHECKED;

/* Reads a file that holds a TensorProto, a SequenceProto or an OptionalProto, according to the type.  E_UNSUPPORTED:
 * its element type is not supported. */
Status onnx_read_value(OnnxValue *out, Arena *arena, const char *path, const OnnxType *type) CHECKED;

typedef struct {
    const OnnxModel *model; /* of the import; NULL: unknown */
    bool plain;             /* for other runtimes: no devices, no updates, no metadata of dpexec except which tensors
                             * are trained; an operator that ONNX does not have is an error */
    bool defaults;          /* with `plain`: states are inputs as well, their values the inputs' defaults,
                             * and a node bears the name of its first output */
    int opset;              /* at least; 0: any */
    size_t most_bytes;      /* limit of the file; further weights go to a file beside it.  0: 2 GiB */
} ExportOptions;

/* Writes a model and, as its training_info, one training step.  Inputs, states and constants of the step that bear the
 * name of one in the model are that one.  The algorithm's outputs are those of the step; each next value must be one.
 */
Status onnx_export_training(const Graph *model, const Graph *step, const ExportOptions *opt, const char *path) CHECKED;
/* Writes a graph; the file appears whole or not at all (graph/base/outfile.h).  `opt` may be NULL. */
Status onnx_export_file(const Graph *g, const ExportOptions *opt, const char *path) CHECKED;
/* Writes the same bytes to a stream, which the caller checks and closes.  E_UNSUPPORTED when the model is larger than
 * opt->most_bytes: a stream has no place for a second file. */
Status onnx_export_stream(FILE *to, const Graph *g, const ExportOptions *opt) CHECKED;

#endif
