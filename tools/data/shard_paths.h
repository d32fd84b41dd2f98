/* Paths of the shards of a data set: brace expressions, globs and folders. */
#ifndef DPX_TOOLS_SHARD_PATHS_H
#define DPX_TOOLS_SHARD_PATHS_H

#include "graph/base/status.h"

typedef struct {
    char **path; /* [n] */
    size_t n, room;
} ShardPaths;

/* Lists the shards that a pattern names, in order:
 *
 *     train-{000..146}.tar   numbers, with zeros in front as the first or the last has them; {a,b}: texts
 *     train-*.tar            a glob: sorted by bytes
 *     FOLDER                 all *.tar in it, sorted by bytes
 *
 * Names without * ? [ are listed whether or not there is such a file.  E_IO: a glob or a folder without any; E_INVALID:
 * more than SHARDS_MOST. */
Status shard_paths_find(ShardPaths *out, const char *pattern) CHECKED;
void shard_paths_free(ShardPaths *s);

enum { SHARDS_MOST = 1 << 16 };

#endif
