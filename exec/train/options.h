/* The options of a training run: one table of names, types, ranges and help texts serves the command line, the C API
 * and args.json. */
#ifndef DPX_OPTIONS_H
#define DPX_OPTIONS_H

#include "exec/run/program.h"
#include "graph/recipes/schedule.h"
#include "include/dpexec.h"
#include "passes/build_options.h"

enum { MAX_GROUPS = 64 };

/* To which longest sample a replica's are padded; auto: of groups its own, of others the step's. */
typedef enum { PAD_TO_AUTO, PAD_TO_STEP, PAD_TO_REPLICA } PadTo;

typedef struct OptionGroup OptionGroup; /* exec/train/options_groups.h */

/* A callback for the copies of nodes when a trainer is made (dpx_options_on_replicate). */
typedef struct {
    const char *pattern;         /* NULL: none */
    dpx_replicate_fn *replicate; /* NULL: no callback */
    void (*release)(void *context);
    void *user;
} Replication;

/* See options.c for what each means on the command line. */
typedef struct {
    BuildOptions build; /* its pointers live in `arena` */
    const ScheduleDef *schedule;
    RecipeSettings schedule_settings;
    int64_t warmup_steps;
    double lr;
    bool plain_defaults; /* of optimizers; else each has its own */
    OptionGroup *group;  /* as build.group */
    int n_group;
    bool export_ema;               /* else the parameters as they are trained */
    const char *export_preprocess; /* the file of a graph in front of what is exported; NULL: none */
    int64_t accumulate;
    bool across_epochs;                           /* groups of them */
    const char *preprocess, *augment, *criterion; /* files of graphs around the model (exec/train/attach.h), or NULL */
    const char *devices;                          /* as given; NULL: the default */
    const char *links;     /* a file that describes the devices (exec/inspect/links.h); NULL: none, or build.sum_cost */
    int compat;            /* another system's defaults: its place among the choices */
    bool loss_scale_given; /* else what precision makes of it */
    bool tune;             /* on accelerators: measure algorithms */
    Ways ways;
    PadTo pad_to;
    int programs;              /* that a session keeps */
    int threads;               /* per device; 0: cores / devices */
    int loader_threads;        /* of this process, which have cores of their own unless `threads` is set */
    dpx_world *world;          /* lent; NULL: this process alone */
    dpx_operators **operators; /* [n_operators] held */
    int n_operators;
    Replication replication;
    const char **text; /* by option index: the text in force, NULL: the default */
    Arena *arena;
} Options;

Options *options_create(void); /* NULL when out of memory */
void options_free(Options *o); /* NULL is legal */
Status options_copy(Options **out, const Options *o) CHECKED;
Status options_set(Options *o, const char *name, const char *value) CHECKED;
Status options_set_class_weights(Options *o, const Tensor *weights) CHECKED;
Status options_set_target_shape(Options *o, const Shape *shape) CHECKED;
/* Copies the lists of inputs from `o`, with their texts (options_inputs.c). */
Status options_copy_inputs(Options *copy, const Options *o) CHECKED;
/* A copy in the arena of a list of n elements of `size` bytes, with a zeroed one behind them; NULL: no memory. */
void *options_grow(Arena *a, const void *list, size_t size, int n);
/* Sets bits of the axes along which an input has samples, where the model leaves that open. */
Status options_set_carries(Options *o, const char *input, unsigned axes) CHECKED;
/* Sets the values of other options, given as options_get(other, "input-value") has them: "rate=8;mask=1,0". */
Status options_set_input_values(Options *o, const char *text) CHECKED;
/* `members` gives the number of members of an input that is a sequence or optional (InputOptions.members). */
void options_set_members(Options *o, int (*members)(void *user, const char *input, int sequence, int optional),
                         void *user);
Status options_set_operators(Options *o, dpx_operators *set) CHECKED;
Status options_set_replication(Options *o, const Replication *r) CHECKED; /* the pattern is copied */
/* Adds the operators of a shared library, which stays loaded; `to` is an Options. */
Status options_add_library(const Setting *r, void *to, const char *path) CHECKED;
/* Lists the operators of all sets, in the arena. */
Status options_operators(OperatorList *out, Arena *a, const Options *o) CHECKED;
/* Flags that nothing chosen has, and what those of a recipe say together. */
Status options_check_recipes(const Options *o) CHECKED;
/* Checks that concern several options, recipes among them. */
Status options_check(const Options *o) CHECKED;
/* Like dpx_choice_default. */
const char *options_choice_default(const char *option, const char *choice, const char *flag);
/* "a|b|c", the words that an option takes; "" for one that takes others. */
const char *options_choices(const char *name);
int options_count(void);
dpx_option_info options_at(int index);
const char *options_get(const Options *o, const char *name);
bool options_given(const Options *o, const char *name);

/* The devices of this process that the options name, as they are to be opened. */
Status options_devices(DeviceList *out, const Options *o) CHECKED;
/* The learning rate of group k, counted from 1 (0: of all other parameters), in optimizer step `step`, counted from 0.
 * `state`: [1 + n_group] of schedules that observe; NULL: nothing was observed. */
double options_group_rate(const Options *o, int k, int64_t step, const ScheduleState *state);
/* The measurements that schedules of the run or a group observe: bits of ObservedKind. */
int options_observe(const Options *o);
/* Gives an evaluation to each schedule that observes. */
void options_observed(const Options *o, ScheduleState *state, double loss, double metric);

#endif
