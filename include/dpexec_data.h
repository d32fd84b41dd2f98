/* The part of dpexec.h about samples of any structure (docs/reference/ragged.md).  Include dpexec.h. */
#ifndef DPEXEC_DATA_H
#define DPEXEC_DATA_H

#if !defined(DPEXEC_H)
#error "include dpexec.h, of which this is a part"
#endif

/* ---- samples of any structure (docs/reference/ragged.md) ---- */

/* Errors: DPX_SHAPE for samples whose structure, types or shapes differ, DPX_INVALID for a kind that the function does
 * not take; the message names the place.  Steps fail as those of a trainer do.
 * Threads: data do not change, so any threads may read them at the same time, and free their own handles.  Steps: one
 * thread at a time for a trainer. */

/* A tensor, a list or a map of data, or a container, which sets how its content becomes part of a batch.  It is
 * immutable; data made from it hold a reference. */
typedef struct dpx_data dpx_data;
typedef enum {
    DPX_DATA_TENSOR,
    DPX_DATA_LIST,
    DPX_DATA_MAP,
    DPX_DATA_CONTAINER,
    DPX_DATA_GROUPS /* result of dpx_collate for containers: for each group a list, or a tensor of its samples */
} dpx_data_kind;

typedef struct {
    size_t size;          /* sizeof(dpx_container) */
    int stack;            /* 1: the tensors of a group are stacked; 0: they stay a list */
    double padding_value; /* fills axes that are shorter than others of the group */
    int pad_dims;         /* number of last axes that may differ, up to 3; 0: none */
    int cpu_only;         /* 1: stays on the host as a list, whatever `stack`; never an input of a model */
} dpx_container;

#define DPX_CONTAINER_DEFAULTS            \
    {                                     \
        sizeof(dpx_container), 0, 0, 2, 0 \
    }

/* Copies the elements, strings included; dpx_collate, dpx_scatter and steps do not accept strings. */
DPX_API dpx_status dpx_data_tensor(dpx_data **out, const dpx_tensor *tensor) DPX_CHECKED;
/* Hold references to their members, so the caller may free these.  With n 0, `member` may be NULL. */
DPX_API dpx_status dpx_data_list(dpx_data **out, const dpx_data *const *member, int n) DPX_CHECKED;
DPX_API dpx_status dpx_data_map(dpx_data **out, const char *const *key, const dpx_data *const *member,
                                int n) DPX_CHECKED;
/* A container of a tensor, list or map; `how` NULL: DPX_CONTAINER_DEFAULTS. */
DPX_API dpx_status dpx_data_container(dpx_data **out, const dpx_data *content, const dpx_container *how) DPX_CHECKED;
/* Frees this reference to the data.  NULL is legal. */
DPX_API void dpx_data_free(dpx_data *data);

/* The kind of data; the number of its members or groups (container: 1; tensor: 0); its members by index, counted from
 * 0, and for maps by key, lent by `data`.  NULL past the end, or without such a key. */
DPX_API dpx_data_kind dpx_data_kind_of(const dpx_data *data);
DPX_API int dpx_data_count(const dpx_data *data);
DPX_API const dpx_data *dpx_data_at(const dpx_data *data, int index);
DPX_API const char *dpx_data_key(const dpx_data *data, int index);
DPX_API const dpx_data *dpx_data_find(const dpx_data *data, const char *key);
/* Views a tensor, whose name is NULL, without a copy; valid as long as `data`. */
DPX_API dpx_status dpx_data_view(const dpx_data *data, dpx_tensor *out) DPX_CHECKED;

/* Makes a batch of n samples of the same structure, in groups of `samples_per_replica` (0: 1); the last may be smaller.
 * Lists are transposed, maps collated by the first sample's keys, plain tensors stacked on a new axis 0; containers
 * become groups.  A group's first sample decides whether it is stacked and how many axes are padded to the largest of
 * the group; each sample is padded with its own value.  Errors name the place, such as "boxes[1]". */
DPX_API dpx_status dpx_collate(dpx_data **out, const dpx_data *const *sample, int n,
                               int samples_per_replica) DPX_CHECKED;
/* Splits a batch into out[0..replicas): each gets its group, and of tensors as many samples along axis 0 (a scalar
 * goes to all).  Without groups samples are split evenly.  Replicas past the last group get empty lists and axes of
 * size 0.  DPX_INVALID: more groups than replicas, or members of different sizes.  On failure *out is not set. */
DPX_API dpx_status dpx_scatter(dpx_data **out, const dpx_data *batch, int replicas) DPX_CHECKED;

/* Steps over a collated map from names of inputs and targets to stacked groups or tensors; cpu_only data are ignored.
 * Groups, at most one for each replica, are the parts of the batch, whatever "split"; without groups "split" makes the
 * parts.  Groups are computed as they are or, with "pad-to" step, padded to the largest of the step, each sample with
 * its own value.  In a world all processes pass the whole batch. */
DPX_SIZED dpx_status dpx_train_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out) DPX_CHECKED;
DPX_SIZED dpx_status dpx_val_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out) DPX_CHECKED;
DPX_API dpx_status dpx_run_data(dpx_trainer *t, const dpx_data *inputs, dpx_tensor *outputs, int n_outputs) DPX_CHECKED;

#endif
