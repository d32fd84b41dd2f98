/* Samples of any structure, and batches made of them, as exec/api/data.c, collate.c and scatter.c see them. */
#ifndef DPX_DATA_VALUE_H
#define DPX_DATA_VALUE_H

#include "exec/api/api.h"

struct dpx_data {
    _Atomic int users;
    dpx_data_kind kind;
    int n;                   /* members, groups; of a container 1 */
    const dpx_data **member; /* [n] held */
    char **key;              /* [n] of a map */
    dpx_container how;       /* of a container, of groups that of their first sample, of a stacked tensor its group's */
    Tensor tensor;
    Arena *texts;     /* what a tensor of strings points into; else NULL */
    double *padding;  /* [dim 0] of a stacked tensor: with what each sample is padded; else NULL */
    int64_t *samples; /* [n] of groups */
};

/* Room for n members, none of them there yet, and of a map for keys. */
Status data_create(dpx_data **out, dpx_data_kind kind, int n) CHECKED;
/* A tensor of zeros; of strings there is none. */
Status data_create_tensor(dpx_data **out, DType dtype, const Shape *shape) CHECKED;
Status data_copy_tensor(dpx_data **out, const Tensor *from) CHECKED;
const dpx_data *data_keep(const dpx_data *d);
void data_release(const dpx_data *d); /* NULL is legal */
Status data_set_key(dpx_data *d, int i, const char *key) CHECKED;
const char *data_kind_name(const dpx_data *d); /* "a list" */

/* Where in a structure something is, from the inside out. */
typedef struct DataPath {
    const struct DataPath *up; /* NULL: the whole */
    const char *key;           /* NULL: member `index` */
    int index;
} DataPath;

enum { DATA_PATH_TEXT = 256 };
/* "boxes[1]"; of the whole "the batch". */
const char *data_path_text(char text[DATA_PATH_TEXT], const DataPath *path);

/* Has the type such a number?  `one` receives it. */
bool data_padding(unsigned char one[8], DType dtype, double value);
/* `to`, of shape `wide`, gets the elements of `from`, which is nowhere wider, in front, and behind them `one`. */
void data_pad(void *to, const Shape *wide, const Tensor *from, const unsigned char one[8]);

/* How many samples groups of the batch have, [n]; n 0: it has no groups, and `total` samples.  E_INVALID: members
 * disagree. */
typedef struct {
    int n;
    const int64_t *samples; /* lent by the batch */
    int64_t total;          /* -1: no member has samples */
} DataGroups;

Status data_groups(DataGroups *out, const dpx_data *batch) CHECKED;

#endif
