/* Reading and writing ONNX files.
 *
 * A file is hostile until shown otherwise: its bytes are scanned before they are unpacked (wire_scan.c), everything it
 * says is checked before it is used, and external data stays inside the model's folder (external.c).  docs/onnx.md
 * tells what is read, what is refused and why. */
#ifndef DPX_ONNX_H
#define DPX_ONNX_H

#include <stdio.h>

#include "graph/ir/op.h"

/* The opsets of the default domain whose operators' `import` functions are known to be right. */
enum { ONNX_OPSET_MIN = 1, ONNX_OPSET_MAX = 27 };

typedef struct {
    const char *key, *value;
} OnnxProp;

/* What a model declares of an output: not believed, but given back where nothing better is known. */
typedef struct {
    const char *name;
    DType dtype;
    Shape shape;
    const char *const *dim_param; /* as in Value */
    bool sequence;                /* of such: outputs NAME.0, NAME.1, ... of the graph */
    bool optional;                /* of what the rest says */
} OnnxOutput;

/* What a graph does not hold but an export wants to give back. */
typedef struct {
    int64_t ir_version, opset;       /* of the default domain: the newest that a node of the file is spelled in */
    const char *producer_name, *doc; /* NULL when absent */
    const OnnxProp *prop;            /* metadata_props, but for our own */
    int n_prop;
    const OnnxOutput *output;
    int n_output;
    const char *const *structured; /* inputs that are sequences or optional */
    int n_structured;
    const char *const *given; /* inputs that the options gave a value */
    int n_given;
    const char *const *call; /* of functions: what the names of their nodes begin with; callers first */
    int n_call;
    Graph *initial;        /* what gives tensors their first values (training_info), where training was read; or NULL */
    const OnnxProp *first; /* names of these tensors, and of the outputs of `initial` */
    int n_first;           /* 0: none */
    const char *not_initial; /* why there is no `initial` for them */
    Arena *arena;            /* of all else */
} OnnxModel;

void onnx_model_free(OnnxModel *m); /* NULL is legal */
/* What the file said of the graph's output of this name; NULL: nothing, or `m` is. */
const OnnxOutput *onnx_model_output(const OnnxModel *m, const char *name);

/* Computes a graph whose outputs follow from its inputs; `out` [part->n_output] in the arena.  E_UNSUPPORTED: its nodes
 * are computed one by one instead. */
typedef Status OnnxCompute(void *user, const Tensor **out, Arena *arena, const Graph *part,
                           const Tensor *const *in /* [part->n_input] */);

/* What an input or an output is declared to be: a tensor, a sequence of tensors, or an optional one of either. */
typedef struct {
    bool optional, sequence;
    DType dtype; /* of the tensors; DT_NONE: not said */
    Shape shape; /* of a tensor, as far as it is said */
} OnnxType;

/* How many tensors input `i` of the model has, without those that have a default, which is a sequence or optional;
 * ONNX_ABSENT: an optional that holds nothing; ONNX_UNSAID: nobody knows. */
typedef Status OnnxMembers(void *user, int *n, int i, const char *name, const OnnxType *type);
enum { ONNX_ABSENT = -1, ONNX_UNSAID = -2 };
enum { MAX_SEQUENCE = 4096 }; /* tensors */

/* The numbers that the input is to be, "16000" or "1,2,3"; NULL: it is an input. */
typedef const char *OnnxInputValue(void *user, const char *name);

typedef struct {
    Evaluator eval;          /* of what conditions and trip counts are computed from; NULL: only constants are known */
    MemoryBudget *budget;    /* which the graph holds; NULL: none */
    const OperatorList *own; /* the embedder's, which must outlive the graph; NULL: none */
    OnnxMembers *members;    /* of inputs that are no tensors; NULL: there must be none */
    void *members_user;
    OnnxInputValue *input_value; /* of the model's tensors; NULL: all are inputs */
    void *input_value_user;
    OnnxCompute *compute; /* of an evaluation: nodes that can wait until they are many; NULL: none do */
    void *compute_user;
    int64_t max_nodes; /* with functions inlined and loops unrolled; 0: ONNX_MAX_NODES */
    bool training;     /* with the algorithms of its training_info, whose updates are Value.next */
    bool initialize; /* the model's tensors have the first values that its training_info computes; so with `training` */
    uint64_t seed;   /* of what is drawn for these, and in an evaluation */
    bool file_modes; /* of an evaluation: operators that training changes are in the mode that the file says */
} ImportOptions;
enum { ONNX_MAX_NODES = 300000 };

/* A graph in the order of its nodes: initializers and Constant nodes are V_CONST, inputs have -1 for symbolic
 * dimensions (dim_param names them), operators are spelled as the IR does and normalised, shapes are not inferred.
 * `model` and `opt` may be NULL.  E_UNSUPPORTED lists all that is not supported.  onnx_import_memory reads no external
 * data. */
Status onnx_import_file(Graph **out, OnnxModel **model, const char *path, const ImportOptions *opt) CHECKED;
Status onnx_import_memory(Graph **out, OnnxModel **model, const void *data, size_t size, const char *name,
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
/* Input `i` of a model, without those that have a default, which is declared to be of that type. */
typedef Status OnnxInput(void *user, OnnxValue *out, Arena *arena, int i, const char *name, const OnnxType *type);

/* The model's outputs, in its order, for inputs that `input` gives: node by node as the file is read, so that control
 * flow, shapes and lengths of sequences may depend on any of it (evaluate.c).  Operators that training changes infer,
 * unless the options say otherwise.  What is made is in the arena, beside what the options' budget is charged with on
 * the way. */
Status onnx_evaluate_file(OnnxNamedValue **out, int *n_out, Arena *arena, const char *path, const ImportOptions *opt,
                          OnnxInput *input, void *user) CHECKED;

/* A file that holds one TensorProto.  E_UNSUPPORTED: of a type that tensors do not have. */
Status onnx_read_tensor(Tensor **out, Arena *arena, const char *path) CHECKED;
/* A file that holds a TensorProto, a SequenceProto or an OptionalProto, as the type says. */
Status onnx_read_value(OnnxValue *out, Arena *arena, const char *path, const OnnxType *type) CHECKED;

typedef struct {
    const OnnxModel *model; /* of the import; NULL: unknown */
    bool plain;             /* for inference elsewhere: no devices, no updates, no metadata of ours but what is
                             * trained; an operator that ONNX does not have is an error */
    bool defaults;          /* with `plain`: states are inputs as well, their values the inputs' defaults,
                             * and nodes are called like their first outputs */
    int opset;              /* at least; 0: any */
    size_t most_bytes;      /* of the file; weights beyond go to a file beside it.  0: 2 GiB */
} ExportOptions;

/* A model and, as its training_info, a step of its training: inputs, states and constants of the step are the model's
 * where they have the name of such.  Outputs of the step are the algorithm's; each next value must be one. */
Status onnx_export_training(const Graph *model, const Graph *step, const ExportOptions *opt, const char *path) CHECKED;
/* The file appears whole or not at all (graph/base/outfile.h).  `opt` may be NULL. */
Status onnx_export_file(const Graph *g, const ExportOptions *opt, const char *path) CHECKED;
/* Writes the same bytes to a stream, which the caller checks and closes.  E_UNSUPPORTED when the model is larger than
 * opt->most_bytes: a stream has no place for a second file. */
Status onnx_export_stream(FILE *to, const Graph *g, const ExportOptions *opt) CHECKED;

#endif
