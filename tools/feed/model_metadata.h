/* What a model's file says of its data and its task, as metadata_props (docs/guide/deploy.md lists the keys). */
#ifndef DPX_TOOLS_MODEL_METADATA_H
#define DPX_TOOLS_MODEL_METADATA_H

#include <jansson.h>

#include "tools/args.h"

#define METADATA_SCORES "scores"
#define METADATA_BLOCK "block" /* graph/networks/gpt.c writes it */

/* Sets the metadata by what the run's sources fitted and by its loss; keys that do not apply are removed.  `joined`:
 * the exported file contains the preprocessing, which its user then must not repeat. */
Status metadata_write(dpx_model *m, const json_t *fitted, const Args *a, bool joined) CHECKED;
/* The names of the classes that the run's sources fitted, of folders or of a table's target; NULL: none. */
const json_t *metadata_class_names(const json_t *fitted);
/* The tokens that the model reads at most, where its input leaves their number open; 0: the file does not say. */
int64_t metadata_block(const dpx_model *m);
/* Whether the file contains its preprocessing, so that its inputs are raw. */
bool metadata_is_joined(const dpx_model *m);
/* Reads the fitted facts; *out is NULL where the file has none.  E_IO: they are something else. */
Status metadata_fitted(json_t **out, const dpx_model *m, const char *path) CHECKED;

#endif
