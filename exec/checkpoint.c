/* A checkpoint is a folder; the rename of the folder is the commit. */
#include "exec/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define STATE_FILE "state.safetensors"
#define MANIFEST_FILE "manifest.json"
enum { FORMAT = 1, HASH_TEXT = 33 };

/* ---- files ---- */

static Status hash_file(const char *path, char text[HASH_TEXT], int64_t *bytes)
{
    XXH3_state_t *state = XXH3_createState();
    FILE *f = state ? fopen(path, "rb") : NULL;
    char *buf = f ? malloc(1 << 20) : NULL;
    XXH128_hash_t h;
    size_t n;
    bool good;

    *bytes = 0;
    if (buf) {
        XXH3_128bits_reset(state);
        while ((n = fread(buf, 1, 1 << 20, f))) {
            XXH3_128bits_update(state, buf, n);
            *bytes += (int64_t)n;
        }
        h = XXH3_128bits_digest(state);
        snprintf(text, HASH_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
    }
    good = buf && !ferror(f);
    if (f)
        fclose(f);
    free(buf);
    XXH3_freeState(state);
    return good ? ST_OK : FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
}

static Status sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && !fsync(fd);

    if (fd >= 0)
        close(fd);
    return good ? ST_OK : FAIL(E_IO, "%s: cannot sync: %s", path, strerror(errno));
}

static Status write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wbx");
    bool good = f && fputs(text, f) >= 0 && !fflush(f) && !fsync(fileno(f));
    int why = errno;

    if (f && fclose(f))
        good = false;
    return good ? ST_OK : FAIL(E_IO, "%s: cannot write: %s", path, strerror(why));
}

static void remove_folder(const char *path)
{
    char file[PATH_MAX];
    int why = errno;

    snprintf(file, sizeof file, "%s/%s", path, STATE_FILE);
    unlink(file);
    snprintf(file, sizeof file, "%s/%s", path, MANIFEST_FILE);
    unlink(file);
    rmdir(path);
    errno = why;
}

/* ---- writing ---- */

static Status write_manifest(const char *folder, int64_t step, const char *note)
{
    char path[PATH_MAX], hash[HASH_TEXT], *text;
    int64_t bytes;
    json_t *root;
    Status st;

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    TRY(hash_file(path, hash, &bytes));
    root = json_pack("{s:i, s:I, s:s, s:{s:{s:I, s:s}}}", "format", FORMAT, "step", (json_int_t)step, "note", note ? note : "", "files",
                     STATE_FILE, "bytes", (json_int_t)bytes, "xxh3_128", hash);
    text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    st = text ? write_text(path, text) : FAIL(E_INVALID, "%s: the note is not UTF-8 or memory ran out", path);
    free(text);
    return st;
}

static Status fill_folder(const char *folder, int64_t step, const NamedTensor *list, int n, const char *note)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    TRY(safetensors_write(path, list, n));
    TRY(write_manifest(folder, step, note));
    return sync_path(folder);
}

/* A checkpoint of the same step is moved aside first: a rename cannot replace a folder that is not empty. */
static Status commit_folder(const char *directory, const char *temporary, const char *final)
{
    char aside[PATH_MAX];
    bool replaced;

    snprintf(aside, sizeof aside, "%.*s/.old-%ld", PATH_MAX - 32, directory, (long)getpid());
    replaced = !rename(final, aside);
    if (rename(temporary, final)) {
        Status st = FAIL(E_IO, "%s: cannot rename to %s: %s", temporary, final, strerror(errno));

        if (replaced && rename(aside, final))
            return FAIL(E_IO, "%s: the checkpoint of the same step is at %s: %s", final, aside, strerror(errno));
        return st;
    }
    if (replaced)
        remove_folder(aside);
    return sync_path(directory);
}

Status checkpoint_write(const char *directory, int64_t step, const NamedTensor *list, int n, const char *note)
{
    char temporary[PATH_MAX], final[PATH_MAX];
    Status st;

    if (strlen(directory) > PATH_MAX - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", directory);
    snprintf(temporary, sizeof temporary, "%s/.tmp-%ld-%" PRId64, directory, (long)getpid(), step);
    snprintf(final, sizeof final, "%s/step-%09" PRId64, directory, step);
    if (mkdir(directory, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", directory, strerror(errno));
    if (mkdir(temporary, 0777))
        return FAIL(E_IO, "%s: cannot create: %s", temporary, strerror(errno));
    st = fill_folder(temporary, step, list, n, note);
    if (!st)
        st = commit_folder(directory, temporary, final);
    if (st)
        remove_folder(temporary);
    return st;
}

/* ---- reading ---- */

static Status check_manifest(Checkpoint *out, Arena *arena, const char *folder, const json_t *root)
{
    const json_t *file = json_object_get(json_object_get(root, "files"), STATE_FILE);
    const char *hash = json_string_value(json_object_get(file, "xxh3_128")), *note = json_string_value(json_object_get(root, "note"));
    char path[PATH_MAX], found[HASH_TEXT];
    int64_t bytes;

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    if (json_integer_value(json_object_get(root, "format")) != FORMAT || !hash || !json_is_integer(json_object_get(root, "step")))
        return FAIL(E_IO, "%s/%s: not a manifest of format %d", folder, MANIFEST_FILE, FORMAT);
    TRY(hash_file(path, found, &bytes));
    if (strcmp(found, hash) || bytes != json_integer_value(json_object_get(file, "bytes")))
        return FAIL(E_IO, "%s: the hash is not the manifest's", path);
    out->step = json_integer_value(json_object_get(root, "step"));
    out->note = arena_strdup(arena, note ? note : "");
    return out->note ? safetensors_read(&out->tensor, &out->n, arena, path) : FAIL_NOMEM();
}

static Status read_folder(Checkpoint *out, Arena *arena, const char *folder)
{
    char path[PATH_MAX];
    json_error_t why;
    json_t *root;
    Status st;

    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    if (!(root = json_load_file(path, JSON_REJECT_DUPLICATES, &why)))
        return FAIL(E_IO, "%s: %s", path, why.text);
    st = check_manifest(out, arena, folder, root);
    json_decref(root);
    return st;
}

static int is_checkpoint(const struct dirent *e)
{
    return !strncmp(e->d_name, "step-", 5) && e->d_name[5] && !e->d_name[5 + strspn(e->d_name + 5, "0123456789")];
}

static int64_t step_of(const struct dirent *e)
{
    return strtoll(e->d_name + 5, NULL, 10);
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    return (step_of(*a) < step_of(*b)) - (step_of(*a) > step_of(*b));
}

Status checkpoint_read(Checkpoint *out, Arena *arena, const char *directory)
{
    struct dirent **entry;
    Problems damaged = { 0 };
    char folder[PATH_MAX];
    int n = scandir(directory, &entry, is_checkpoint, newest_first);
    bool found = false;

    if (n < 0)
        return FAIL(E_IO, "%s: cannot read: %s", directory, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!found && snprintf(folder, sizeof folder, "%s/%s", directory, entry[i]->d_name) < (int)sizeof folder) {
            found = !read_folder(out, arena, folder);
            if (!found)
                problems_add(&damaged, "%s", status_message());
        }
        free(entry[i]);
    }
    free(entry);
    if (!found)
        return n ? problems_fail(&damaged, E_IO, "%s: no checkpoint verifies", directory)
                 : FAIL(E_IO, "%s: there is no checkpoint", directory);
    free(damaged.text);
    return ST_OK;
}
