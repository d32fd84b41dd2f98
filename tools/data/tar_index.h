/* Index of tar shards as WebDataset writes them: which members belong to which sample, and where their bytes are.
 *
 * Members that follow each other and whose names are equal up to the first dot of their last part are one sample:
 *
 *     a/0001.jpg, a/0001.cls, a/0001.seg.png     sample a/0001 with keys jpg, cls, seg.png */
#ifndef DPX_TOOLS_TAR_INDEX_H
#define DPX_TOOLS_TAR_INDEX_H

#include <stdbool.h>

#include "graph/base/mapped.h"

enum { TAR_KEYS_MOST = 64 };

typedef struct {
    const uint8_t *data;
    size_t size;
    int key;
} TarMember;

typedef struct {
    char *name;    /* path of the shard, "/", and the sample's name */
    int64_t first; /* of its members */
    int n;         /* members */
} TarSample;

typedef struct {
    Mapped *shard;
    int64_t shards;
    size_t root;              /* length of the folder, with its slash, that all paths of shards begin with */
    char *key[TAR_KEYS_MOST]; /* "jpg", in lower case */
    int keys;
    TarMember *member;
    TarSample *sample;
    int64_t members, samples;
    size_t member_room, sample_room;
    char *open_end; /* a line about shards that may be cut off; NULL: there are none */
} TarIndex;

/* Maps the shards that `pattern` names (tools/data/shard_paths.h), and reads their headers once.  Errors name shard and
 * member. */
Status tar_index_open(TarIndex *out, const char *pattern) CHECKED;
void tar_index_close(TarIndex *t);
bool tar_same_key(const char *a, const char *b); /* equal but for the case of ASCII letters */
int tar_key(const TarIndex *t, const char *key); /* its number, in letters of any case; -1: no sample has it */
const TarMember *tar_member(const TarIndex *t, int64_t sample, int key); /* NULL: the sample lacks it */

#endif
