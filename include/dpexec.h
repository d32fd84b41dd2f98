/* dpexec: trains ONNX models on data-parallel replicas.
 *
 *     dpx_model *model = NULL;
 *     dpx_trainer *trainer = NULL;
 *     dpx_options *opt = dpx_options_create();
 *     if (dpx_model_load(&model, "model.onnx") || dpx_options_set(opt, "loss", "cross-entropy") ||
 *         dpx_options_set(opt, "devices", "cpu*2") || dpx_trainer_create(&trainer, model, opt, NULL, NULL))
 *         return complain(dpx_error());
 *     while (next_batch(batch))
 *         if (dpx_train_step(trainer, batch, 2, &result))
 *             return complain(dpx_error());
 *     if (dpx_trainer_export(trainer, "trained.onnx"))
 *         return complain(dpx_error());
 *
 * Every function that can fail returns a dpx_status; the message is dpx_error(), of the calling thread.  Nothing
 * prints, exits or keeps global state.  A handle is for one thread at a time, of the process that made it and not of a
 * fork. `const` pointers are lent for the call; what a function hands out through `**out` is freed with its _free.
 *
 * NULL is legal for a handle that is freed, left or aborted, and for an argument of which that is said.  Else a
 * function that returns a dpx_status answers DPX_INVALID, naming itself and the argument, and changes nothing; of the
 * others those that count or tell give 0, those that look up give NULL, and those that set do nothing. */
#ifndef DPEXEC_H
#define DPEXEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DPX_API __attribute__((visibility("default")))
#define DPX_CHECKED __attribute__((warn_unused_result))
#else
#define DPX_API
#define DPX_CHECKED
#endif

#define DPX_MAX_RANK 8

typedef enum {
    DPX_OK = 0,
    DPX_NOMEM = -1,
    DPX_INVALID = -2,     /* a wrong argument, option or batch */
    DPX_MODEL = -3,       /* a malformed model */
    DPX_UNSUPPORTED = -4, /* a model that needs what is not implemented; the message lists all of it */
    DPX_SHAPE = -5,
    DPX_DEVICE = -6,
    DPX_IO = -7,
    DPX_INTERNAL = -8,
    DPX_INTERRUPTED = -9
} dpx_status;

/* The one-line message of this thread's last failure; valid until the next. */
DPX_API const char *dpx_error(void);
DPX_API const char *dpx_version(void);

/* ---- tensors: dense, row-major, in host memory ---- */

/* Numbered as in ONNX. */
typedef enum {
    DPX_FLOAT32 = 1,
    DPX_UINT8 = 2,
    DPX_INT8 = 3,
    DPX_UINT16 = 4,
    DPX_INT16 = 5,
    DPX_INT32 = 6,
    DPX_INT64 = 7,
    DPX_STRING = 8, /* elements are `const dpx_text *`; of dpx_data alone, which dpx_interpret takes and gives */
    DPX_BOOL = 9,
    DPX_FLOAT16 = 10,
    DPX_FLOAT64 = 11,
    DPX_UINT32 = 12,
    DPX_UINT64 = 13,
    DPX_BFLOAT16 = 16,
    /* A byte for each element: of floats the bits, of integers the value.  Models convert from and to them. */
    DPX_FLOAT8E4M3FN = 17,
    DPX_FLOAT8E4M3FNUZ = 18,
    DPX_FLOAT8E5M2 = 19,
    DPX_FLOAT8E5M2FNUZ = 20,
    DPX_UINT4 = 21,
    DPX_INT4 = 22,
    DPX_FLOAT4E2M1 = 23,
    DPX_FLOAT8E8M0 = 24,
    DPX_UINT2 = 25,
    DPX_INT2 = 26
} dpx_dtype;

/* A string: UTF-8, in which bytes may be 0.  NULL instead of one: the empty string. */
typedef struct {
    size_t n; /* bytes */
    const char *bytes;
} dpx_text;

typedef struct {
    const char *name; /* of the graph input, output or state it is for; NULL in a batch: by its place there */
    dpx_dtype dtype;
    int rank;
    int64_t dim[DPX_MAX_RANK];
    void *data; /* lent; never written where a function takes `const dpx_tensor *` */
} dpx_tensor;

DPX_API size_t dpx_dtype_size(dpx_dtype dtype);      /* bytes; 0 for an unknown type */
DPX_API const char *dpx_dtype_name(dpx_dtype dtype); /* "float32" ... */
/* Views a DLPack tensor (`const DLTensor *` of dlpack/dlpack.h) without a copy: dense row-major CPU memory. */
DPX_API dpx_status dpx_tensor_from_dlpack(dpx_tensor *out, const char *name, const void *dl_tensor) DPX_CHECKED;

/* ---- models ---- */

typedef struct dpx_model dpx_model;

DPX_API dpx_status dpx_model_load(dpx_model **out, const char *path) DPX_CHECKED;
DPX_API void dpx_model_free(dpx_model *model); /* trainers made from it may live on */

typedef enum { DPX_INPUT, DPX_OUTPUT, DPX_STATE } dpx_kind;

typedef struct {
    const char *name; /* lives as long as the model or trainer it was asked of */
    dpx_dtype dtype;
    int rank;                           /* -1: not known; of a model's outputs as its file declares */
    int64_t dim[DPX_MAX_RANK];          /* -1: not known */
    const char *dim_name[DPX_MAX_RANK]; /* of symbolic dimensions, else NULL */
    int trainable;                      /* state: a parameter that the optimizer updates */
} dpx_info;

/* Is it a step, or part of one, that dpx_transform wrote?  That writes it again as it is; nothing trains or runs it. */
DPX_API int dpx_model_is_step(const dpx_model *model);
DPX_API int dpx_model_count(const dpx_model *model, dpx_kind kind);
DPX_API dpx_status dpx_model_info(const dpx_model *model, dpx_kind kind, int index, dpx_info *out) DPX_CHECKED;

/* ---- options: by the names that the command line uses, without the dashes ---- */

typedef struct dpx_options dpx_options;

DPX_API dpx_options *dpx_options_create(void); /* the defaults; NULL when out of memory */
DPX_API void dpx_options_free(dpx_options *options);
/* dpx_model_load that takes at most the memory that option "plan-memory" says, dpx_model_load half of what there is;
 * that knows the operators that the options were given; that puts the graphs of "preprocess" and "criterion" around the
 * model, whose inputs and outputs are those of all together; and that makes inputs constants which "input-value" gives.
 * A trainer of such a model is given the same options; dpx_trainer_export writes it without the graphs. */
DPX_API dpx_status dpx_model_load_within(dpx_model **out, const char *path, const dpx_options *options) DPX_CHECKED;
/* E.g. ("lr", "0.1"), ("nesterov", "true"), ("freeze", "backbone.*"), on GPUs ("tune", "true"), ("no-capture", "true");
 * what may be repeated is added. */
DPX_API dpx_status dpx_options_set(dpx_options *options, const char *name, const char *value) DPX_CHECKED;
/* Asked by dpx_model_load_within for every input of the model that is a sequence, optional, or both, where option
 * "input-members" does not say: how many tensors it has (of an optional tensor 1), which become inputs "NAME.0",
 * "NAME.1" ... of a sequence, and an input NAME of an optional tensor. */
enum { DPX_ABSENT = -1, DPX_UNSAID = -2 }; /* an optional that holds nothing; not known: the model is refused */
typedef int dpx_members_fn(void *user, const char *input, int sequence, int optional);
DPX_API void dpx_options_set_members(dpx_options *options, dpx_members_fn *members, void *user); /* NULL: nobody */
/* Weights of the classes for the cross-entropy and nll losses: a vector of floats, copied. */
DPX_API dpx_status dpx_options_set_class_weights(dpx_options *options, const dpx_tensor *weights) DPX_CHECKED;
/* The shape of the batches' targets, where it is known before the first batch; data is not looked at.  The class losses
 * find by it which axis of the logits counts the classes, unless "class-axis" says so: the axis k >= 1 without which
 * the logits have the target's shape. Else axis 1 is assumed until the first batch decides; a checkpoint keeps that. */
DPX_API dpx_status dpx_options_set_target_shape(dpx_options *options, const dpx_tensor *target) DPX_CHECKED;

/* What another value of an option means to a run that goes on from a checkpoint. */
typedef enum {
    DPX_RESUME_FIXED,     /* another run */
    DPX_RESUME_TOLD,      /* another result, which may be wanted: it is to be said */
    DPX_RESUME_FREE,      /* nothing that is computed */
    DPX_RESUME_ELSEWHERE, /* the text does not say: what is made of it has to be compared */
    DPX_RESUME_BITS       /* the same but for rounding: other last bits, which is to be said */
} dpx_on_resume;

typedef struct {
    const char *name, *metavar; /* metavar NULL: a flag that takes no value */
    const char *fallback;       /* the default as text; "" when there is none */
    const char *help;
    int repeats;
    int trains; /* only training reads it */
    dpx_on_resume on_resume;
    int derived; /* the command line sets it itself, and takes no such flag */
} dpx_option_info;

/* What an option chooses among, such as "loss", and flags that belong to what is chosen. */
typedef struct {
    const char *name, *form; /* "step", "step:EVERY[:GAMMA]" */
    const char *help;
    const char *needs; /* the option without which it cannot be; NULL: none */
} dpx_choice_info;

DPX_API dpx_choice_info dpx_choice_at(const char *option, int index); /* all NULL where there is none */
/* The default of the option `flag` where `choice` of `option` has it ("" when there is none), else NULL:
 * ("optimizer", "lion", "beta2") is "0.99". */
DPX_API const char *dpx_choice_default(const char *option, const char *choice, const char *flag);
/* What the options' loss compares the scores with.  "cross-entropy" also takes probabilities of the logits' shape. */
typedef enum { DPX_TARGET_NONE, DPX_TARGET_CLASSES, DPX_TARGET_VALUES } dpx_target_kind;
DPX_API dpx_target_kind dpx_target(const dpx_options *options);

DPX_API int dpx_option_count(void);
DPX_API dpx_option_info dpx_option_at(int index); /* all zero and NULL where there is none */
/* The value in force as text ("" when unset); lists are joined by ";".  Valid until the next set.  NULL: none such. */
DPX_API const char *dpx_options_get(const dpx_options *options, const char *name);
/* The axis along which a batch has its samples in an input of the model, or in the target that the options' loss adds:
 * as "batch-input" says it, else as the names of the model's dimensions do; 0 where nothing tells. */
DPX_API int dpx_batch_axis(const dpx_model *model, const dpx_options *options, const char *name);
/* What an input has of a batch: samples; all of itself (a table); either, as dpx_options_set_role says, else all; all,
 * and it tells samples apart (an adjacency).  UNKNOWN: nothing tells; UNSAID: and axis 0 is fixed, another open. */
enum { DPX_ROLE_UNKNOWN, DPX_ROLE_UNSAID, DPX_ROLE_SAMPLES, DPX_ROLE_WHOLE, DPX_ROLE_EITHER, DPX_ROLE_ORDERED };
DPX_API int dpx_batch_role(const dpx_model *model, const dpx_options *options, const char *input);
DPX_API dpx_status dpx_options_set_role(dpx_options *options, const char *input, int role) DPX_CHECKED;
/* 1: replicas share such a tensor along that axis, and dpx_train_part has a part of it; 0: every process has all. */
DPX_API int dpx_batch_splits(const dpx_model *model, const dpx_options *options, const char *name);

/* ---- operators of the embedder's own (docs/own-operators.md) ---- */

/* A set of operators, made before the models that use them and handed to dpx_options_set_operators.  Models, trainers
 * and options keep what they need of it. */
typedef struct dpx_operators dpx_operators;
/* A node of such an operator, as long as one of its functions is called with it. */
typedef struct dpx_node dpx_node;

/* What an operator's functions are.  `user` is dpx_operator.user.  A status other than DPX_OK becomes an error that
 * names node and operator, with what dpx_node_fail was told. */
typedef dpx_status dpx_node_fn(void *user, dpx_node *node);

/* Numbered as in ONNX. */
typedef enum {
    DPX_ATTRIBUTE_FLOAT = 1,
    DPX_ATTRIBUTE_INT = 2,
    DPX_ATTRIBUTE_STRING = 3,
    DPX_ATTRIBUTE_FLOATS = 6,
    DPX_ATTRIBUTE_INTS = 7
} dpx_attribute_type;

/* A declared attribute with its default, or a value that a node is given. */
typedef struct {
    size_t size; /* sizeof(dpx_attribute) */
    const char *name;
    dpx_attribute_type type;
    int required; /* of a declaration: it has no default */
    int64_t i;
    double f;
    const char *s;
    int n; /* of ints or floats; the default of a list is empty */
    const int64_t *ints;
    const double *floats;
} dpx_attribute;

/* What computes an operator in one type, on a CPU.  The devices of a
 * process call one at the same time, on nodes of their own. */
typedef struct {
    size_t size;           /* sizeof(dpx_kernels) */
    dpx_node_fn *apply;    /* outputs from inputs */
    dpx_node_fn *gradient; /* gradients by the inputs; NULL: there are none, and a model that needs them is refused */
    /* What the copies of a node on several replicas share, as batch-norm does its statistics: `collect` makes a copy's
     * message from its inputs, `combine` from the messages of all copies an answer to each, which `apply` then has.
     * The gradient likewise, from what it declares that it reads.  Copies without samples send messages too.
     * `combine` depends on the messages and the attributes alone: it runs once for a device.  NULL: none is. */
    dpx_node_fn *collect, *combine, *gradient_collect, *gradient_combine;
} dpx_kernels;

enum {
    /* Does or reads more than its tensors say: such a node is not evaluated beforehand, two alike are not made one,
     * and one whose outputs nobody reads is computed all the same. */
    DPX_OPERATOR_IMPURE = 1,
    /* Each sample's outputs depend on that sample alone, on inputs that carry no samples and on what copies share: it
     * runs on each replica's part.  Without it the operator mixes samples: where a batch is split, its inputs are put
     * together first, which the run says. */
    DPX_OPERATOR_PER_SAMPLE = 2,
    DPX_OPERATOR_ZERO_GRADIENT = 4 /* its gradient is zero wherever it exists */
};

/* An operator.  What is pointed to is copied, but for `user`. */
typedef struct {
    size_t size;               /* sizeof(dpx_operator) */
    const char *domain, *name; /* as nodes of models say; the domain is neither ONNX's nor "dpexec" */
    int version;               /* of the domain's operators, for exports; 0: 1 */
    int min_inputs, max_inputs, min_outputs, max_outputs; /* max -1: any number; between them optional ones */
    const dpx_attribute *attributes;
    int n_attributes;
    unsigned flags; /* DPX_OPERATOR_ */
    /* Per sample: the axis along which inputs and outputs carry samples, and which do, by bits (bit 31: all from there
     * on); 0: all.  Outputs that carry none are the same on every replica, and no gradient comes through them. */
    int sample_axis;
    uint32_t sample_inputs, sample_outputs;
    uint32_t parameter_inputs; /* bit i < 8: a constant of floats there is a parameter, which is trained */
    dpx_node_fn *shape;        /* gives every output that is there its type and shape (dpx_node_set_output) */
    const dpx_kernels *float32, *float64; /* by the type of the first floating input, else output; NULL: none */
    /* Which values the kernels' `gradient` reads, by bits (bit 31: all from there on); of the others it is given
     * nothing, and they need not be kept until then. */
    uint32_t gradient_inputs, gradient_outputs;
    void *user;
    void (*destroy)(void *user); /* when nobody needs the operator any more; NULL: nothing is to be done */
    /* Instead of the kernels' `gradient`: writes the gradient as nodes of the graph (dpx_graph_emit), when a node is
     * differentiated; `gradient_inputs` and `gradient_outputs` then mean nothing.  NULL: there is none. */
    dpx_node_fn *make_gradient;
    /* State that the forward pass writes, as running statistics are: bit i < 8: a constant at input i is such, and no
     * parameter; what these become are the outputs from `state_outputs` on, in their order, of their types and shapes.
     * They are there in steps that train.  Where a batch is split state follows the first replica, which the run
     * warns of. */
    uint32_t state_inputs;
    int state_outputs;
} dpx_operator;

DPX_API dpx_status dpx_operators_create(dpx_operators **out) DPX_CHECKED;
/* NULL is legal.  What was made from the set lives on. */
DPX_API void dpx_operators_free(dpx_operators *operators);
/* DPX_INVALID: there is such an operator, a member makes no sense, or the set has been given to options. */
DPX_API dpx_status dpx_operators_add(dpx_operators *operators, const dpx_operator *operator_) DPX_CHECKED;

/* Models that are loaded with these options (dpx_model_load_within) may use the operators of the set, to which nothing
 * can be added from now on.  Several sets add up; DPX_INVALID: two have an operator of one name. */
DPX_API dpx_status dpx_options_set_operators(dpx_options *options, dpx_operators *operators) DPX_CHECKED;

/* A shared library of operators, for programs that are given its file: what it exports under the name
 * dpx_operator_library, as `const dpx_library dpx_operator_library = { sizeof(dpx_library), DPX_LIBRARY_ABI, add };`.
 */
enum { DPX_LIBRARY_ABI = 1 };
typedef struct {
    size_t size;                           /* sizeof(dpx_library) */
    int abi;                               /* DPX_LIBRARY_ABI */
    dpx_status (*add)(dpx_operators *set); /* adds its operators */
} dpx_library;
extern DPX_API const dpx_library dpx_operator_library; /* the library's, not this one's */

/* What a function may ask of its node, and tell it.  Inputs and outputs are counted from 0; names of attributes are
 * those that the operator declares (else 0, NULL). */
DPX_API const char *dpx_node_name(const dpx_node *node);
DPX_API int dpx_node_count_inputs(const dpx_node *node); /* absent ones in between count */
DPX_API int dpx_node_count_outputs(const dpx_node *node);
/* 1, and what it is; 0: it is absent, or `gradient` does not read it.  The data are read only; NULL: they are not known
 * (in `shape`, of what is no constant). */
DPX_API int dpx_node_input(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_output(const dpx_node *node, int i, dpx_tensor *out); /* in `apply` to be written, all of it */
/* In `gradient`: of the loss by output i, 0: it is zero; and by input i, to be written, 0: nobody needs it. */
DPX_API int dpx_node_output_gradient(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_input_gradient(const dpx_node *node, int i, dpx_tensor *out);
/* What copies share, float64 [numbers], whatever the type.  In the kernels that collect: message 0, to be written; in
 * those that combine: that of copy i, and the answer to copy i, to be written; in `apply`, `gradient` and
 * `gradient_collect` answer 0, to this copy; in `gradient` that to its own message as well.  0: there is none. */
DPX_API int dpx_node_count_messages(const dpx_node *node); /* of as many copies */
DPX_API int dpx_node_message(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_answer(const dpx_node *node, int i, dpx_tensor *out);
DPX_API int dpx_node_gradient_answer(const dpx_node *node, dpx_tensor *out);
DPX_API int64_t dpx_node_int(const dpx_node *node, const char *name);
DPX_API double dpx_node_float(const dpx_node *node, const char *name);
DPX_API const char *dpx_node_string(const dpx_node *node, const char *name);
DPX_API const int64_t *dpx_node_ints(const dpx_node *node, const char *name, int *n);
DPX_API const double *dpx_node_floats(const dpx_node *node, const char *name, int *n);
/* In `shape`. */
DPX_API dpx_status dpx_node_set_output(dpx_node *node, int i, dpx_dtype dtype, int rank,
                                       const int64_t *dim) DPX_CHECKED;
/* In `shape`, where copies share: how many numbers each message has and each answer, at least 1. */
DPX_API dpx_status dpx_node_set_message(dpx_node *node, int64_t message, int64_t answer) DPX_CHECKED;
DPX_API dpx_status dpx_node_set_gradient_message(dpx_node *node, int64_t message, int64_t answer) DPX_CHECKED;
/* Notes why the function fails, and returns `status`: return dpx_node_fail(node, DPX_SHAPE, "..."). */
DPX_API dpx_status dpx_node_fail(dpx_node *node, dpx_status status, const char *why);

/* In `make_gradient`, which writes the gradient of the whole batch, as a model's nodes are of it: replicas and
 * collectives follow from it.  The functions above tell types, shapes and attributes there, and which gradients are
 * there or needed.  What fails sticks: the functions below then do nothing more, and differentiating fails with the
 * first reason, whatever make_gradient returns.  A value is the node's, for that call; 0: none. */
typedef uint32_t dpx_value;
DPX_API dpx_value dpx_graph_input(dpx_node *node, int i); /* 0: it is absent */
DPX_API dpx_value dpx_graph_output(dpx_node *node, int i);
DPX_API dpx_value dpx_graph_output_gradient(dpx_node *node, int i); /* of the loss by output i; 0: it is zero */
DPX_API dpx_value dpx_graph_constant(dpx_node *node, const dpx_tensor *tensor);    /* its data are copied */
DPX_API dpx_value dpx_graph_number(dpx_node *node, dpx_value like, double number); /* rank 0, of the type of `like` */
DPX_API int dpx_graph_tensor(const dpx_node *node, dpx_value v, dpx_tensor *out);  /* 1, and its type and shape */
/* A node of an operator of ONNX (domain "" or NULL, ...), in the spelling of docs/operators.md, or of the set, and its
 * output 0, or its first `n_out`.  Of `in` 0 is an input that is absent.  Not those that draw random numbers, that
 * training changes, or whose shapes depend on data. */
DPX_API dpx_value dpx_graph_emit(dpx_node *node, const char *domain, const char *name, const dpx_value *in, int n_in,
                                 const dpx_attribute *attributes, int n_attributes);
DPX_API dpx_status dpx_graph_emit_outputs(dpx_node *node, const char *domain, const char *name, const dpx_value *in,
                                          int n_in, const dpx_attribute *attributes, int n_attributes, dpx_value *out,
                                          int n_out) DPX_CHECKED;
/* By input i, of its type and shape; what is not set is zero, and what nobody needs is dropped. */
DPX_API dpx_status dpx_graph_set_input_gradient(dpx_node *node, int i, dpx_value v) DPX_CHECKED;

/* ---- several processes ---- */

/* The processes that train one model together.  Each drives as many devices, of one kind; replicas are counted over all
 * of them, and every process is given the same model and options, and of each batch its own part (dpx_train_part) or
 * all of it (dpx_train_step), all the same batch.  When one fails, the others' calls fail with its rank and reason. */
typedef struct dpx_world dpx_world;
enum { DPX_LOG_INFO, DPX_LOG_WARNING };
typedef void dpx_log_fn(void *user, int level, const char *line);

typedef struct {
    int size, rank;         /* processes; which this is, 0 to size - 1 */
    const char *rendezvous; /* "HOST:PORT": where rank 0 listens and the others meet it; not needed for size 1.  Or
                               "fd=3,4,5,6": two connected stream sockets for every other rank, in the order of ranks,
                               which are the world's from then on */
    double timeout;         /* seconds to wait for others, when joining and later; 0: 300 */
    const char *secret;     /* a file of 16 to 4096 bytes that its owner alone may read and all processes have, by which
                               they recognise each other; "none": whoever comes is believed; NULL: so on a rendezvous
                               that only this machine reaches, and an error on any other */
    const char *mpi;        /* "openmpi", "mpich": the processes are MPI's (mpirun), and that library knows their number
                               and ranks.  `size` is then how many were started, to be checked, or 0; `rank` and
                               `rendezvous` are passed over.  NULL: not over MPI */
    const void *mpi_comm;   /* with `mpi`: points to an MPI_Comm of an MPI that the caller has initialized, with
                               MPI_THREAD_MULTIPLE, or MPI_THREAD_SERIALIZED if no other thread calls MPI while a
                               function of this library runs; it is duplicated, and MPI_Finalize stays with the caller.
                               NULL: MPI_COMM_WORLD; where MPI is not initialized it begins here, and ends when the
                               world is left */
    dpx_log_fn *log;        /* told who has not come after 10 seconds, and again; may be NULL */
    void *log_user;
} dpx_world_options;

/* Returns once all processes are connected.  What they send each other later is neither encrypted nor authenticated. */
DPX_API dpx_status dpx_world_join(dpx_world **out, const dpx_world_options *options) DPX_CHECKED;
DPX_API int dpx_world_size(const dpx_world *world); /* NULL: 1 */
DPX_API int dpx_world_rank(const dpx_world *world); /* NULL: 0 */
/* After the trainers that use it have been freed.  NULL is legal.  Over MPI it waits until all processes leave, or one
 * of them fails; after a failure MPI keeps what it has of the world, and must not be finalized: see dpx_world_end. */
DPX_API void dpx_world_leave(dpx_world *world);
/* For programs whose process ends with a failed world: over MPI gives the other processes some seconds to say why they
 * fail, then ends all, this one too, with this exit status (MPI_Abort).  Otherwise nothing.  NULL is legal. */
DPX_API void dpx_world_end(dpx_world *world, int status);
/* Tells the others why this process cannot go on.  Steps that fail do so themselves.  NULL is legal. */
DPX_API void dpx_world_abort(dpx_world *world, const char *reason);
/* Notes: what must be alike besides model and options.  Compared by dpx_world_agree and by the next trainer. */
DPX_API dpx_status dpx_world_note(dpx_world *world, const char *name, const char *value) DPX_CHECKED;
DPX_API dpx_status dpx_world_agree(dpx_world *world) DPX_CHECKED;
/* Every process calls them: the largest `mine`, for decisions that all must make alike; their sum, modulo 2^64. */
DPX_API dpx_status dpx_world_max(dpx_world *world, int64_t mine, int64_t *out) DPX_CHECKED;
DPX_API dpx_status dpx_world_sum(dpx_world *world, int64_t mine, int64_t *out) DPX_CHECKED;
DPX_API void dpx_world_set_purpose(dpx_world *world, const char *what); /* of those to come, for who waits in vain */
/* Trainers that are created with these options train in the world, which must outlive them; NULL: it alone. */
DPX_API void dpx_options_set_world(dpx_options *options, dpx_world *world);

/* ---- devices ---- */

typedef struct {
    char name[32]; /* "cpu:0", "cuda:0" */
    char description[96];
    int cores;       /* that a team may use; a GPU's multiprocessors */
    uint64_t memory; /* bytes */
    int capability;  /* of a GPU: 90 is compute capability 9.0; else 0 */
    int driver;      /* of a GPU: 13000 is a driver for CUDA 13.0; else 0 */
} dpx_device;

/* Fills at most `max` entries, the CPU first, and sets `n` to how many devices there are.  When no GPU can be used that
 * is not DPX_OK and dpx_error() says why (no plug-in, no driver, none there); the CPU is listed all the same. */
DPX_API dpx_status dpx_devices(dpx_device *out, int max, int *n) DPX_CHECKED;

/* ---- transformation ---- */

/* Receives a text, in one piece or several. */
typedef void dpx_write_fn(void *user, const char *text, size_t bytes);

/* The graph of training after the pass `until` (NULL: all), in a format "txt", "onnx", "json", "dot", "svg", "html". */
DPX_API dpx_status dpx_transform(const dpx_model *model, const dpx_options *options, const char *until,
                                 const char *format, dpx_write_fn *write, void *user) DPX_CHECKED;

/* What the options' devices and the links between them can do, measured now, which takes a second or so: a description
 * of a cluster (docs/simulate.md), as JSON.  All processes of the options' world call it, and get the same. */
DPX_API dpx_status dpx_measure(const dpx_options *options, dpx_write_fn *write, void *user) DPX_CHECKED;

/* What a run with these options would execute: the training step, or inference without a loss.  For each device its
 * nodes in order with kernel, place in memory, stream and events, and what needs how much memory; nothing runs and
 * nothing is allocated on a device, which may be one that is only described ("cuda:0@h100.json").  DPX_NOMEM when a
 * step does not fit; the text is written all the same.  `log` may be NULL. */
DPX_API dpx_status dpx_plan(const dpx_model *model, const dpx_options *options, dpx_write_fn *write, void *user,
                            dpx_log_fn *log, void *log_user) DPX_CHECKED;

/* ---- golden data ---- */

typedef enum {
    DPX_CHECK_PASSED,
    DPX_CHECK_FAILED,     /* an output differs, or an error that does not say that something is unsupported */
    DPX_CHECK_UNSUPPORTED /* something in the model or its data is */
} dpx_check_outcome;

typedef struct {
    dpx_check_outcome outcome;
    int planned;     /* 1: every data set ran as a program; 0: one was interpreted, or did not run */
    char text[1024]; /* the first output that differs, or the error; "" when it passed */
} dpx_check_result;

/* Compares what a model computes with what it is known to compute, in the layout of ONNX's own tests: `folder` has
 * model.onnx and test_data_set_0, test_data_set_1 ..., each with a TensorProto, SequenceProto or OptionalProto for
 * every input and output of the model, in its order: input_0.pb ..., output_0.pb ...  Types and shapes must be equal,
 * and integers; of other numbers |found - expected| <= 1e-7 + 1e-3 |expected|, or with the "atol" and "rtol" of
 * data.json in the folder.  The model runs as for dpx_run, with the devices and precision of `options`; with
 * `interpreter` not 0 node by node by the reference kernels.  An error only when the folder cannot be read as such;
 * what the model lacks is in `out`. */
DPX_API dpx_status dpx_check(const char *folder, const dpx_options *options, int interpreter,
                             dpx_check_result *out) DPX_CHECKED;

/* ---- training ---- */

typedef struct dpx_trainer dpx_trainer;

/* What a step tells of a model whose "loss" is "outputs": the total, named "loss", and each output's mean over the
 * batch, of outputs NAME.0, NAME.1 ... the sum as NAME; of one that is itself named "loss" as "loss.0". */
typedef struct {
    const char *name; /* as long as the trainer lives */
    double value;     /* sum / dpx_result.loss_weight */
    double sum;       /* adds up over batches */
} dpx_log_value;

typedef struct {
    int64_t step;    /* optimizer steps done, this one included; skipped ones count */
    int64_t samples; /* of this call's batch; of the whole group when an accumulated one was applied, as the sums */
    double loss;     /* loss_sum / loss_weight; with "loss-weight" "sum" loss_sum */
    double loss_sum, loss_weight;     /* add up over batches exactly; a loss that is a sum has weight 0 */
    double metric_sum, metric_weight; /* of the metric alike; 0, 0 without one, or of one that counts a table */
    int64_t correct, counted;         /* the same of a metric that counts, as accuracy does */
    double lr;                        /* that this step used */
    double grad_norm;                 /* before clipping; NaN when it is not computed */
    int updated;       /* 0: a micro-batch was accumulated, the parameters did not change yet: no loss (NaN) */
    double loss_scale; /* dynamic: that this step used, with "turns" the least of the players'; else NaN */
    int skipped;       /* 1: a gradient was not finite: nothing changed but a dynamic loss_scale, which falls; with
                        * "turns" so for one player at least, and for it alone (dpx_trainer_group_skipped) */
    /* Predictions, of evaluation: all outputs of the model that are no losses, whole and in the order of the batch, or
     * with "output-device" each in the parts of the replicas, as dpx_run gives them.
     * The trainer's, valid until its next call; elsewhere NULL, 0. */
    const dpx_tensor *outputs;
    int n_outputs;
    const dpx_log_value *log; /* NULL, 0 where nothing is told; else lent until the next step's result is taken */
    int n_log;
} dpx_result;

/* The learning rate of step `step`, as dpx_result counts them, of the k-th "group" that was set, counted from 1; 0: of
 * the parameters of none, which is dpx_result.lr; NaN: there is no such group. */
DPX_API double dpx_trainer_group_lr(const dpx_trainer *trainer, int group, int64_t step);
/* The norm of the gradients of the k-th "group", counted from 1, before clipping, of the step whose result was taken
 * last; 0: dpx_result.grad_norm; NaN: no norm of its own or, with "turns", of its player's; or there is no group. */
DPX_API double dpx_trainer_group_norm(const dpx_trainer *trainer, int group);
/* Of that step and group likewise: the dynamic scale that its loss had, NaN where there is none; and whether its
 * parameters stayed as they were because a gradient was not finite.  Without "turns" those of all, as in dpx_result. */
DPX_API double dpx_trainer_group_scale(const dpx_trainer *trainer, int group);
DPX_API int dpx_trainer_group_skipped(const dpx_trainer *trainer, int group);

typedef void dpx_progress_fn(void *user, const dpx_result *result);

/* `log` receives what is found and decided (what was split, what has no gradient ...); NULL: nobody. */
DPX_API dpx_status dpx_trainer_create(dpx_trainer **out, const dpx_model *model, const dpx_options *options,
                                      dpx_log_fn *log, void *user) DPX_CHECKED;
DPX_API void dpx_trainer_free(dpx_trainer *trainer);
/* Into how many parts every batch is cut: "replicas", else as many as there are devices in all processes. */
DPX_API int dpx_trainer_replicas(const dpx_trainer *trainer);
/* The value in force as text, as dpx_options_get has it; of "split", when it is "auto" or weights, the weight of each
 * replica: a run that goes on elsewhere with this text has the same parts; of "links" what was read.  NULL: none. */
DPX_API const char *dpx_trainer_option(const dpx_trainer *trainer, const char *name);
/* Told once of every copy of a node that replication makes, so that copies may share something.  `node` is a name of
 * the model as it was loaded: of a node, or of a call of an ONNX function, by which the names of its nodes begin
 * ("encoder" of "encoder/add").  `copy` is the number of the replica in the whole world.  `context` is the node's, one
 * for all copies in this process: *context is NULL at first, and what is put there is handed to `release` (NULL: to
 * nobody) when the trainer is freed.  A status other than DPX_OK ends the calls. */
typedef dpx_status dpx_replicate_fn(void *user, const char *node, int copy, void **context);
/* dpx_trainer_on_replicate at the end of each dpx_trainer_create with these options, which fails if a callback does. */
DPX_API dpx_status dpx_options_on_replicate(dpx_options *options, const char *pattern, dpx_replicate_fn *replicate,
                                            void (*release)(void *context), void *user) DPX_CHECKED;
/* Calls `replicate` before it returns, in this thread: for all nodes of the lowest copy of this process, in the order
 * of the model, calls in front of what is in them; then for those of the next copy.  Nodes are those of the operators
 * that the program brought (dpx_options_set_operators), and those whose names match `pattern`, as in a shell (NULL:
 * none); nodes of one name count as one.  With one replica there are no copies, and nothing is called; else all are
 * told of, those without samples too.  Once a trainer, before its first step; else DPX_INVALID.  Failures name both. */
DPX_API dpx_status dpx_trainer_on_replicate(dpx_trainer *trainer, const char *pattern, dpx_replicate_fn *replicate,
                                            void (*release)(void *context), void *user) DPX_CHECKED;
/* The context of that node; NULL: it has none.  Kernels have the name from dpx_node_name, those of gradients
 * as "gradient of NAME"; they run at the same time, so they only read it, or lock it themselves. */
DPX_API void *dpx_trainer_context(const dpx_trainer *trainer, const char *node);

/* Called after every train step, in the calling thread; NULL: none. */
DPX_API void dpx_trainer_on_step(dpx_trainer *trainer, dpx_progress_fn *progress, void *user);

/* Times every node of the steps that follow, the first `events` of them; 0: no more.  Replaces what was timed before.
 * In a world of GPUs all processes time the same steps, or none. */
DPX_API dpx_status dpx_trainer_trace(dpx_trainer *trainer, uint32_t events) DPX_CHECKED;
/* Writes what was timed in Chrome's trace format (chrome://tracing, Perfetto): a row per device. */
DPX_API dpx_status dpx_trainer_write_trace(const dpx_trainer *trainer, const char *path) DPX_CHECKED;

/* One batch: all inputs of the model and the target, by name, in any order; dpx_run needs no target, but may be handed
 * one.  A name that is neither, or that is given twice, is DPX_INVALID.  Tensors whose names are all NULL are the
 * inputs in the order of the graph, then the target; some with and some without are DPX_INVALID.  The buffers are read
 * in place, each with its samples where the model has them (dpx_batch_axis).
 *
 * train_step updates the parameters (with "accumulate" K: at every K-th call).  val_step and test_step never change
 * state and use running statistics; they give predictions, and need no targets, nor inputs that only losses of the
 * model's own, or outputs that are single numbers, need: without them, or without a loss, the loss is NaN, the metric
 * is not measured, and such outputs are not given.  In a world all processes give the same tensors. */
DPX_API dpx_status dpx_train_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_val_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_test_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
/* The metric over all batches that val_step, test_step, val_part and test_part measured since the trainer was created
 * or restart_metric was last called: what one batch of all samples would give.  Counts are whole numbers. */
typedef struct {
    int measured;     /* 0: there is no metric, or nothing counted; then value is NaN and table.data NULL */
    double value;     /* of a table NaN */
    dpx_tensor table; /* of confusion-matrix: int64 [classes, classes], row: target, column: prediction; else data is
                         NULL.  The trainer's, valid until its next call */
    const dpx_log_value *log; /* the same of log variables, with a metric or without; lent as the table is */
    int n_log;
    double loss;     /* likewise over all of these batches; NaN: none had targets */
    int64_t samples; /* that they had */
} dpx_metric;
DPX_API dpx_status dpx_trainer_metric(const dpx_trainer *t, dpx_metric *out) DPX_CHECKED;
DPX_API void dpx_trainer_restart_metric(dpx_trainer *t);
/* The same of the batches of training steps whose results were taken, each measured by its step: by parameters before
 * the update, and as training computes (batch statistics, dropout).  Log variables are not among it.  With a metric,
 * checkpoints keep it, and who resumes with the same one goes on with it. */
DPX_API dpx_status dpx_trainer_train_metric(const dpx_trainer *t, dpx_metric *out) DPX_CHECKED;
DPX_API void dpx_trainer_restart_train_metric(dpx_trainer *t);
/* The part of a batch of `samples` that this process's replicas take: samples [from, to) of it, counted from 0, along
 * the batch's axis of every tensor that is split (dpx_batch_splits); from == to when it has none.  The parts of all
 * processes, by rank, follow one another and make up the batch; a process alone has all of it.  They depend on
 * "replicas", "split" and the devices, never on a step: ask once for every size of batch.  No other process is waited
 * for.  DPX_INVALID: `samples` is negative. */
typedef struct {
    int64_t from, to;
} dpx_part;
DPX_API dpx_status dpx_trainer_part(const dpx_trainer *t, int64_t samples, dpx_part *out) DPX_CHECKED;

/* With "pad-to" replica: how long the samples, [n] of the whole batch, of the next step are along an axis of tensor
 * `name`; what is behind is not read.  A replica computes what it has to its longest, at least two (an axis of one is
 * another formula to many models), in multiples.  For each tensor that has sequences; those that the step does not take
 * are passed over.  Outputs have zeros there.  DPX_INVALID, also from the step: what does not fit the batch. */
DPX_API dpx_status dpx_trainer_lengths(dpx_trainer *t, const char *name, int axis, int64_t multiple,
                                       const int64_t *length, int64_t n) DPX_CHECKED;
/* Of those tensors in all steps so far: positions that there are, and those that were computed. */
DPX_API void dpx_trainer_padding(const dpx_trainer *t, int64_t *positions, int64_t *computed);

/* The steps by parts, for callers that load in every process only what it needs:
 *
 *     dpx_part own;
 *     if (dpx_trainer_part(t, 256, &own) || load(x, y, at + own.from, at + own.to) ||
 *         dpx_train_part(t, 256, (dpx_tensor[]){ x, y }, 2, &result)) ...
 *
 * `samples` is the whole batch's, the same in all processes; a tensor that is split has to - from samples along its
 * batch's axis (none: its data may be NULL), any other is whole.  All processes call it for every batch, also with an
 * empty part, and all get the results of the whole batch, the same bytes as from dpx_train_step with all of it.
 * DPX_SHAPE: a tensor that has another number of samples; DPX_INVALID: one that is given in parts and that the step
 * reads otherwise ("batch-input" says where the batch is); DPX_UNSUPPORTED: shapes that depend on data. A bad index or
 * label is looked for in this process's part, and told by its place in the whole. */
DPX_API dpx_status dpx_train_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                  dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_val_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_test_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                 dpx_result *out) DPX_CHECKED;

/* What a batch becomes before a step, such as images that are scaled, or changed at random where `training` is 1 (train
 * steps; else 0).  It is called for each replica of this process in turn, by the thread that asks for the step, with
 * that replica's samples of the batch's tensors, and all of those that replicas do not share; also when it has none. It
 * may write to `part` other types, shapes and data, of as many samples, alike for all replicas but for those; of
 * tensors that are not shared the first replica's count.  What it makes is copied; what it was given is not to be
 * written to.  A status other than DPX_OK ends the step before it begins. */
typedef dpx_status dpx_preprocess_fn(void *user, int training, int replica, dpx_tensor *part, int n);
/* For all batches that follow, of inference too; NULL: as they are given.  No gradient comes through it. */
DPX_API dpx_status dpx_trainer_set_preprocess(dpx_trainer *t, dpx_preprocess_fn *preprocess, void *user) DPX_CHECKED;

/* With `out` NULL train_step, train_part and train_flush begin a step and do not wait for its end on GPUs: the batch
 * has been taken over on return, and the host prepares the next one meanwhile.  train_result then waits for the oldest
 * step begun whose result was not taken, and gives it; micro-batches that complete no group have none.  At most two
 * results may be waiting, none when a step is given an `out`.  A failure may show in a later call.  On the CPU a step
 * is over when train_step returns, in any case. */
DPX_API dpx_status dpx_train_result(dpx_trainer *t, dpx_result *out) DPX_CHECKED;
DPX_API int dpx_trainer_runs_ahead(const dpx_trainer *t); /* 1: steps begun go on behind the call */
/* Applies what was accumulated so far: the last, incomplete group of an epoch.  Nothing when there is none.  With
 * "turns" all losses are then those of before the step: no batch is left that a later one could be computed of by what
 * the ones before it have changed. */
DPX_API dpx_status dpx_train_flush(dpx_trainer *t, dpx_result *out) DPX_CHECKED;
/* The batch that is given next is the last of its accumulated group, however few there are: train_step applies them,
 * with "turns" as it does a complete group.  Nothing without "accumulate".  In a world all processes call it. */
DPX_API dpx_status dpx_trainer_close_group(dpx_trainer *t) DPX_CHECKED;

/* An epoch is over: with "bn" average all replicas go on with the mean of their running statistics, which an evaluation
 * takes too if it comes first.  DPX_INVALID in the middle of an accumulated group, unless "accumulate-across-epochs" is
 * set.  In a world all processes call it between the same steps. */
DPX_API dpx_status dpx_trainer_end_epoch(dpx_trainer *t) DPX_CHECKED;

/* An evaluation is over, for "lr-schedule" plateau, of the run or of a group: the rates of the steps that are begun
 * from here on follow from the loss (mode min) or the metric (modes max, min-metric; DPX_INVALID for NaN).
 * One of a step that was observed before, as after resuming, changes nothing, nor does one before the end of the
 * warm-up. In a world all processes call it between the same steps, and rank 0's numbers count. */
DPX_API dpx_status dpx_trainer_observe(dpx_trainer *t, double loss, double metric) DPX_CHECKED;
enum { DPX_OBSERVES_LOSS = 1, DPX_OBSERVES_METRIC = 2 };
DPX_API int dpx_trainer_observes(const dpx_trainer *t); /* which of the two; 0: no schedule follows evaluations */

/* Inference on the current state.  `outputs` receives one tensor per model output, in the model's order, whose memory
 * belongs to the trainer and is valid until its next call.  With "output-device" each there is room for one of each
 * output and replica: of an output that is split replica 2's part is NAME@r2, also without samples; one that is not is
 * given once; what is left of the room has name NULL. */
DPX_API dpx_status dpx_run(dpx_trainer *t, const dpx_tensor *inputs, int n, dpx_tensor *outputs,
                           int n_outputs) DPX_CHECKED;
/* A forward pass in one call, as torch.nn.parallel.data_parallel: inputs that are as long along axis `dim` (from the
 * end when negative) as the first are split there over the devices, others go to all in full; the model runs as for
 * evaluation, which changes nothing; outputs are put together on device `output_device` of the list (-1: for the host)
 * and given as dpx_run gives them.  `devices` is as the option, NULL its default; with one device nothing is split.
 * *keep, NULL at first, is what the call has made and where its outputs lie: with the same arguments the next call is
 * quick by it, with others it is made anew; to be freed by dpx_trainer_free. */
DPX_API dpx_status dpx_data_parallel(dpx_trainer **keep, const dpx_model *model, const dpx_tensor *inputs, int n,
                                     const char *devices, int output_device, int dim, dpx_tensor *outputs,
                                     int n_outputs) DPX_CHECKED;
/* The same of a batch in parts; every process gets the whole outputs. */
DPX_API dpx_status dpx_run_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_tensor *outputs,
                                int n_outputs) DPX_CHECKED;

/* Parameters, moments, running statistics, counters. */
DPX_API int dpx_trainer_state_count(const dpx_trainer *t);
DPX_API dpx_status dpx_trainer_state_info(const dpx_trainer *t, int index, dpx_info *out) DPX_CHECKED;
/* Copies to or from the tensor's data, whose type and shape must be the state's.  In a world all processes set state,
 * or resume, before the same step, or before their first; that step then begins with rank 0's values everywhere, but
 * for state in pieces ("shard"), for which all are given the same.
 *
 * State in pieces is whole nowhere.  In a world get_state, save and export are therefore calls that all processes make,
 * in the same order, between the same steps; those that want nothing pass NULL for `out`, `directory` or `path`.  A
 * call that the others do not make ends by the world's timeout, or by what they do instead, with the state's name, and
 * so does the world.  (Where nothing is in pieces nobody waits for the others.) */
DPX_API dpx_status dpx_trainer_get_state(dpx_trainer *t, const char *name, const dpx_tensor *out) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_set_state(dpx_trainer *t, const char *name, const dpx_tensor *in) DPX_CHECKED;
DPX_API int64_t dpx_trainer_step_count(const dpx_trainer *t); /* begun */

/* A checkpoint: `directory`/step-N/{state.safetensors,state.digests,manifest.json}, written under a temporary name,
 * synced and renamed.  `note`, or NULL, is kept in it and given back by resume (the caller's position in its data). */
DPX_API dpx_status dpx_trainer_save(dpx_trainer *t, const char *directory, const char *note) DPX_CHECKED;
/* Loads the newest checkpoint below `directory` that verifies; the log is warned of each newer one that does not.  In a
 * world each process reads and verifies what it holds, some of it with later steps: damage found then ends the world.
 * `note`, when not NULL, receives a copy to free().  bytes_resumed: what this process has read of checkpoints. */
DPX_API dpx_status dpx_trainer_resume(dpx_trainer *t, const char *directory, char **note) DPX_CHECKED;
DPX_API int64_t dpx_trainer_bytes_resumed(const dpx_trainer *t);

/* The trained model for inference in any runtime: original names and opset, running statistics, no operator in training
 * mode, dropout and stochastic depth off.  Operators that draw other random numbers stay. */
DPX_API dpx_status dpx_trainer_export(dpx_trainer *t, const char *path) DPX_CHECKED;

/* ---- samples of any structure, and their way to the replicas (docs/ragged.md) ---- */

/* A tensor, a list or a map of such, or a container that says how its content becomes part of a batch.  It does not
 * change once it is made; what is made from it holds it. */
typedef struct dpx_data dpx_data;
typedef enum {
    DPX_DATA_TENSOR,
    DPX_DATA_LIST,
    DPX_DATA_MAP,
    DPX_DATA_CONTAINER,
    DPX_DATA_GROUPS /* what dpx_collate makes of containers: for each group a list, or a tensor of its samples */
} dpx_data_kind;

typedef struct {
    size_t size;          /* sizeof(dpx_container) */
    int stack;            /* 1: the tensors of a group become one; 0: they stay a list */
    double padding_value; /* at the end of axes that are shorter than others of the group */
    int pad_dims;         /* how many axes, the last 1 to 3, may differ; 0: none */
    int cpu_only;         /* 1: stays on the host, as a list, whatever `stack` says: no input of a model */
} dpx_container;

#define DPX_CONTAINER_DEFAULTS            \
    {                                     \
        sizeof(dpx_container), 0, 0, 2, 0 \
    }

/* The elements are copied, strings with what they say, which dpx_collate, dpx_scatter and steps do not take. */
DPX_API dpx_status dpx_data_tensor(dpx_data **out, const dpx_tensor *tensor) DPX_CHECKED;
/* Members are held, and may be freed by the caller.  NULL is legal for those of none. */
DPX_API dpx_status dpx_data_list(dpx_data **out, const dpx_data *const *member, int n) DPX_CHECKED;
DPX_API dpx_status dpx_data_map(dpx_data **out, const char *const *key, const dpx_data *const *member,
                                int n) DPX_CHECKED;
/* `how` NULL: DPX_CONTAINER_DEFAULTS. */
DPX_API dpx_status dpx_data_container(dpx_data **out, const dpx_data *content, const dpx_container *how) DPX_CHECKED;
DPX_API void dpx_data_free(dpx_data *data); /* NULL is legal */

DPX_API dpx_data_kind dpx_data_kind_of(const dpx_data *data);
DPX_API int dpx_data_count(const dpx_data *data); /* members; of a container 1; groups; of a tensor 0 */
DPX_API const dpx_data *dpx_data_at(const dpx_data *data, int index); /* lent by `data`; NULL: there is none */
DPX_API const char *dpx_data_key(const dpx_data *data, int index);
DPX_API const dpx_data *dpx_data_find(const dpx_data *data, const char *key);
/* Views a tensor, whose name is NULL. */
DPX_API dpx_status dpx_data_view(const dpx_data *data, dpx_tensor *out) DPX_CHECKED;

/* A batch of n samples of one structure, in groups of `samples_per_replica` (0: 1), of which the last may be smaller:
 * lists are transposed, maps go key by key, by the first sample's keys, plain tensors are stacked on a new axis 0, and
 * containers become groups.  The first sample of a group says whether it is stacked and how many axes are padded to the
 * largest of the group; each sample is padded with its own value.  Errors name the place, as "boxes[1]". */
DPX_API dpx_status dpx_collate(dpx_data **out, const dpx_data *const *sample, int n,
                               int samples_per_replica) DPX_CHECKED;
/* out[0..replicas): of each replica what it has of a batch: its group; of tensors as many samples of axis 0, of those
 * without axes all.  Without groups samples are shared out evenly.  Replicas behind the last group have lists, and axes
 * 0, of no length.  DPX_INVALID: more groups than replicas, or members of other sizes.  On failure nothing is made. */
DPX_API dpx_status dpx_scatter(dpx_data **out, const dpx_data *batch, int replicas) DPX_CHECKED;

/* Steps of a collated map, whose keys are those of the inputs and targets: stacked groups, or tensors.  What is
 * cpu_only is passed over.  If there are groups they are the parts of the batch, whatever "split" says, so at most as
 * many as there are replicas; else "split" makes them.  Groups are computed as they are, or, with "pad-to" step, are
 * padded on to the largest of the step, each sample with its own value.  In a world all give the whole batch. */
DPX_API dpx_status dpx_train_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_val_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_run_data(dpx_trainer *t, const dpx_data *inputs, dpx_tensor *outputs, int n_outputs) DPX_CHECKED;

/* The outputs of a model whose control flow, sequences or shapes depend on data (DPX_UNSUPPORTED when it is loaded or
 * run otherwise), and of any other, as docs/onnx.md tells: node by node in one thread by the reference kernels, but for
 * what has products or convolutions and stands between what data decide, which runs as programs on "devices".  Maps
 * from names to tensors, and to lists of tensors for sequences; an optional that holds nothing is not among them; a
 * single input may be called "".  Of `options` "max-nodes" and "plan-memory" count, and operators of the embedder's. */
DPX_API dpx_status dpx_interpret(dpx_data **outputs, const char *path, const dpx_options *options,
                                 const dpx_data *inputs) DPX_CHECKED;

#ifdef __cplusplus
}
#endif

#endif
