/* Index of tar shards (see the header). */
#include "tools/data/tar_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "graph/base/heap_array.h"
#include "tools/data/shard_paths.h"
#include "tools/data/tar_scan.h"

/* A shard that is being read. */
typedef struct {
    TarIndex *t;
    const char *path;
    int64_t first; /* of its samples */
} Shard;

void tar_index_close(TarIndex *t)
{
    for (int64_t i = 0; i < t->shards && t->shard; i++)
        mapped_close(&t->shard[i]);
    for (int64_t i = 0; i < t->samples; i++)
        free(t->sample[i].name);
    for (int i = 0; i < t->keys; i++)
        free(t->key[i]);
    free(t->shard);
    free(t->member);
    free(t->sample);
    free(t->open_end);
    *t = (TarIndex){ 0 };
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c); }

bool tar_same_key(const char *a, const char *b)
{
    for (; *a && lower(*a) == lower(*b); a++)
        b++;
    return !*a && !*b;
}

int tar_key(const TarIndex *t, const char *key)
{
    for (int i = 0; i < t->keys; i++)
        if (tar_same_key(t->key[i], key))
            return i;
    return -1;
}

const TarMember *tar_member(const TarIndex *t, int64_t sample, int key)
{
    const TarSample *s = &t->sample[sample];

    for (int i = 0; i < s->n; i++)
        if (t->member[s->first + i].key == key)
            return &t->member[s->first + i];
    return NULL;
}

/* Finds or adds the key of a member's name, in lower case. */
static Status number_key(int *out, TarIndex *t, const char *key, const Shard *s, const char *name)
{
    char own[64];
    size_t n = 0;

    for (; key[n] && n + 1 < sizeof own; n++)
        own[n] = lower(key[n]);
    own[n] = '\0';
    if (key[n])
        return FAIL(E_IO, "%s: member '%s': the key behind the first dot has more than %zu bytes", s->path, name,
                    sizeof own - 1);
    if ((*out = tar_key(t, own)) >= 0)
        return ST_OK;
    if (t->keys == TAR_KEYS_MOST)
        return FAIL(E_IO, "%s: member '%s': more than %d different keys behind the first dots of names", s->path, name,
                    TAR_KEYS_MOST);
    if (!(t->key[t->keys] = strdup(own)))
        return FAIL_NOMEM();
    *out = t->keys++;
    return ST_OK;
}

/* Does a path lead out of its folder? */
static bool leads_out(const char *name)
{
    for (const char *at = name; at; at = (at = strchr(at, '/')) ? at + 1 : NULL)
        if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2]))
            return true;
    return false;
}

/* Is it about the shard, such as __meta__/x? */
static bool is_meta(const char *name)
{
    const size_t n = strcspn(name, "/");

    return n >= 4 && !strncmp(name, "__", 2) && !strncmp(name + n - 2, "__", 2);
}

static Status add_sample(const Shard *s, const char *name, size_t n)
{
    TarIndex *t = s->t;
    const size_t room = strlen(s->path) + n + 2;
    TarSample *grown = heap_reserve(t->sample, sizeof *grown, (size_t)t->samples + 1, &t->sample_room);

    if (!grown)
        return FAIL_NOMEM();
    t->sample = grown;
    grown[t->samples] = (TarSample){ malloc(room), t->members, 0 };
    if (!grown[t->samples].name)
        return FAIL_NOMEM();
    snprintf(grown[t->samples++].name, room, "%s/%.*s", s->path, (int)n, name);
    return ST_OK;
}

/* Is the newest sample of the shard that of name[0, n)? */
static bool goes_on(const Shard *s, const char *name, size_t n)
{
    const TarIndex *t = s->t;
    const char *last = t->samples > s->first ? t->sample[t->samples - 1].name + strlen(s->path) + 1 : NULL;

    return last && !strncmp(last, name, n) && !last[n];
}

/* A TarFile: adds a member. */
static Status add_member(void *user, const char *name, const uint8_t *data, size_t size)
{
    const Shard *s = user;
    TarIndex *t = s->t;
    TarMember *grown;
    const char *base, *dot;
    int key;

    while (!strncmp(name, "./", 2))
        name += 2;
    base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    dot = strchr(base, '.');
    if (!dot || dot == base || is_meta(name))
        return ST_OK;
    if (leads_out(name))
        return FAIL(E_IO, "%s: member '%s' has a path outside of the archive", s->path, name);
    TRY(number_key(&key, t, dot + 1, s, name));
    if (!goes_on(s, name, (size_t)(dot - name)))
        TRY(add_sample(s, name, (size_t)(dot - name)));
    if (tar_member(t, t->samples - 1, key))
        return FAIL(E_IO, "%s: member '%s' is there twice", s->path, name);
    if (!(grown = heap_reserve(t->member, sizeof *grown, (size_t)t->members + 1, &t->member_room)))
        return FAIL_NOMEM();
    t->member = grown;
    grown[t->members++] = (TarMember){ data, size, key };
    t->sample[t->samples - 1].n++;
    return ST_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Refuses samples of a shard that have one name: their members did not follow each other. */
static Status check_names(const Shard *s)
{
    const size_t n = (size_t)(s->t->samples - s->first);
    char **name = malloc(n * sizeof *name + 1);
    Status st = ST_OK;

    if (!name)
        return FAIL_NOMEM();
    for (size_t i = 0; i < n; i++)
        name[i] = s->t->sample[s->first + (int64_t)i].name;
    if (n)
        qsort(name, n, sizeof *name, compare_names);
    for (size_t i = 0; i + 1 < n && !st; i++)
        if (!strcmp(name[i], name[i + 1]))
            st = FAIL(E_IO,
                      "%s: sample '%s' is there twice; the members of a sample must follow each other, as tar "
                      "--sort=name packs them",
                      s->path, name[i] + strlen(s->path) + 1);
    free(name);
    return st;
}

static Status read_shard(TarIndex *t, const char *path)
{
    Shard s = { t, path, t->samples };
    Mapped *m = &t->shard[t->shards];
    bool ended = true;

    TRY(mapped_open(m, path));
    t->shards++;
    (void)!madvise((void *)(uintptr_t)m->data, m->size, MADV_RANDOM); /* headers lie far apart, and so will samples */
    TRY(tar_scan(&ended, m, path, add_member, &s));
    TRY(check_names(&s));
    if (!ended && !t->open_end &&
        asprintf(&t->open_end, "%s has no end mark of a tar archive; it may be cut off", path) < 0) {
        t->open_end = NULL;
        return FAIL_NOMEM();
    }
    return ST_OK;
}

/* The length of the folder that all paths begin with. */
static size_t common_folder(const ShardPaths *p)
{
    size_t n = strlen(p->path[0]);

    for (size_t i = 0; i < p->n; i++) {
        size_t k = 0;

        while (k < n && p->path[i][k] == p->path[0][k])
            k++;
        n = k;
    }
    while (n && p->path[0][n - 1] != '/')
        n--;
    return n;
}

Status tar_index_open(TarIndex *out, const char *pattern)
{
    ShardPaths paths;
    TarIndex t = { 0 };
    Status st;

    TRY(shard_paths_find(&paths, pattern));
    st = (t.shard = calloc(paths.n, sizeof *t.shard)) ? ST_OK : FAIL_NOMEM();
    for (size_t i = 0; i < paths.n && !st; i++)
        st = read_shard(&t, paths.path[i]);
    if (!st && !t.samples)
        st = FAIL(E_IO, "%s: expected members named like 0001.jpg and 0001.cls, found none", pattern);
    t.root = st ? 0 : common_folder(&paths);
    shard_paths_free(&paths);
    if (st) {
        tar_index_close(&t);
        return st;
    }
    *out = t;
    return ST_OK;
}
