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
 * Errors: every function that can fail returns a dpx_status; dpx_error() is the message, of the calling thread.  The
 * errors that a function's comment or its part of this header does not name are DPX_NOMEM, DPX_INVALID for an argument
 * out of range, and DPX_INTERNAL.  On failure *out is not written.  The library never prints, exits or keeps global
 * state, but for the allocator.
 * Others: a function that returns no dpx_status does not fail.  It returns 0 or NULL where there is nothing to return.
 * Threads: one thread at a time may use a handle, in the process that made it, not in a fork.  Different handles may be
 * used at the same time.  A function without a handle may be called by any thread at any time.
 * Memory: `const` pointers are lent for the call; the caller frees *out with its _free.
 *
 * Waiting: CPU devices compute with OpenMP.  GNU's libgomp reads GOMP_SPINCOUNT and OMP_WAIT_POLICY when it is loaded,
 * before main, and by default its threads spin for milliseconds.  On a machine with other work training is then many
 * times slower.  Start the program with GOMP_SPINCOUNT=1000, or set it before dlopen (docs/guide/embed.md).  The
 * programs of dpexec and `import dpexec` set it themselves.
 *
 * Growth: a program compiled with an older dpexec.h works with a newer library of the same major version.  Later
 * versions may add functions, constants, and members at the end of dpx_info, dpx_world_options, dpx_device, dpx_result,
 * dpx_metric, dpx_plan_memory_result and dpx_check_result, whose functions get the caller's size (dpexec_sized.h), and
 * of structs whose first member is their size.  All other structs stay as they are.
 *
 * NULL is legal for a handle that is freed, left or aborted, and for an argument whose comment says so.  For any other
 * NULL a function that returns a dpx_status returns DPX_INVALID with a message that names the function and the
 * argument, and changes nothing.  Other functions then return 0 or NULL, or do nothing. */
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

/* A function that is defined in dpexec_sized.h, since it passes the size of a struct that may grow. */
#define DPX_SIZED static inline

/* The version of this header; dpx_version and dpx_version_number tell the library's. */
#define DPX_VERSION_MAJOR 0
#define DPX_VERSION_MINOR 2
#define DPX_VERSION_PATCH 0
#define DPX_VERSION_NUMBER (DPX_VERSION_MAJOR * 10000 + DPX_VERSION_MINOR * 100 + DPX_VERSION_PATCH)

#define DPX_MAX_RANK 8

/* ---- errors, versions, memory ---- */

/* Errors: dpx_set_allocator returns DPX_INVALID when it is called too late.
 * Threads: any thread at any time; dpx_set_allocator before all others. */

/* The result of a call: 0, or the kind of failure. */
typedef enum {
    DPX_OK = 0,
    DPX_NOMEM = -1,
    DPX_INVALID = -2,     /* a wrong argument, option or batch */
    DPX_MODEL = -3,       /* a malformed model */
    DPX_UNSUPPORTED = -4, /* the model needs features that dpexec lacks; the message lists all of them */
    DPX_SHAPE = -5,       /* shapes or types that do not fit */
    DPX_DEVICE = -6,      /* a device or its driver failed, or is missing */
    DPX_IO = -7,          /* a file, socket or process failed */
    DPX_INTERNAL = -8,    /* a bug of dpexec */
    DPX_INTERRUPTED = -9
} dpx_status;

/* The one-line message of this thread's last failure; valid until its next failure. */
DPX_API const char *dpx_error(void);
/* The version of the library: as text, "1.2.3", and as DPX_VERSION_NUMBER, 10203. */
DPX_API const char *dpx_version(void);
DPX_API int dpx_version_number(void);
/* The name of a status in this header, "DPX_INVALID"; "unknown status" for any other number. */
DPX_API const char *dpx_status_name(dpx_status status);
/* Functions that the library calls, from any of its threads, for the large memory of the host: parameters, moments and
 * activations on CPU devices, models, plans, and the tensors of dpx_data.  `alignment` is a power of 2 that divides
 * `bytes`.  `alloc` returns NULL when there is none: the call ends with DPX_NOMEM, or does without.  Not covered:
 * temporary copies of a tensor that is read or written, small structs and texts, memory of other libraries (oneDNN,
 * protobuf-c, OpenMP), of GPUs, and what the caller is to free().  Call it before any function that makes a handle; it
 * lasts for the process. DPX_INVALID: memory was allocated before, or it was called before. */
typedef void *dpx_alloc_fn(void *user, size_t alignment, size_t bytes);
typedef void dpx_release_fn(void *user, void *memory);
DPX_API dpx_status dpx_set_allocator(dpx_alloc_fn *alloc, dpx_release_fn *release, void *user) DPX_CHECKED;
/* The instruction sets that this build has kernels of CPU devices for and this processor runs, "native" or "x86-64-v3",
 * the fastest first; NULL: no more.  The option "isa" chooses one. */
DPX_API const char *dpx_isa_at(int i);

/* ---- tensors: dense, row-major, in host memory ---- */

/* Errors: DPX_DEVICE for memory that is not the host's, DPX_SHAPE for a rank above DPX_MAX_RANK or strides with gaps,
 * DPX_UNSUPPORTED for a type that dpx_dtype lacks.
 * Threads: any thread at any time. */

/* Numbered as in ONNX. */
typedef enum {
    DPX_FLOAT32 = 1,
    DPX_UINT8 = 2,
    DPX_INT8 = 3,
    DPX_UINT16 = 4,
    DPX_INT16 = 5,
    DPX_INT32 = 6,
    DPX_INT64 = 7,
    DPX_STRING = 8, /* elements are `const dpx_text *`; only in dpx_data, for dpx_interpret */
    DPX_BOOL = 9,
    DPX_FLOAT16 = 10,
    DPX_FLOAT64 = 11,
    DPX_UINT32 = 12,
    DPX_UINT64 = 13,
    DPX_BFLOAT16 = 16,
    /* One byte for each element: the bits of a float, the value of an integer.  Models convert from and to them. */
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

/* A UTF-8 string, which may contain zero bytes.  A NULL pointer to it is the empty string. */
typedef struct {
    size_t n; /* bytes */
    const char *bytes;
} dpx_text;

typedef struct {
    const char *name; /* of an input, output or state of the model; NULL in a batch: by its position there */
    dpx_dtype dtype;
    int rank;
    int64_t dim[DPX_MAX_RANK];
    void *data; /* lent, row-major; only read where a function takes `const dpx_tensor *` */
} dpx_tensor;

/* Bytes of an element, 0 for an unknown type; and its name, "float32" ..., or "unknown". */
DPX_API size_t dpx_dtype_size(dpx_dtype dtype);
DPX_API const char *dpx_dtype_name(dpx_dtype dtype);
/* Views a DLPack tensor (`const DLTensor *` of dlpack/dlpack.h), dense and row-major in CPU memory, without a copy. */
DPX_API dpx_status dpx_tensor_from_dlpack(dpx_tensor *out, const char *name, const void *dl_tensor) DPX_CHECKED;

/* ---- models ---- */

/* Errors: loading returns DPX_IO if a file cannot be read, DPX_MODEL if it is malformed, DPX_UNSUPPORTED with a list of
 * all that dpexec lacks for it, DPX_SHAPE if shapes contradict each other, and DPX_NOMEM past the memory limit.
 * DPX_INVALID: the model has no such kind or index, or a text is not UTF-8.
 * Threads: one thread at a time for a model.  Its trainers and predictors may be used by others meanwhile. */

typedef struct dpx_model dpx_model;

/* Reads an ONNX file, and the files of its external data in the same folder. */
DPX_API dpx_status dpx_model_load(dpx_model **out, const char *path) DPX_CHECKED;
/* Frees the model; trainers and predictors made from it live on. */
DPX_API void dpx_model_free(dpx_model *model);

typedef enum { DPX_INPUT, DPX_OUTPUT, DPX_STATE } dpx_kind;

typedef struct {
    const char *name; /* lives as long as the model or trainer */
    dpx_dtype dtype;
    int rank;                           /* -1: unknown; outputs of a model are as its file declares them */
    int64_t dim[DPX_MAX_RANK];          /* -1: unknown */
    const char *dim_name[DPX_MAX_RANK]; /* names of symbolic dimensions, else NULL */
    int trainable;                      /* state: a parameter that the optimizer updates */
    int64_t rows;                       /* input that selects rows of tables: of the smallest; 0: unknown, or none */
} dpx_info;

/* 1: a training step, or part of one, written by dpx_transform, which alone accepts it; nothing trains or runs it. */
DPX_API int dpx_model_is_step(const dpx_model *model);
/* The number of inputs, outputs or states, and one of them, counted from 0. */
DPX_API int dpx_model_count(const dpx_model *model, dpx_kind kind);
DPX_SIZED dpx_status dpx_model_info(const dpx_model *model, dpx_kind kind, int index, dpx_info *out) DPX_CHECKED;
/* The file's metadata (metadata_props) of a key; NULL: none.  Trainers export what is set; value NULL removes it. */
DPX_API const char *dpx_model_metadata(const dpx_model *model, const char *key);
DPX_API dpx_status dpx_model_set_metadata(dpx_model *model, const char *key, const char *value) DPX_CHECKED;

/* ---- options: by the names that the command line uses, without the dashes ---- */

/* Errors: DPX_INVALID for an option that does not exist, a value that it does not take, or options that contradict each
 * other; the message names them.  Loading fails as dpx_model_load does, or with the status of a callback.
 * Threads: one thread at a time for options or a model; callbacks run in the calling thread.  Functions without a
 * handle (dpx_option_at, dpx_choice_at and the like): any thread at any time. */

typedef struct dpx_options dpx_options;

/* Options with their defaults, to be freed; NULL when out of memory. */
DPX_API dpx_options *dpx_options_create(void);
/* Frees options, and copies them with all that was set; models and trainers made with them live on. */
DPX_API void dpx_options_free(dpx_options *options);
DPX_API dpx_status dpx_options_copy(dpx_options **out, const dpx_options *options) DPX_CHECKED;
/* dpx_model_load with options.  "plan-memory" limits its memory (dpx_model_load: half of the machine's).  The model may
 * use the operators that the options hold.  The graphs of "preprocess" and "criterion" are joined to the model, whose
 * inputs and outputs are then those of the whole.  "input-value" makes inputs constants.  Give the same options to the
 * model's trainer; dpx_trainer_export writes the model without the joined graphs. */
DPX_API dpx_status dpx_model_load_within(dpx_model **out, const char *path, const dpx_options *options) DPX_CHECKED;
/* Reads `bytes` bytes, from byte `offset` on, of the external data that a tensor of the model names by `location`: a
 * relative path without "..".  Any status but DPX_OK ends the load with it. */
typedef dpx_status dpx_external_fn(void *user, const char *location, uint64_t offset, size_t bytes, void *to);
/* dpx_model_load_within of a model in memory, which is read only during the call.  `name` stands in messages;
 * `options`: NULL: the defaults; `external`: NULL: a model with external data is DPX_UNSUPPORTED. */
DPX_API dpx_status dpx_model_load_memory(dpx_model **out, const void *data, size_t bytes, const char *name,
                                         const dpx_options *options, dpx_external_fn *external, void *user) DPX_CHECKED;
/* For example ("lr", "0.1"), ("freeze", "backbone.*"), ("head", "5").  A repeatable option adds to its list. */
DPX_API dpx_status dpx_options_set(dpx_options *options, const char *name, const char *value) DPX_CHECKED;
/* DPX_INVALID if options contradict each other; the message lists all contradictions. */
DPX_API dpx_status dpx_options_check(const dpx_options *options) DPX_CHECKED;
/* dpx_model_load_within calls it for each sequence or optional input that option "input-members" does not name.  It
 * returns the number of tensors (optional: 1).  Those of a sequence become "NAME.0" ..., an optional one input NAME. */
enum { DPX_ABSENT = -1, DPX_UNSET = -2 }; /* an empty optional; unknown: the model is rejected */
typedef int dpx_members_fn(void *user, const char *input, int sequence, int optional);
/* Sets the function that dpx_model_load_within asks for the number of members; NULL: none. */
DPX_API void dpx_options_set_members(dpx_options *options, dpx_members_fn *members, void *user);
/* Class weights for the losses cross-entropy and nll: a vector of floats, which is copied. */
DPX_API dpx_status dpx_options_set_class_weights(dpx_options *options, const dpx_tensor *weights) DPX_CHECKED;
/* The shape of the batches' targets, if it is known before the first batch; data is ignored.  Unless "class-axis" is
 * set, class losses derive the logits' class axis from it: the axis k >= 1 without which the logits have the target's
 * shape.  Without it they assume axis 1 until the first batch decides; a checkpoint keeps the decision. */
DPX_API dpx_status dpx_options_set_target_shape(dpx_options *options, const dpx_tensor *target) DPX_CHECKED;

/* The effect of changing an option when a run resumes from a checkpoint. */
typedef enum {
    DPX_RESUME_FIXED,     /* not allowed: it would be another run */
    DPX_RESUME_TOLD,      /* another result: allowed, with a notice */
    DPX_RESUME_FREE,      /* no effect on results */
    DPX_RESUME_ELSEWHERE, /* depends on more than the text; compare the resulting settings */
    DPX_RESUME_BITS       /* only other rounding: allowed, with a notice */
} dpx_on_resume;

typedef struct {
    const char *name, *metavar;  /* metavar NULL: a flag that takes no value */
    const char *fallback, *help; /* fallback: the default as text; "" when there is none */
    int repeats;
    int trains; /* only training reads it */
    dpx_on_resume on_resume;
    int derived; /* the command line derives it; there is no such flag */
} dpx_option_info;

/* A choice of an option such as "loss" or "lr-schedule". */
typedef struct {
    const char *name, *form; /* "step", "step:EVERY[:GAMMA]" */
    const char *help;
    const char *needs; /* the option that the choice requires; NULL: none */
} dpx_choice_info;

/* A choice of an option, counted from 0; all members are NULL past the end. */
DPX_API dpx_choice_info dpx_choice_at(const char *option, int index);
/* The default of option `flag` under `choice` of `option` ("" when it has none): ("optimizer", "lion", "beta2") gives
 * "0.99".  NULL: the flag does not belong to the choice. */
DPX_API const char *dpx_choice_default(const char *option, const char *choice, const char *flag);
/* A metric of the options, in their order, which are DPX_MAX_METRICS at most. */
enum { DPX_MAX_METRICS = 16 };
typedef struct {
    const char *name; /* as given, "f1:micro" */
    int falls;        /* smaller values are better ("mae") */
    int number;       /* 0: it is a table */
} dpx_metric_info;
/* A metric of the options, counted from 0; all members are 0 and NULL past the end. */
DPX_API dpx_metric_info dpx_metric_at(const dpx_options *options, int index);
/* The kind of target that the options' loss takes.  "cross-entropy" also takes probabilities of the logits' shape. */
typedef enum { DPX_TARGET_NONE, DPX_TARGET_CLASSES, DPX_TARGET_VALUES } dpx_target_kind;
DPX_API dpx_target_kind dpx_target(const dpx_options *options);

/* The number of options, and one of them, counted from 0; all members are 0 and NULL past the end. */
DPX_API int dpx_option_count(void);
DPX_API dpx_option_info dpx_option_at(int index);
/* The present value as text ("" when unset), lists joined by ";".  Valid until the next set.  NULL: no such option. */
DPX_API const char *dpx_options_get(const dpx_options *options, const char *name);
/* The axis of the samples in an input of the model, or in the target that the options' loss adds: by "batch-input",
 * else by the names of the model's dimensions, else 0. */
DPX_API int dpx_batch_axis(const dpx_model *model, const dpx_options *options, const char *name);
/* The role of an input.  SAMPLES: samples of the batch; WHOLE: the same data for all samples (a table); EITHER, by
 * dpx_options_set_role, else whole; ORDERED: whole, and it refers to samples by position (an adjacency matrix).
 * UNKNOWN: the model does not show it; UNCLEAR: the same, and axis 0 is fixed while another is open. */
enum { DPX_ROLE_UNKNOWN, DPX_ROLE_UNCLEAR, DPX_ROLE_SAMPLES, DPX_ROLE_WHOLE, DPX_ROLE_EITHER, DPX_ROLE_ORDERED };
DPX_API int dpx_batch_role(const dpx_model *model, const dpx_options *options, const char *input);
DPX_API dpx_status dpx_options_set_role(dpx_options *options, const char *input, int role) DPX_CHECKED;
/* 1: replicas split the tensor along dpx_batch_axis; dpx_train_part takes a part.  0: each process takes all of it. */
DPX_API int dpx_batch_splits(const dpx_model *model, const dpx_options *options, const char *name);

#include "dpexec_operators.h" /* operators of the embedder's own */

#include "dpexec_world.h" /* several processes, and devices */

/* ---- transformation ---- */

/* Errors: those of a training step that cannot be compiled: DPX_UNSUPPORTED, with all operators that lack a gradient or
 * kernel; DPX_SHAPE; DPX_INVALID for options that do not fit the model, or sizes that "batch-size" must give;
 * DPX_DEVICE; DPX_NOMEM for a step that does not fit. Threads: one thread at a time for model and options; `write` and
 * `log` are called in that thread. */

/* Receives a text in one or more pieces. */
typedef void dpx_write_fn(void *user, const char *text, size_t bytes);

/* Writes the training graph after pass `until` (NULL: all); format: "txt", "onnx", "json", "dot", "svg" or "html". */
DPX_API dpx_status dpx_transform(const dpx_model *model, const dpx_options *options, const char *until,
                                 const char *format, dpx_write_fn *write, void *user) DPX_CHECKED;

/* Measures the options' devices and their links, in about a second, and writes a description of the cluster as JSON
 * (docs/reference/simulate.md).  All processes of the options' world call it and get the same text. */
DPX_API dpx_status dpx_measure(const dpx_options *options, dpx_write_fn *write, void *user) DPX_CHECKED;

/* Writes the program that a run with these options would execute: the training step, or inference without a loss.  It
 * lists for each device its nodes in order, with kernel, memory address, stream and events, and the memory that each
 * part needs.  Nothing runs or is allocated on a device; a device may be only described ("cuda:0@h100.json").
 * DPX_NOMEM when a step does not fit; the text is written all the same.  `log` may be NULL. */
DPX_API dpx_status dpx_plan(const dpx_model *model, const dpx_options *options, dpx_write_fn *write, void *user,
                            dpx_log_fn *log, void *log_user) DPX_CHECKED;

/* Shares of memory that a planned step needs. */
typedef struct {
    double host;        /* of the machine's free memory, at most the control group's limit: all CPU devices together */
    double accelerator; /* of the fullest accelerator's memory */
} dpx_plan_memory_result;

/* Plans the step of a training run with these options as dpx_plan does, and writes nothing. */
DPX_SIZED dpx_status dpx_plan_memory(dpx_plan_memory_result *out, const dpx_model *model,
                                     const dpx_options *options) DPX_CHECKED;

/* ---- golden data ---- */

/* Errors: DPX_IO when the folder cannot be read.
 * Threads: one thread at a time for the options. */

typedef enum {
    DPX_CHECK_PASSED,
    DPX_CHECK_FAILED,     /* an output differs, or another error than DPX_UNSUPPORTED occurred */
    DPX_CHECK_UNSUPPORTED /* the model or its data need features that dpexec lacks */
} dpx_check_outcome;

typedef struct {
    dpx_check_outcome outcome;
    int planned;     /* 1: every data set ran as a program; 0: one was interpreted or did not run */
    char text[1024]; /* the first output that differs, or the error; "" when it passed */
} dpx_check_result;

/* Compares a model's outputs with expected ones, in the layout of ONNX's own tests: `folder` has model.onnx and
 * test_data_set_0, test_data_set_1 ..., each with a TensorProto, SequenceProto or OptionalProto for every input and
 * output of the model, in order: input_0.pb ..., output_0.pb ...  Types, shapes and integers must be equal.  Floats
 * must satisfy |found - expected| <= 1e-7 + 1e-3 |expected|, or use "atol" and "rtol" of the folder's data.json.  The
 * model runs as in dpx_run, with the devices and precision of `options`, or, with `interpreter` not 0, node by node by
 * the reference kernels.  Fails only when the folder cannot be read; the model's failures are in *out. */
DPX_SIZED dpx_status dpx_check(const char *folder, const dpx_options *options, int interpreter,
                               dpx_check_result *out) DPX_CHECKED;

/* ---- training ---- */

/* Errors: DPX_INVALID for names, counts or labels that do not fit the model, DPX_SHAPE for types or shapes that do not,
 * DPX_UNSUPPORTED when the step cannot be compiled, DPX_NOMEM when it does not fit, DPX_DEVICE when a device or another
 * process failed, DPX_IO when a file cannot be read or written, or the status of a callback.  A call that is refused
 * because of its arguments leaves the trainer as it was.
 * Threads: one thread at a time for a trainer, which may change between calls; callbacks run in the calling thread.  A
 * trainer uses threads of its own during a call.  In a world all processes make the same calls in the same order. */

typedef struct dpx_trainer dpx_trainer;

/* A log variable of a model with "loss" "outputs": the total, named "loss", and each output's mean over the batch.
 * Outputs NAME.0, NAME.1 ... are added up as NAME; an output that is itself named "loss" is "loss.0". */
typedef struct {
    const char *name; /* lives as long as the trainer */
    double value;     /* sum / dpx_result.loss_weight */
    double sum;       /* adds up over batches */
} dpx_log_value;

typedef struct {
    int64_t step;    /* optimizer steps done, this one included; skipped ones count */
    int64_t samples; /* in this call's batch; in the whole group when accumulated micro-batches were applied */
    double loss;     /* loss_sum / loss_weight; with "loss-weight" "sum" loss_sum */
    double loss_sum, loss_weight;     /* add up over batches exactly; a loss that is a sum has weight 0 */
    double metric_sum, metric_weight; /* the same for the first metric; 0, 0 without one, or for one with a table */
    int64_t correct, counted;         /* the same for a metric that counts, such as accuracy */
    double lr;                        /* learning rate of this step */
    double grad_norm;                 /* before clipping; NaN when it is not computed */
    int updated;                      /* 0: a micro-batch was accumulated; parameters are unchanged, the loss is NaN */
    double loss_scale;                /* dynamic loss scale of this step, with "turns" the players' least; else NaN */
    int skipped; /* 1: a gradient was not finite, so nothing changed except a dynamic loss scale, which falls;
                  * with "turns" this holds for at least one player (dpx_trainer_group_skipped) */
    /* Predictions, of evaluations and with DPX_KEEP_OUTPUTS (else NULL, 0): all outputs of the model that are not
     * losses, whole and in the order of the batch, or with "output-device" each in the replicas' parts, as dpx_run
     * gives them.  The trainer owns them; they are valid until its next call. */
    const dpx_tensor *outputs;
    int n_outputs;
    const dpx_log_value *log; /* log variables, lent until the next step's result is taken; NULL, 0: none */
    int n_log;
} dpx_result;

/* Learning rate of the k-th "group" (counted from 1) in step `step`, as dpx_result counts them.  Group 0: parameters
 * without a group, which is dpx_result.lr.  NaN: no such group. */
DPX_API double dpx_trainer_group_lr(const dpx_trainer *trainer, int group, int64_t step);
/* Norm of the group's gradients before clipping, in the step whose result was taken last.  Group 0:
 * dpx_result.grad_norm.  NaN: no such group, or neither it nor, with "turns", its player has a norm of its own. */
DPX_API double dpx_trainer_group_norm(const dpx_trainer *trainer, int group);
/* For that step and group: the dynamic loss scale (NaN: none), and whether its parameters were left unchanged because a
 * gradient was not finite.  Without "turns" as in dpx_result. */
DPX_API double dpx_trainer_group_scale(const dpx_trainer *trainer, int group);
DPX_API int dpx_trainer_group_skipped(const dpx_trainer *trainer, int group);

typedef void dpx_progress_fn(void *user, const dpx_result *result);

/* `log` receives notes on decisions (which inputs are split, which operators have no gradient ...); NULL: none. */
DPX_API dpx_status dpx_trainer_create(dpx_trainer **out, const dpx_model *model, const dpx_options *options,
                                      dpx_log_fn *log, void *user) DPX_CHECKED;
DPX_API void dpx_trainer_free(dpx_trainer *trainer);
/* Number of parts of every batch: "replicas", else the number of devices of all processes. */
DPX_API int dpx_trainer_replicas(const dpx_trainer *trainer);
/* What is trained, "trains 17,226 numbers in 6 tensors"; "" until a step is compiled, and without a log. */
DPX_API const char *dpx_trainer_summary(const dpx_trainer *trainer);
/* Bytes that compiled steps take of the fullest device; 0: none is compiled. */
DPX_API int64_t dpx_trainer_memory(const dpx_trainer *trainer);
/* The present value as text, as in dpx_options_get.  For a "split" of "auto" or weights it is the weight of each
 * replica, so another run with this text has the same parts; for "links", the values read.  NULL: no such option. */
DPX_API const char *dpx_trainer_option(const dpx_trainer *trainer, const char *name);
/* Called once for every copy of a node that replication makes, so that copies may share data.  `node` is the name of a
 * node of the model as loaded, or of a call of an ONNX function, which is the prefix of its nodes' names ("encoder" of
 * "encoder/add").  `copy` is the replica's number in the whole world.  All copies in this process share the node's
 * *context, NULL at first; `release` (NULL: none) receives it when the trainer is freed.  A failure ends the calls. */
typedef dpx_status dpx_replicate_fn(void *user, const char *node, int copy, void **context);
/* Each dpx_trainer_create with these options ends with this dpx_trainer_on_replicate, and fails if a callback does. */
DPX_API dpx_status dpx_options_on_replicate(dpx_options *options, const char *pattern, dpx_replicate_fn *replicate,
                                            void (*release)(void *context), void *user) DPX_CHECKED;
/* Calls `replicate` in this thread before it returns: for all nodes of this process's lowest copy in the order of the
 * model, a function's call before its nodes, then for the next copy.  The nodes are those of the embedder's operators
 * (dpx_options_set_operators) and those whose names match the shell pattern `pattern` (NULL: none); nodes with the same
 * name count as one.  Copies without samples are included; one replica has no copies.  Allowed once for a trainer,
 * before its first step, else DPX_INVALID.  Errors name node and copy. */
DPX_API dpx_status dpx_trainer_on_replicate(dpx_trainer *trainer, const char *pattern, dpx_replicate_fn *replicate,
                                            void (*release)(void *context), void *user) DPX_CHECKED;
/* The context of that node; NULL: none.  Kernels get the name from dpx_node_name, gradients as "gradient of NAME".
 * Kernels run at the same time, so they must only read the context, or lock it. */
DPX_API void *dpx_trainer_context(const dpx_trainer *trainer, const char *node);

/* Sets a function that is called after every train step, in the calling thread; NULL: none. */
DPX_API void dpx_trainer_on_step(dpx_trainer *trainer, dpx_progress_fn *progress, void *user);

/* Times every node of the following steps, up to `events` times in all; 0 ends it.  Replaces earlier timings.  In a
 * world of GPUs all processes must time the same steps, or none. */
DPX_API dpx_status dpx_trainer_trace(dpx_trainer *trainer, uint32_t events) DPX_CHECKED;
/* Writes the timings in Chrome's trace format (chrome://tracing, Perfetto), a row for each device. */
DPX_API dpx_status dpx_trainer_write_trace(const dpx_trainer *trainer, const char *path) DPX_CHECKED;

/* Times every node of the following training steps and sums the times by operator and by layer; 0 ends it.  On
 * accelerators the first 20 steps that count are timed, and the time of a step is that of the steps behind them.  In a
 * world all processes must do the same. */
DPX_API dpx_status dpx_trainer_profile(dpx_trainer *trainer, int on) DPX_CHECKED;
/* After each step: `seconds` that it took, `data` of them until its batch was there.  NaN seconds: it does not count.
 * Neither do the first two steps with each batch shape. */
DPX_API dpx_status dpx_trainer_profile_step(dpx_trainer *trainer, double seconds, double data) DPX_CHECKED;
/* Writes the profile as text, or as JSON, beside the peaks of the first device, which the first call measures. */
DPX_API dpx_status dpx_trainer_write_profile(dpx_trainer *trainer, int json, dpx_write_fn *write,
                                             void *user) DPX_CHECKED;

/* A step over one batch: all inputs of the model and the target, by name, in any order; dpx_run accepts a target, too,
 * but needs none.  An unknown or repeated name is DPX_INVALID.  Tensors whose names are all NULL are the inputs in the
 * graph's order, then the target; a mixture is DPX_INVALID.  The buffers are read in place, with their samples along
 * dpx_batch_axis.
 *
 * train_step updates the parameters (with "accumulate" K: at every K-th call).  val_step and test_step never change
 * state and use running statistics.  They give predictions, and need neither targets nor inputs that only the model's
 * own losses or scalar outputs read; without these, or without a loss, the loss is NaN, the metric is not measured, and
 * such outputs are missing.  In a world all processes pass the same tensors. */
DPX_SIZED dpx_status dpx_train_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_val_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_test_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
/* A metric over all batches that val_step, test_step, val_part and test_part measured since dpx_trainer_create or the
 * last restart_metric: the value that one batch of all their samples would give. */
typedef struct {
    int measured; /* 0: there is no metric, or the samples do not define it; then value is NaN and table.data NULL */
    double value; /* NaN for a metric with a table */
    double bound; /* the most by which value may be wrong: auc and average-precision by bins; else 0 */
    dpx_tensor table; /* confusion-matrix: int64 [classes, classes], rows: target, columns: prediction; per-class:
                         float64 [classes, 4], precision, recall, F1, number of targets; else data is NULL.  The trainer
                         owns it; valid until its next call */
    const dpx_log_value *log; /* log variables over these batches, also without a metric; lent like the table */
    int n_log;
    double loss;     /* loss over these batches; NaN: none had targets */
    int64_t samples; /* number of samples in these batches */
} dpx_metric;
/* Metric `index` of the options, counted from 0; dpx_trainer_metric gives the first one.  restart_metric forgets the
 * batches measured so far. */
DPX_SIZED dpx_status dpx_trainer_metric(const dpx_trainer *t, dpx_metric *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_trainer_metric_at(const dpx_trainer *t, int index, dpx_metric *out) DPX_CHECKED;
DPX_API void dpx_trainer_restart_metric(dpx_trainer *t);
/* The same over the batches of training steps whose results were taken.  Each step measures its batch with the
 * parameters before its update and in training mode (batch statistics, dropout).  Log variables are not included.
 * Checkpoints keep the metric, and a run that resumes with the same metric continues it. */
DPX_SIZED dpx_status dpx_trainer_train_metric(const dpx_trainer *t, dpx_metric *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_trainer_train_metric_at(const dpx_trainer *t, int index, dpx_metric *out) DPX_CHECKED;
DPX_API void dpx_trainer_restart_train_metric(dpx_trainer *t);
/* The part of a batch of `samples` samples that this process takes: [from, to), counted from 0, along the batch axis of
 * every tensor that is split (dpx_batch_splits); from == to when it is empty.  The parts of all processes, by rank,
 * follow one another and make up the batch.  They depend only on the batch size, "replicas", "split" and the devices.
 * The function waits for no other process.  DPX_INVALID: `samples` is negative. */
typedef struct {
    int64_t from, to;
} dpx_part;
DPX_API dpx_status dpx_trainer_part(const dpx_trainer *t, int64_t samples, dpx_part *out) DPX_CHECKED;

/* With "pad-to" replica: length[0..n) of the samples of the next step's whole batch along an axis of tensor `name`;
 * elements past a sample's length are not read.  Each replica computes up to its longest sample, rounded up to
 * `multiple`, at least 2 (size 1 would broadcast in many models); outputs are zero past that.  Call it for each tensor
 * with sequences; tensors that the step does not take are ignored.  DPX_INVALID, also from the step: lengths that do
 * not fit the batch. */
DPX_API dpx_status dpx_trainer_lengths(dpx_trainer *t, const char *name, int axis, int64_t multiple,
                                       const int64_t *length, int64_t n) DPX_CHECKED;
/* Totals over these tensors in all steps so far: positions in the samples, and positions computed. */
DPX_API void dpx_trainer_padding(const dpx_trainer *t, int64_t *positions, int64_t *computed);

/* The steps by parts, for callers that load in every process only what it needs:
 *
 *     dpx_part own;
 *     if (dpx_trainer_part(t, 256, &own) || load(x, y, at + own.from, at + own.to) ||
 *         dpx_train_part(t, 256, (dpx_tensor[]){ x, y }, 2, &result)) ...
 *
 * `samples` is the size of the whole batch, equal in all processes.  A split tensor has to - from samples along its
 * batch axis (its data may be NULL if that is 0); any other tensor is whole.  All processes call the function for every
 * batch, also with an empty part, and get the results of the whole batch, with the same bytes as from dpx_train_step.
 * DPX_SHAPE: a tensor has another number of samples.  DPX_INVALID: the step does not split a tensor that is given in
 * parts ("batch-input" sets the batch axis).  DPX_UNSUPPORTED: shapes depend on data.  A process checks indices and
 * labels of its own part; messages give their positions in the whole batch. */
DPX_SIZED dpx_status dpx_train_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                    dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_val_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                  dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_test_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                   dpx_result *out) DPX_CHECKED;

/* Transforms a batch before a step, for example scales images, or augments them when `training` is 1 (training steps).
 * The thread that calls the step calls it for each replica of this process in turn, also for one without samples.
 * `part` holds the replica's samples of split tensors, and all of the others.  The function may set other types, shapes
 * and data in `part`, with the same number of samples and otherwise equal shapes on all replicas; of tensors that are
 * not split the first replica's are used.  Its data are copied; given buffers are not written. */
typedef dpx_status dpx_preprocess_fn(void *user, int training, int replica, dpx_tensor *part, int n);
/* Sets it for all later batches, also of inference; NULL: none.  No gradient flows through it. */
DPX_API dpx_status dpx_trainer_set_preprocess(dpx_trainer *t, dpx_preprocess_fn *preprocess, void *user) DPX_CHECKED;

/* With `out` NULL, train_step, train_part and train_flush only begin a step on GPUs: they return when the batch has
 * been copied, so the host can prepare the next one.  train_result waits for the oldest step begun whose result was not
 * taken, and gives the result; micro-batches that complete no group have none.  At most two results may be pending,
 * none when a step is called with an `out`.  A failure may show in a later call.  On the CPU a call is a step. */
DPX_SIZED dpx_status dpx_train_result(dpx_trainer *t, dpx_result *out) DPX_CHECKED;
/* 1: steps begun go on after the call that began them (GPUs); 0: a call is a step. */
DPX_API int dpx_trainer_runs_ahead(const dpx_trainer *t);
/* Applies the micro-batches accumulated so far, the last, incomplete group of an epoch; no effect when there are none.
 * With "turns" every player's loss then uses the parameters from before the step, since no micro-batch is left for a
 * later player to recompute. */
DPX_SIZED dpx_status dpx_train_flush(dpx_trainer *t, dpx_result *out) DPX_CHECKED;
/* Makes the next batch the last of its accumulated group, however small: train_step then applies the group, with
 * "turns" like a complete one.  No effect without "accumulate".  In a world all processes call it. */
DPX_API dpx_status dpx_trainer_close_group(dpx_trainer *t) DPX_CHECKED;

/* A step in pieces.  backward computes the gradients of a batch and adds them to those gathered before; update applies
 * them as one step; reset drops them.  Batches of different sizes weigh by their samples.  K times backward and one
 * update give the bytes of a group of train_step with "accumulate" K, and may be mixed with it: backward never
 * completes a group.  The result of backward has samples alone; loss, metric and norm of all gathered batches come with
 * update.  reset does not undo running statistics and random numbers of the batches.
 * DPX_INVALID: update without gathered gradients; train_step without "accumulate", save or end_epoch with some. */
DPX_SIZED dpx_status dpx_train_backward(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_train_backward_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                             dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_train_update(dpx_trainer *t, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_train_reset(dpx_trainer *t) DPX_CHECKED;
/* Further results of the following training steps, as a bit mask; 0: none.  OUTPUTS: dpx_result.outputs as evaluations
 * have them, computed in training mode with the parameters before the update; not from a call without `out`, nor from
 * one that applies an accumulated group.  GRADIENTS: dpx_trainer_gradient reads those of the last step.  The next step
 * of each shape is compiled again; numbers stay the same. */
enum { DPX_KEEP_OUTPUTS = 1, DPX_KEEP_GRADIENTS = 2 };
DPX_API dpx_status dpx_trainer_keep(dpx_trainer *t, unsigned what) DPX_CHECKED;
/* Copies the gradient by a parameter to the tensor's data, whose type and shape must be the parameter's: the derivative
 * of the mean loss over the gathered batches, before clipping and without a loss scale.  If none are gathered, that of
 * the last step, until the next call of a step (GRADIENTS).  In a world all processes call it; if
 * one cannot, all fail.  DPX_INVALID: there is none. */
DPX_API dpx_status dpx_trainer_gradient(dpx_trainer *t, const char *parameter, const dpx_tensor *out) DPX_CHECKED;
/* Sets the learning rate of a group (0: parameters without a group) for the following steps, in place of "lr", warm-up
 * and schedule; NaN: these again.  Checkpoints keep it.  Nothing is compiled.  All processes call it; rank 0's number
 * counts.  DPX_INVALID: no such group, or a number that is negative or infinite.
 *
 * Else a step reads only state: set_state changes momentum, means (EMA), "dpexec.step" or "dpexec.loss_scale" between
 * steps.  All other settings are part of the compiled step: to change one, save, and resume a new trainer. */
DPX_API dpx_status dpx_trainer_set_lr(dpx_trainer *t, int group, double lr) DPX_CHECKED;

/* Ends an epoch: with "bn" average all replicas continue with the mean of their running statistics, which a following
 * evaluation uses, too.  DPX_INVALID within an accumulated group, unless "accumulate-across-epochs" is set.  In a world
 * all processes call it between the same steps. */
DPX_API dpx_status dpx_trainer_end_epoch(dpx_trainer *t) DPX_CHECKED;

/* Reports an evaluation to "lr-schedule" plateau, of the run or of a group: learning rates of later steps depend on the
 * loss (mode min) or the metric (modes max, min-metric; DPX_INVALID for NaN).  No effect before the end of the warm-up,
 * or for a step that was observed before, as after resuming.  All processes call it; rank 0's numbers count. */
DPX_API dpx_status dpx_trainer_observe(dpx_trainer *t, double loss, double metric) DPX_CHECKED;
enum { DPX_OBSERVES_LOSS = 1, DPX_OBSERVES_METRIC = 2 };
/* What schedules depend on, as a bit mask; 0: none depends on evaluations. */
DPX_API int dpx_trainer_observes(const dpx_trainer *t);

/* Inference with the current state.  `outputs` receives one tensor for each model output, in the model's order; the
 * trainer owns the data, which are valid until its next call.  With "output-device" each, `outputs` has room for each
 * output and replica: replica 2's part of a split output is named NAME@r2, also without samples; an output that is not
 * split is given once; unused entries have name NULL. */
DPX_API dpx_status dpx_run(dpx_trainer *t, const dpx_tensor *inputs, int n, dpx_tensor *outputs,
                           int n_outputs) DPX_CHECKED;
/* The same token by token, for a language model whose scores for a token depend on it and those before it alone: the
 * tokens [1, n] stand at `position` and behind it, and the trainer keeps what earlier calls computed for the positions
 * before, with the same parameters.  Texts have at most `window` tokens, the same number in all calls.  Other inputs
 * are filled in: ones where the name has "mask", positions where it has "position".  Outputs have n tokens.
 * DPX_UNSUPPORTED: it cannot be shown that the model is one like that; the message says what it does. */
DPX_API dpx_status dpx_run_tokens(dpx_trainer *t, const dpx_tensor *tokens, int64_t position, int64_t window,
                                  dpx_tensor *outputs, int n_outputs) DPX_CHECKED;
/* A forward pass in one call, like torch.nn.parallel.data_parallel.  Inputs with the first one's size along axis `dim`
 * (negative: from the end) are split there over the devices; all devices get the others whole.  The model runs in
 * evaluation mode.  Outputs are gathered on device `output_device` of the list (-1: the host) and returned as by
 * dpx_run.  `devices` is as in the option, NULL: its default; one device splits nothing.  *keep, NULL at first, is a
 * trainer that owns the outputs and makes the next call with the same arguments fast; free it with dpx_trainer_free. */
DPX_API dpx_status dpx_data_parallel(dpx_trainer **keep, const dpx_model *model, const dpx_tensor *inputs, int n,
                                     const char *devices, int output_device, int dim, dpx_tensor *outputs,
                                     int n_outputs) DPX_CHECKED;
/* dpx_run of a batch in parts, as in dpx_train_part; every process gets the whole outputs. */
DPX_API dpx_status dpx_run_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_tensor *outputs,
                                int n_outputs) DPX_CHECKED;

/* Parameters, moments, running statistics, counters.  Before the first step these functions, save and export give the
 * values that the step will begin with.  Where these depend on sizes that the model leaves open, state_count gives 0,
 * and state_info, get_state, set_state and save give DPX_INVALID, until a step was made.  With "batch-size" they are
 * known from the start. */
DPX_API int dpx_trainer_state_count(dpx_trainer *t);
DPX_SIZED dpx_status dpx_trainer_state_info(dpx_trainer *t, int index, dpx_info *out) DPX_CHECKED;
/* Copy to or from the tensor's data, whose type and shape must be the state's.  In a world all processes set state, or
 * resume, before the same step; the step then begins with rank 0's values everywhere, except for sharded state
 * ("shard"), for which all processes pass the same values.
 *
 * No process holds all of a sharded state.  In a world with sharded state all processes therefore call get_state, save
 * and export in the same order between the same steps; those that need no result pass NULL for `out`, `directory` or
 * `path`.  If the others do not make the call, it fails with the state's name, by the world's timeout or at their next
 * exchange, and ends the world. */
DPX_API dpx_status dpx_trainer_get_state(dpx_trainer *t, const char *name, const dpx_tensor *out) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_set_state(dpx_trainer *t, const char *name, const dpx_tensor *in) DPX_CHECKED;
/* The number of optimizer steps begun, since the run began: a resumed one continues it. */
DPX_API int64_t dpx_trainer_step_count(const dpx_trainer *t);

/* Writes a checkpoint `directory`/step-N/{state.safetensors,state.digests,manifest.json} under a temporary name, syncs
 * and renames it.  It keeps `note` (may be NULL), for example the position in the data, which resume returns. */
DPX_API dpx_status dpx_trainer_save(dpx_trainer *t, const char *directory, const char *note) DPX_CHECKED;
/* Loads the newest valid checkpoint below `directory`; the log gets a warning for each newer, damaged one.  In a world
 * each process reads and verifies the state it holds, some of it in later steps; damage found then ends the world.
 * Unless `note` is NULL, *note receives a copy to free().  bytes_resumed: bytes of checkpoints read by this process. */
DPX_API dpx_status dpx_trainer_resume(dpx_trainer *t, const char *directory, char **note) DPX_CHECKED;
DPX_API int64_t dpx_trainer_bytes_resumed(const dpx_trainer *t);
/* dpx_trainer_resume from the checkpoint of one step; DPX_IO if there is none, or it is damaged. */
DPX_API dpx_status dpx_trainer_resume_step(dpx_trainer *t, const char *directory, int64_t step,
                                           char **note) DPX_CHECKED;
/* Reads the whole checkpoint of a step and compares it with its digests; DPX_IO if there is none, or it is damaged. */
DPX_API dpx_status dpx_checkpoint_verify(const char *directory, int64_t step) DPX_CHECKED;
/* Removes the checkpoint of a step; one that is not there is no error. */
DPX_API dpx_status dpx_checkpoint_remove(const char *directory, int64_t step) DPX_CHECKED;

/* Writes the trained model for inference in any runtime: with its original names and opset, running statistics, no
 * operator in training mode, no dropout or stochastic depth.  Other random operators stay. */
DPX_API dpx_status dpx_trainer_export(dpx_trainer *t, const char *path) DPX_CHECKED;

/* Models and checkpoints to and from functions, which receive or give bytes in one or more pieces and leave the trainer
 * alone.  Any status but DPX_OK ends the call with it. */
typedef dpx_status dpx_sink_fn(void *user, const void *bytes, size_t n);
typedef dpx_status dpx_source_fn(void *user, void *to, size_t room, size_t *n); /* sets *n, at most room; 0: the end */
/* The bytes that dpx_trainer_export writes.  DPX_UNSUPPORTED: more than 2 GiB, which need files. */
DPX_API dpx_status dpx_trainer_export_to(dpx_trainer *t, dpx_sink_fn *write, void *user) DPX_CHECKED;
/* The files of a checkpoint, with the bytes that dpx_trainer_save writes, as a tar archive: unpacked below a directory
 * it is a checkpoint there.  In a world as save and export; `write` NULL: takes part. */
DPX_API dpx_status dpx_trainer_save_to(dpx_trainer *t, dpx_sink_fn *write, void *user, const char *note) DPX_CHECKED;
/* dpx_trainer_resume from such an archive, which needs room for it below $TMPDIR or /tmp.  DPX_IO: the stream is cut
 * off, is something else, or does not have its digests; then nothing changes. */
DPX_API dpx_status dpx_trainer_load_from(dpx_trainer *t, dpx_source_fn *read, void *user, char **note) DPX_CHECKED;

#include "dpexec_data.h" /* samples of any structure */

/* ---- inference by many threads ---- */

/* Errors: as those of a trainer's steps.  A prediction that fails does not affect others.
 * Threads: any number at once for a predictor; each trainer, model or options by one thread at a time. */

/* A model and weights of its own.  Any number of threads may call dpx_predict, dpx_predictor_warm and
 * dpx_predictor_take at once; the trainer of a take is used by the calling thread.  Threads that predict at the same
 * time have activations of their own and share the weights. */
typedef struct dpx_predictor dpx_predictor;
/* A predictor of a model's own weights (trainer NULL), or with a copy of a trainer's present ones; model NULL: the
 * trainer's.  `options` has one device, of which each caller at the same time gets as many threads; NULL: the trainer's
 * options, else the defaults with what the model was loaded with, on one processor core.  Options of training have no
 * effect. */
DPX_API dpx_status dpx_predictor_create(dpx_predictor **out, const dpx_model *model, dpx_trainer *trainer,
                                        const dpx_options *options) DPX_CHECKED;
/* Frees the predictor.  All calls must have returned; NULL is legal. */
DPX_API void dpx_predictor_free(dpx_predictor *predictor);
/* Copies the trainer's present weights, by name, as dpx_run reads them (with "eval-weights" ema, the means).  It waits
 * for calls under way, and holds back others only while it copies: each prediction is of one set of weights.  In a
 * world all processes call it, each with a predictor of its own; if one cannot, all fail.  DPX_INVALID: a parameter of
 * the trainer is a constant of the predictor, or its states are not known before the first call, which
 * dpx_predictor_warm can make; nothing changes.  After another failure some weights may be new: take them again. */
DPX_API dpx_status dpx_predictor_take(dpx_predictor *predictor, dpx_trainer *trainer) DPX_CHECKED;
/* The outputs for a batch of inputs, given as in dpx_run, in evaluation mode: a map from names to tensors, to be freed
 * with dpx_data_free.  The bytes are those of dpx_run on one device of the same kind with one replica.  The first call
 * of new shapes in each of the threads at the same time compiles. */
DPX_API dpx_status dpx_predict(dpx_predictor *predictor, const dpx_tensor *inputs, int n,
                               dpx_data **outputs) DPX_CHECKED;
/* Makes `callers` calls with these inputs, so that later so many at the same time need not compile their shapes. */
DPX_API dpx_status dpx_predictor_warm(dpx_predictor *predictor, int callers, const dpx_tensor *inputs,
                                      int n) DPX_CHECKED;
/* The model, in evaluation mode, with gradients of its output `of`, to be run by a predictor, which may take a
 * trainer's weights.  `with_respect_to` lists inputs and parameters, "x,w"; their gradients are outputs "NAME.grad". An
 * output of several elements is multiplied by a new input "seed" of its shape; the gradients are those of the sum.  The
 * model is in operators of ai.onnx alone (graph-transform --gradient-of).  `options` NULL: the defaults. */
DPX_API dpx_status dpx_model_gradient(dpx_model **out, const dpx_model *model, const dpx_options *options,
                                      const char *of, const char *with_respect_to) DPX_CHECKED;

/* Runs any model, also one whose control flow, sequences or shapes depend on data (for which loading or running returns
 * DPX_UNSUPPORTED); see docs/reference/onnx.md.  The reference kernels compute it node by node in one thread, except
 * parts with products or convolutions whose shapes are known, which run as programs on "devices".  Inputs and outputs
 * are maps from names to tensors or, for sequences, lists of tensors, without empty optionals; a single input may be
 * named "". Used from `options`: "devices", "max-nodes", "plan-memory" and the embedder's operators. */
DPX_API dpx_status dpx_interpret(dpx_data **outputs, const char *path, const dpx_options *options,
                                 const dpx_data *inputs) DPX_CHECKED;

#include "dpexec_sized.h" /* the functions declared with DPX_SIZED */

#ifdef __cplusplus
}
#endif

#endif
