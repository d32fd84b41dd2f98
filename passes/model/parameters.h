/* Which float constants of a model are trained: the evidence, and the decision about each.
 *
 * parameters.c uses, in this order: the user's patterns and list (parameters_list.c), the file's own marks
 * (Value.evidence), and rules over names (parameters_names.c), numbers (parameters_values.c) and places
 * (parameters_reach.c). docs/reference/parameters.md describes them. */
#ifndef DPX_PARAMETERS_H
#define DPX_PARAMETERS_H

#include "graph/ir/op.h"
#include "passes/pass.h"
#include "passes/report.h"

/* ---- parameters_reach.c: the role of a constant in the model ---- */
enum {
    REACH_WEIGHT = 1,    /* stands where an operator declares a parameter: Conv, Gemm, MatMul, Gather's table, PRelu */
    REACH_NORM = 2,      /* stands there in a normalisation */
    REACH_STATISTIC = 4, /* running mean or variance of a BatchNormalization */
    REACH_BIAS = 8,      /* is added to the result of an operator with weights */
    REACH_TERM = 16,     /* Add and Mul: a bias or a scale, or a piece of a formula */
    REACH_COLOUR = 32,   /* few numbers that are combined with the model's input before any weights */
    REACH_RATIO = 64,    /* a divisor or an exponent */
    REACH_FLOW = 128,    /* becomes data: Concat, Where, Expand, Sub ... */
    REACH_SETTING = 256, /* a bound or a filling value, which has a derivative (OpDef.tunable_in) */
    REACH_CELL = 512     /* with REACH_WEIGHT: of a recurrent cell, whose weights are never numbers of the code */
};

typedef struct {
    const Graph *g;
    bool *live;        /* by node index: some output depends on it */
    bool *constant;    /* by value id: computed from constants alone */
    bool *raw;         /* by value id: computed from an input without any operator with weights */
    uint16_t *reach;   /* by value id: REACH_; 0: no derivative reaches it */
    bool *both;        /* by value id: one number that scales both factors of a matrix product, as in attention */
    bool *spread;      /* by value id: added to several channels behind weights (used for single numbers) */
    bool *by_instance; /* by value id: scale or bias of an InstanceNormalization, as a GroupNorm may be written */
    bool *rescales;    /* by value id: scale or shift of a batch-norm that is written as a formula */
    bool *normalises;  /* by value id: mean or variance of a batch-norm that is written as a formula */
    bool *weighs;      /* by value id: only multiplies the terms of a loss */
    bool *of_loss;     /* by value id: only a loss depends on it, though the file has other outputs */
} Reach;

/* Fills *r with arrays of the arena `a`. */
Status reach_find(Reach *r, const Graph *g, Arena *a) CHECKED;

/* ---- parameter_kinds.c ---- */
/* KIND_ (passes/options/update.h) of each value, by its id: of what no operator reads as anything else. */
Status parameter_kinds(unsigned char **out, const Reach *r, Arena *a) CHECKED;

/* ---- hidden_matrices.c ---- */
/* MatrixKind (graph/ir/op.h) of each value, by its id. */
Status hidden_matrices_find(uint8_t **out, const Reach *r, Arena *a) CHECKED;

/* ---- batch_norm_formula.c ---- */
Status formula_find(Reach *r, Arena *a) CHECKED; /* fills `normalises`, `rescales`, `by_instance` */
/* The value whose elements v has in another shape or type; v itself if it has its own. */
ValueId formula_behind(const Graph *g, ValueId v);

/* ---- norm_formula.c ---- */
/* Adds KIND_NORM and KIND_BIAS to scales and biases, by value id. */
Status norm_formula_find(unsigned char *kind, const Reach *r, Arena *a) CHECKED;

/* ---- loss_weights.c ---- */
Status loss_weights_find(Reach *r, const BuildOptions *opt, Arena *a) CHECKED; /* fills `weighs`, `of_loss` */

/* ---- parameters_values.c: recognition by numbers ---- */
typedef enum {
    LOOKS_PLAIN,
    LOOKS_UNIFORM, /* one number, many times */
    LOOKS_SWITCH,  /* zeros and ones */
    LOOKS_MASK,    /* zeros and one large negative number, or any number below -1e4 */
    LOOKS_WINDOW,  /* a filter whose numbers are not negative and sum to 1: it smooths */
    LOOKS_STEPS,   /* evenly spaced, or each a multiple of the one before: positions, the points of a grid, rates */
    LOOKS_WAVES    /* sines and cosines of one angle: a table of positions */
} Looks;

Looks tensor_looks(const Tensor *t);
/* Is the filter [O, I, spatial...] fixed rather than learned: the same kernel for all channels, or kernels of few
 * magnitudes (Gauss, Sobel, Haar)?  Kernels of one number throughout are no evidence. */
bool tensor_is_fixed_filter(const Tensor *t);
/* A hash of the numbers, independent of type and shape.  `transposed`: the hash of the matrix's transpose. */
uint64_t tensor_digest(const Tensor *t, bool transposed);

/* ---- parameters_names.c: recognition by names ---- */
typedef enum {
    NAME_PLAIN,    /* from a producer whose names are unknown here */
    NAME_KEY,      /* a key of the framework's parameters and buffers: "features.0.weight" */
    NAME_VARIABLE, /* a variable of the framework, which is a parameter or a statistic */
    NAME_MADE      /* the exporter made it up: "val_5", "onnx::MatMul_123" */
} NameForm;
typedef enum { MEANS_NOTHING, MEANS_PARAMETER, MEANS_BUFFER } NameMeaning;

NameForm name_form(const Graph *g, const Value *v, bool torch_export);
/* The meaning of the last part of a name: "features.0.weight" is a parameter, "bn.running_mean" a buffer. */
NameMeaning name_meaning(const char *name);
/* Is it one of the vectors u and v with which spectral_norm estimates a norm, buffers beside the weight NAME_orig? */
bool name_is_power_iteration(const Graph *g, const char *name);
/* The meaning of the sources that a constant was computed from (Value.folded_from, "['fc.weight', 'val_3']"): a
 * parameter if one is, by the exporter's signature or else by name; a buffer if all are buffers or results. */
NameMeaning folded_meaning(const Graph *g, const char *folded_from);
/* Does a result of this name hold the numbers of its sources, in other places?  "val_7" is a Linear's weight,
 * transposed. */
bool name_is_moved(const char *name);
/* Is a source a parameter by the file's marks, and does the model still have all sources? */
bool folded_beside(const Graph *g, const char *folded_from);

bool producer_is(const Graph *g, const char *name);
/* PyTorch's newer exporter (torch.export), which describes its initializers. */
bool from_torch_export(const Graph *g);

/* ---- parameters_list.c: the user's choice ---- */
/* A name of --parameters FILE, with a digest of its numbers where the file holds them. */
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
    const char **by; /* by value id: the name of its key, or NULL */
    const ParameterKey **key;
} ParameterMatch;

/* E_INVALID lists the keys that match no tensor of the model. */
Status parameter_list_match(ParameterMatch *out, const ParameterList *list, const Graph *g, Arena *a) CHECKED;

typedef enum { PATTERN_SILENT, PATTERN_TRAIN, PATTERN_FREEZE } PatternRule;
/* The rule of --train and --freeze for a name.  The matching pattern with the most literal characters decides, --freeze
 * among equals; *pattern, unless NULL, becomes that pattern. */
PatternRule pattern_rule(const BuildOptions *opt, const char *name, const char **pattern);
bool pattern_is_name(const char *pattern); /* without wildcards */
/* E_INVALID lists the patterns that match no float constant and no BatchNormalization. */
Status pattern_check(const BuildOptions *opt, const Graph *g) CHECKED;

/* ---- parameters_obeyed.c: parameters by name, file or flag that stay fixed ---- */
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
    ParameterMatch list;  /* --parameters; without it, NULLs */
    bool *quantised;      /* by value id: --qat off stops its derivative at a quantiser; without it, NULL */
    bool *read;           /* by value id: it is an output, or a node reads it that some output depends on */
    Verdict *verdict;     /* by value id; .reason is NULL but for float constants */
    bool literal_weights; /* the file keeps its weights in Constant nodes */
    bool torch_export;
} Parameters;

/* E_INVALID if every tensor that a --train pattern or --parameters names stays fixed.  Warns of parameters that no
 * derivative reaches, and names the node where their path to the loss ends. */
Status parameters_obeyed(const Parameters *p) CHECKED;

/* lost_names.c: warns of patterns that match a module but miss its weights, because an exporter renamed these */
Status note_lost_names(const Parameters *p) CHECKED;

/* ---- parameters_note.c: losses of exporters ---- */
/* Warns of each loss that the file shows, or that the exporter is known for. */
Status exporter_notes(const Graph *g, Report *report, const Reach *r, Arena *a) CHECKED;
/* folded_norm.c: batch-norms that the exporter folded into the weights of the layers in front of them */
Status note_folded_norms(const Graph *g, Report *report, bool torch_export) CHECKED;

/* lost_detach.c: straight-through estimators without their detach() */
Status note_lost_detach(const Graph *g, Report *report) CHECKED;

#endif
