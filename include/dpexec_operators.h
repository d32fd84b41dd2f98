/* The part of dpexec.h that declares operators of the embedder's own (docs/guide/own-operators.md).  Include
 * dpexec.h. */
#ifndef DPEXEC_OPERATORS_H
#define DPEXEC_OPERATORS_H

#if !defined(DPEXEC_H)
#error "include dpexec.h, of which this is a part"
#endif

/* ---- operators of the embedder's own ---- */

/* Errors: DPX_INVALID for a declaration that contradicts itself, or a value that a node does not have; DPX_SHAPE for
 * shapes that do not fit.
 * Threads: one thread at a time for a set.  Functions of a node: the thread that runs the operator's function, during
 * its call; those of several nodes run at the same time. */

/* A set of operators for dpx_options_set_operators, made before the models that use them, which keep references. */
typedef struct dpx_operators dpx_operators;
/* A node of such an operator, valid during a call of one of its functions. */
typedef struct dpx_node dpx_node;

/* A function of an operator.  `user` is dpx_operator.user.  A status other than DPX_OK becomes an error that names node
 * and operator, and gives the reason of dpx_node_fail. */
typedef dpx_status dpx_node_fn(void *user, dpx_node *node);

/* Numbered as in ONNX. */
typedef enum {
    DPX_ATTRIBUTE_FLOAT = 1,
    DPX_ATTRIBUTE_INT = 2,
    DPX_ATTRIBUTE_STRING = 3,
    DPX_ATTRIBUTE_FLOATS = 6,
    DPX_ATTRIBUTE_INTS = 7
} dpx_attribute_type;

/* A declared attribute with its default, or the value of a node's attribute. */
typedef struct {
    size_t size; /* sizeof(dpx_attribute) */
    const char *name;
    dpx_attribute_type type;
    int required; /* declarations: 1, without a default */
    int64_t i;
    double f;
    const char *s;
    int n; /* length of ints or floats; the default of a list is empty */
    const int64_t *ints;
    const double *floats;
} dpx_attribute;

/* CPU kernels of an operator in one type.  The threads of several devices call them at once, on different nodes. */
typedef struct {
    size_t size;           /* sizeof(dpx_kernels) */
    dpx_node_fn *apply;    /* computes outputs from inputs */
    dpx_node_fn *gradient; /* computes gradients by the inputs; NULL: models that need them are rejected */
    /* Exchange between the copies of a node on several replicas (as batch-norm exchanges statistics).  `collect`
     * computes a copy's message from its inputs, also on copies without samples.  `combine` computes from all messages
     * an answer for each copy, which its `apply` reads; it may read messages and attributes only, and runs once on each
     * device.  The gradient's pair works likewise on the values that it declares to read.  NULL: no exchange. */
    dpx_node_fn *collect, *combine, *gradient_collect, *gradient_combine;
} dpx_kernels;

enum {
    /* It has effects or sources besides its tensors: a node is never evaluated beforehand, merged with an equal one, or
     * dropped because nothing reads its outputs. */
    DPX_OPERATOR_IMPURE = 1,
    /* Each sample's outputs depend only on that sample, on inputs without samples and on exchanged answers, so it runs
     * on each replica's part.  Without the flag its inputs are gathered where a batch is split, and the run reports
     * that. */
    DPX_OPERATOR_PER_SAMPLE = 2,
    DPX_OPERATOR_ZERO_GRADIENT = 4 /* its gradient is zero wherever it exists */
};

/* An operator.  All that it points to is copied, except `user`. */
typedef struct {
    size_t size;               /* sizeof(dpx_operator) */
    const char *domain, *name; /* as in the models' nodes; a domain other than ONNX's and "dpexec" */
    int version;               /* opset version of the domain in exports; 0: 1 */
    int min_inputs, max_inputs, min_outputs, max_outputs; /* max -1: any number; those above min are optional */
    const dpx_attribute *attributes;
    int n_attributes;
    unsigned flags; /* DPX_OPERATOR_ */
    /* Per sample: the axis of samples, and bit masks of the inputs and outputs that have samples (bit 31: all from
     * there on; 0: all).  Outputs without samples are equal on every replica and pass no gradient on. */
    int sample_axis;
    uint32_t sample_inputs, sample_outputs;
    uint32_t parameter_inputs; /* bit i < 8: a constant of floats at input i is a parameter, which is trained */
    dpx_node_fn *shape;        /* sets type and shape of every present output (dpx_node_set_output) */
    const dpx_kernels *float32, *float64; /* by the type of the first floating input, else output; NULL: none */
    /* Bit masks of the values that the kernels' `gradient` reads (bit 31: all from there on).  Other values are not
     * passed to it, and need not be kept until then. */
    uint32_t gradient_inputs, gradient_outputs;
    void *user;
    void (*destroy)(void *user); /* called when the operator is no longer needed; NULL: not needed */
    /* Instead of the kernels' `gradient`: emits the gradient as nodes of the graph (dpx_graph_emit) when a node is
     * differentiated; `gradient_inputs` and `gradient_outputs` are then ignored.  NULL: none. */
    dpx_node_fn *make_gradient;
    /* State that the forward pass updates, such as running statistics.  Bit i < 8: a constant at input i is such a
     * state, not a parameter.  The outputs from `state_outputs` on are the states' next values, in order and of their
     * types and shapes; they are present in training steps.  Where a batch is split the state follows the first
     * replica, and the run warns. */
    uint32_t state_inputs;
    int state_outputs;
} dpx_operator;

/* Makes an empty set, to be freed. */
DPX_API dpx_status dpx_operators_create(dpx_operators **out) DPX_CHECKED;
/* Frees the set.  NULL is legal.  Models and trainers made with the set live on. */
DPX_API void dpx_operators_free(dpx_operators *operators);
/* DPX_INVALID: the set has such an operator, a member is invalid, or options hold the set already. */
DPX_API dpx_status dpx_operators_add(dpx_operators *operators, const dpx_operator *operator_) DPX_CHECKED;

/* Models loaded with these options (dpx_model_load_within) may use the operators of the set, which can no longer grow.
 * Several sets add up.  DPX_INVALID: two sets have an operator of the same name. */
DPX_API dpx_status dpx_options_set_operators(dpx_options *options, dpx_operators *operators) DPX_CHECKED;

/* The symbol that a shared library of operators exports, for programs that load it by file name:
 *     const dpx_library dpx_operator_library = { sizeof(dpx_library), DPX_LIBRARY_ABI, add }; */
enum { DPX_LIBRARY_ABI = 1 };
typedef struct {
    size_t size;                           /* sizeof(dpx_library) */
    int abi;                               /* DPX_LIBRARY_ABI */
    dpx_status (*add)(dpx_operators *set); /* adds its operators */
} dpx_library;
extern DPX_API const dpx_library dpx_operator_library; /* defined by that library, not by dpexec */

/* Access to a node from the operator's functions.  Inputs and outputs are counted from 0.  An attribute that the
 * operator does not declare gives 0 or NULL. */
DPX_API const char *dpx_node_name(const dpx_node *node);
/* The number of inputs, absent ones before the last included, and of outputs. */
DPX_API int dpx_node_count_inputs(const dpx_node *node);
DPX_API int dpx_node_count_outputs(const dpx_node *node);
/* Return 1 and set *out; 0: absent, or not declared as read by `gradient`.  Data of inputs are read-only, and NULL in
 * `shape` unless the value is a constant; `apply` must write all data of its outputs. */
DPX_API int dpx_node_input(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_output(const dpx_node *node, int i, dpx_tensor *out);
/* In `gradient`: the gradient of the loss by output i (0: it is zero), and by input i, to be written (0: unneeded). */
DPX_API int dpx_node_output_gradient(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_input_gradient(const dpx_node *node, int i, dpx_tensor *out);
/* Messages and answers are float64 vectors, whatever the kernels' type.  `collect` writes message 0.  `combine` reads
 * message i and writes answer i, for each copy i.  `apply`, `gradient` and `gradient_collect` read answer 0, this
 * copy's; `gradient` also reads dpx_node_gradient_answer.  Return 0 when there is none. */
DPX_API int dpx_node_count_messages(const dpx_node *node); /* number of copies */
DPX_API int dpx_node_message(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_answer(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_gradient_answer(const dpx_node *node, dpx_tensor *out);
DPX_API int64_t dpx_node_int(const dpx_node *node, const char *name);
DPX_API double dpx_node_float(const dpx_node *node, const char *name);
DPX_API const char *dpx_node_string(const dpx_node *node, const char *name);
DPX_API const int64_t *dpx_node_ints(const dpx_node *node, const char *name, int *n);
DPX_API const double *dpx_node_floats(const dpx_node *node, const char *name, int *n);
/* In `shape`: sets type and shape of output i. */
DPX_API dpx_status dpx_node_set_output(dpx_node *node, int i, dpx_dtype dtype, int rank,
                                       const int64_t *dim) DPX_CHECKED;
/* In `shape`, if copies exchange messages: the lengths of a message and of an answer, each at least 1. */
DPX_API dpx_status dpx_node_set_message(dpx_node *node, int64_t message, int64_t answer) DPX_CHECKED;
DPX_API dpx_status dpx_node_set_gradient_message(dpx_node *node, int64_t message, int64_t answer) DPX_CHECKED;
/* Records why the function fails, and returns `status`: return dpx_node_fail(node, DPX_SHAPE, "..."). */
DPX_API dpx_status dpx_node_fail(dpx_node *node, dpx_status status, const char *why);

/* For `make_gradient`, which emits the gradient for the whole batch, like the model's own nodes; dpexec adds replicas
 * and collectives.  The functions above give types, shapes and attributes, and which gradients are present or needed.
 * Failure is sticky: the functions below then do nothing, and differentiation fails with the first reason, whatever
 * make_gradient returns.  A dpx_value is valid during the call; 0: none. */
typedef uint32_t dpx_value;
/* An input or output, 0 where it is absent, and the gradient of the loss by an output, 0 where it is zero. */
DPX_API dpx_value dpx_graph_input(dpx_node *node, int i);
DPX_API dpx_value dpx_graph_output(dpx_node *node, int i);
DPX_API dpx_value dpx_graph_output_gradient(dpx_node *node, int i);
/* A constant, whose data are copied; a scalar, of the type of `like`. */
DPX_API dpx_value dpx_graph_constant(dpx_node *node, const dpx_tensor *tensor);
DPX_API dpx_value dpx_graph_number(dpx_node *node, dpx_value like, double number);
/* Returns 1, and the type and shape of a value in *out, without data; 0: there is no such value. */
DPX_API int dpx_graph_tensor(const dpx_node *node, dpx_value v, dpx_tensor *out);
/* Emits a node of an ONNX operator (domain "" or NULL, ...; spelled as in docs/reference/operators.md) or of an
 * operator of the set, and returns output 0, or the first `n_out`.  An absent input is 0 in `in`.  Not allowed:
 * operators that draw random numbers, that training changes, or whose shapes depend on data. */
DPX_API dpx_value dpx_graph_emit(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                                 const dpx_attribute *attributes, int n_attributes);
DPX_API dpx_status dpx_graph_emit_outputs(dpx_node *node, const char *domain, const char *name, const dpx_value *in,
                                          int n_in, const dpx_attribute *attributes, int n_attributes, dpx_value *out,
                                          int n_out) DPX_CHECKED;
/* Sets the gradient by input i, of its type and shape.  Unset gradients are zero; those not needed are dropped. */
DPX_API dpx_status dpx_graph_set_input_gradient(dpx_node *node, int i, dpx_value v) DPX_CHECKED;

#endif
