/* What is trained: the evidence and the decision about every float constant of a model.
 *
 * parameters.c asks, in this order: the user's patterns and list (parameters_list.c), what the file says
 * (Value.evidence), and rules over names (parameters_names.c), values (parameters_values.c) and places
 * (parameters_reach.c). docs/parameters.md tells all of it. */
#ifndef DPX_PARAMETERS_H
#define DPX_PARAMETERS_H

#include "graph/ir/op.h"
#include "passes/pass.h"
#include "passes/report.h"

/* ---- parameters_reach.c: what a constant does in the model ---- */
enum {
    REACH_WEIGHT = 1,    /* stands where an operator declares a parameter: Conv, Gemm, MatMul, Gather's table, PRelu */
    REACH_NORM = 2,      /* likewise, of a normalisation */
    REACH_STATISTIC = 4, /* running mean or variance of a BatchNormalization */
    REACH_BIAS = 8,      /* is added to the result of an operator with weights */
    REACH_TERM = 16,     /* Add and Mul: a bias or a scale, or a piece of a formula */
    REACH_COLOUR = 32,   /* few numbers that meet the model's input before any weights */
    REACH_RATIO = 64,    /* a divisor or an exponent */
    REACH_FLOW = 128,    /* becomes data: Concat, Where, Expand, Sub ... */
    REACH_SETTING = 256, /* a bound or a filling value, which has a derivative (OpDef.tunable_in) */
    REACH_CELL = 512     /* with REACH_WEIGHT: of a recurrent cell, whose weights no code writes as numbers */
};

typedef struct {
    const Graph *g;
    bool *live;        /* by node index: some output needs it */
    bool *constant;    /* by value id: computed from constants alone */
    bool *raw;         /* by value id: computed from an input without any operator with weights */
    uint16_t *reach;   /* by value id: REACH_; 0: nothing that could be differentiated */
    bool *both;        /* by value id: one number that scales both factors of a matrix product, as attention's is */
    bool *spread;      /* by value id: is added to several channels behind weights (told of one number alone) */
    bool *by_instance; /* by value id: scale or bias of an InstanceNormalization, as a GroupNorm may be written */
    bool *rescales;    /* by value id: scale or shift of a batch-norm that is written as a formula */
    bool *normalises;  /* by value id: mean or variance of a batch-norm that is written as a formula */
    bool *weighs;      /* by value id: does nothing but multiply the terms of a loss */
    bool *of_loss;     /* by value id: only a loss depends on it, and the file has other outputs */
} Reach;

Status reach_find(Reach *r, const Graph *g, Arena *a) CHECKED;

/* ---- batch_norm_formula.c ---- */
Status formula_find(Reach *r, Arena *a) CHECKED; /* fills `normalises` */

/* ---- loss_weights.c ---- */
Status loss_weights_find(Reach *r, const BuildOptions *opt, Arena *a) CHECKED; /* fills `weighs`, `of_loss` */

/* ---- parameters_values.c: what the numbers tell ---- */
typedef enum {
    LOOKS_PLAIN,
    LOOKS_UNIFORM, /* one number, many times */
    LOOKS_SWITCH,  /* zeros and ones, both */
    LOOKS_MASK,    /* zeros and one large negative number, or any number below -1e4 */
    LOOKS_WINDOW,  /* a filter whose numbers are not negative and sum to 1: it smooths */
    LOOKS_STEPS,   /* evenly spaced, or each a multiple of the one before: positions, the points of a grid, rates */
    LOOKS_WAVES    /* sines and cosines of one angle: a table of positions */
} Looks;

Looks tensor_looks(const Tensor *t);
/* A filter [O, I, spatial...] that nobody learned: the same kernel for all channels, or kernels of few magnitudes
 * (Gauss, Sobel, Haar).  Kernels of one number throughout alone are none. */
bool tensor_is_fixed_filter(const Tensor *t);
/* Of the numbers, whatever type and shape hold them; `transposed`: of the matrix's transpose. */
uint64_t tensor_digest(const Tensor *t, bool transposed);

/* ---- parameters_names.c: what the names tell ---- */
typedef enum {
    NAME_PLAIN,    /* of a producer whose names are not known here */
    NAME_KEY,      /* a key of the framework's parameters and buffers: "features.0.weight" */
    NAME_VARIABLE, /* a variable of the framework: only parameters and statistics are */
    NAME_MADE      /* the exporter made it up: "val_5", "onnx::MatMul_123" */
} NameForm;
typedef enum { MEANS_NOTHING, MEANS_PARAMETER, MEANS_BUFFER } NameMeaning;

NameForm name_form(const Graph *g, const Value *v, bool torch_export);
NameMeaning name_meaning(const char *name);
/* The vectors u and v with which spectral_norm estimates a norm: buffers beside the weight NAME_orig. */
bool name_is_power_iteration(const Graph *g, const char *name);
/* Of what the exporter says that it computed a constant from (Value.folded_from): the module's own, if any is named;
 * what the exporter's signature says of these, else what their names do. */
NameMeaning folded_meaning(const Graph *g, const char *folded_from);
bool name_is_moved(const char *name);
/* Are its sources parameters by the file that the model still has, and none of them gone? */
bool folded_beside(const Graph *g, const char *folded_from);

bool producer_is(const Graph *g, const char *name);
/* PyTorch's newer exporter (torch.export), which describes its initializers. */
bool from_torch_export(const Graph *g);

/* ---- parameters_list.c: what the user says ---- */
/* A name of --parameters FILE; numbers are known where the file holds them. */
typedef struct {
    const char *name;
    bool has_numbers, is_float;
    int64_t numel;
    uint64_t digest, digest_transposed;
    Looks looks;
} ParameterKey;

typedef struct ParameterList {
    const char *path;
    const ParameterKey *key;
    int n;
} ParameterList;

typedef struct {
    const char **by; /* by value id: the key that names it, or NULL */
    const ParameterKey **key;
} ParameterMatch;

/* E_INVALID lists the keys that belong to nothing. */
Status parameter_list_match(ParameterMatch *out, const ParameterList *list, const Graph *g, const Reach *r,
                            Arena *a) CHECKED;

typedef enum { PATTERN_SILENT, PATTERN_TRAIN, PATTERN_FREEZE } PatternRule;
/* What --train and --freeze say of a name: the pattern with the most characters that are no wildcards decides, --freeze
 * among equals.  `pattern`, if not NULL, gets it. */
PatternRule pattern_rule(const BuildOptions *opt, const char *name, const char **pattern);
bool pattern_is_name(const char *pattern); /* it has no wildcard */
/* E_INVALID lists the patterns that match no float constant and no BatchNormalization. */
Status pattern_check(const BuildOptions *opt, const Graph *g) CHECKED;

/* ---- parameters_obeyed.c: parameters by name, file or flag that are not trained ---- */
#define REASON_QAT_OFF "behind a quantiser, with --qat off"
#define REASON_NOT_READ "the forward pass does not use it"

typedef struct {
    bool trained, guess;
    const char *reason;
} Verdict;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    Reach reach;
    ParameterMatch list;  /* of --parameters; NULLs without */
    bool *quantised;      /* by value id, with --qat off: stands behind a quantiser; NULL without */
    bool *read;           /* by value id: by a node that some output needs, or it is an output */
    Verdict *verdict;     /* by value id, of float constants */
    bool literal_weights; /* the file keeps its weights in Constant nodes */
    bool torch_export;
} Parameters;

/* E_INVALID where all that a --train pattern or --parameters names stays fixed.  Warns of parameters that no derivative
 * reaches, with the node where their way ends. */
Status parameters_obeyed(const Parameters *p) CHECKED;

/* lost_names.c: warns of patterns that miss weights of modules that they match, for an exporter renamed those */
Status note_lost_names(const Parameters *p) CHECKED;

/* ---- parameters_note.c: what exporters lose ---- */
Status exporter_notes(const Graph *g, Report *report, const Reach *r, Arena *a) CHECKED;
/* folded_norm.c: batch-norms that are in the weights of the layers in front of them */
Status note_folded_norms(const Graph *g, Report *report, bool torch_export) CHECKED;

/* lost_detach.c: straight-through estimators without their detach() */
Status note_lost_detach(const Graph *g, Report *report) CHECKED;

#endif
