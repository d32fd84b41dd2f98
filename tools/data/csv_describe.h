/* Rows of a table, for people. */
#ifndef DPX_TOOLS_CSV_DESCRIBE_H
#define DPX_TOOLS_CSV_DESCRIBE_H

#include "tools/data/data.h"

/* Describes a row by its columns as the file has them, those that are predicted too; of a text the tokens that the
 * model gets.  See DataFormat.describe. */
Status csv_describe(Dataset *d, int64_t row, size_t bytes, SampleFact *take, void *user) CHECKED;

#endif
