/* A checkpoint is a folder; the rename of the folder is the commit. */
#include "exec/state/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/foreign.h"
#include "graph/base/jsontext.h"

#define STATE_FILE "state.safetensors"
#define MANIFEST_FILE "manifest.json"
#define FINAL "step-"
#define ASIDE ".old-step-"
#define TEMPORARY ".tmp-" /* + process id + "-" + step */
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
    int why;

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
    why = errno;
    if (f)
        fclose(f);
    free(buf);
    XXH3_freeState(state);
    if (!state || (f && !buf))
        return FAIL_NOMEM();
    return good ? ST_OK : FAIL(E_IO, "%s: cannot read: %s", path, strerror(why));
}

/* Of what the manifest says besides the files. */
static void hash_note(char text[HASH_TEXT], int64_t step, const char *note)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(note, strlen(note), (XXH64_hash_t)step);

    snprintf(text, HASH_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

static Status sync_path(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && (!fsync(fd) || errno == EINVAL || errno == ENOTSUP); /* there is nothing to wait for */
    int why = errno;

    if (fd >= 0)
        close(fd);
    return good ? ST_OK : FAIL(E_IO, "%s: cannot sync: %s", path, strerror(why));
}

static Status write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wbx");
    bool good = f && fputs(text, f) >= 0 && !fflush(f) && !fsync(fileno(f));
    int why = errno;

    if (f && fclose(f) && good) {
        good = false;
        why = errno;
    }
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
    char path[PATH_MAX], hash[HASH_TEXT], of_note[HASH_TEXT], *text;
    int64_t bytes;
    json_t *root;
    Status st;

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    if (note && !utf8_valid(note))
        return FAIL(E_INVALID, "%s: the note is not UTF-8", folder);
    TRY(hash_file(path, hash, &bytes));
    hash_note(of_note, step, note ? note : "");
    root = json_pack("{s:i, s:I, s:s, s:s, s:{s:{s:I, s:s}}}", "format", FORMAT, "step", (json_int_t)step, "note",
                     note ? note : "", "note_xxh3_128", of_note, "files", STATE_FILE, "bytes", (json_int_t)bytes,
                     "xxh3_128", hash);
    text = root ? json_text(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    st = text ? write_text(path, text) : FAIL_NOMEM();
    free(text);
    return st;
}

static Status fill_folder(const char *folder, int64_t step, const NamedTensor *list, int n, TensorSource *source,
                          void *user, const char *note)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    TRY(safetensors_write(path, list, n, source, user));
    TRY(write_manifest(folder, step, note));
    return sync_path(folder);
}

/* A checkpoint of the same step is moved aside first: a rename cannot replace a folder that is not empty.  Until the
 * new one has its name on disk, the one aside is what checkpoint_read finds after a crash; what an earlier one left
 * aside is given up only when there is another. */
static Status commit_folder(const char *directory, const char *temporary, int64_t step)
{
    char final[PATH_MAX], aside[PATH_MAX];
    bool replaced;

    snprintf(final, sizeof final, "%.*s/" FINAL "%09" PRId64, PATH_MAX - 64, directory, step);
    snprintf(aside, sizeof aside, "%.*s/" ASIDE "%09" PRId64, PATH_MAX - 64, directory, step);
    if (!access(final, F_OK))
        remove_folder(aside);
    replaced = !rename(final, aside);
    if (rename(temporary, final)) {
        Status st = FAIL(E_IO, "%s: cannot rename to %s: %s", temporary, final, strerror(errno));

        if (replaced && rename(aside, final))
            return FAIL(E_IO, "%s: the checkpoint of the same step is at %s: %s", final, aside, strerror(errno));
        return st;
    }
    TRY(sync_path(directory));
    remove_folder(aside);
    return ST_OK;
}

/* One of the same name is what a process of the same number left when it crashed. */
static Status make_temporary(const char *path)
{
    if (!mkdir(path, 0777))
        return ST_OK;
    if (errno == EEXIST) {
        remove_folder(path);
        if (!mkdir(path, 0777))
            return ST_OK;
    }
    return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
}

static int is_left_over(const struct dirent *e)
{
    char *end;
    long pid = strncmp(e->d_name, TEMPORARY, strlen(TEMPORARY)) ? 0 : strtol(e->d_name + strlen(TEMPORARY), &end, 10);

    return pid > 0 && *end == '-' && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* What a process was writing when it was killed. */
static void remove_left_overs(const char *directory)
{
    struct dirent **entry;
    char path[PATH_MAX];
    int n = scandir(directory, &entry, is_left_over, alphasort);

    for (int i = 0; i < n; i++) {
        if (snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name) < (int)sizeof path)
            remove_folder(path);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

Status checkpoint_write(const char *directory, int64_t step, const NamedTensor *list, int n, TensorSource *source,
                        void *user, const char *note)
{
    char temporary[PATH_MAX];
    Status st;

    if (strlen(directory) > PATH_MAX - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", directory);
    snprintf(temporary, sizeof temporary, "%s/" TEMPORARY "%ld-%" PRId64, directory, (long)getpid(), step);
    if (mkdir(directory, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", directory, strerror(errno));
    remove_left_overs(directory);
    TRY(make_temporary(temporary));
    st = fill_folder(temporary, step, list, n, source, user, note);
    if (!st)
        st = commit_folder(directory, temporary, step);
    if (st)
        remove_folder(temporary);
    return st;
}

/* ---- reading ---- */

/* A checkpoint of an earlier version has no hash of its note. */
static Status check_note(const char *folder, const json_t *root, int64_t step, const char *note)
{
    const char *hash = json_string_value(json_object_get(root, "note_xxh3_128"));
    char found[HASH_TEXT];

    hash_note(found, step, note);
    if (step < 0)
        return FAIL(E_IO, "%s/%s: step is %" PRId64 ", expected 0 or more", folder, MANIFEST_FILE, step);
    return !hash || !strcmp(hash, found)
               ? ST_OK
               : FAIL(E_IO, "%s/%s: the hash of the note is not the manifest's", folder, MANIFEST_FILE);
}

static Status check_manifest(Checkpoint *out, Arena *arena, const char *folder, const json_t *root)
{
    const json_t *file = json_object_get(json_object_get(root, "files"), STATE_FILE);
    const char *hash = json_string_value(json_object_get(file, "xxh3_128")),
               *note = json_string_value(json_object_get(root, "note"));
    char path[PATH_MAX], found[HASH_TEXT];
    int64_t bytes;

    snprintf(path, sizeof path, "%s/%s", folder, STATE_FILE);
    if (json_integer_value(json_object_get(root, "format")) != FORMAT || !hash ||
        !json_is_integer(json_object_get(root, "step")))
        return FAIL(E_IO, "%s/%s: not a manifest of format %d", folder, MANIFEST_FILE, FORMAT);
    TRY(hash_file(path, found, &bytes));
    if (strcmp(found, hash) || bytes != json_integer_value(json_object_get(file, "bytes")))
        return FAIL(E_IO, "%s: the hash is not the manifest's", path);
    out->step = json_integer_value(json_object_get(root, "step"));
    TRY(check_note(folder, root, out->step, note ? note : ""));
    out->note = arena_strdup(arena, note ? note : "");
    if (!out->note)
        return FAIL_NOMEM();
    TRY(tensor_file_open(&out->file, path));
    out->tensor = tensor_file_list(out->file, &out->n);
    snprintf(out->digest, sizeof out->digest, "%s", hash);
    return ST_OK;
}

static Status read_folder(Checkpoint *out, Arena *arena, const char *folder)
{
    char path[PATH_MAX];
    json_error_t why;
    json_t *root;
    Status st;

    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    if (!(root = json_load_file(path, JSON_REJECT_DUPLICATES, &why)))
        return FAIL(json_error_code(&why) == json_error_out_of_memory ? E_NOMEM : E_IO, "%s: %s", path, why.text);
    st = check_manifest(out, arena, folder, root);
    json_decref(root);
    return st;
}

static const char *digits_of(const struct dirent *e) { return e->d_name + strlen(*e->d_name == '.' ? ASIDE : FINAL); }

static int is_checkpoint(const struct dirent *e)
{
    bool named = !strncmp(e->d_name, FINAL, strlen(FINAL)) || !strncmp(e->d_name, ASIDE, strlen(ASIDE));

    return named && *digits_of(e) && !digits_of(e)[strspn(digits_of(e), "0123456789")];
}

/* Of the same step the one in place before the one aside. */
static int newest_first(const struct dirent **a, const struct dirent **b)
{
    int64_t x = strtoll(digits_of(*a), NULL, 10), y = strtoll(digits_of(*b), NULL, 10);

    return x != y ? (x < y) - (x > y) : (*(*a)->d_name == '.') - (*(*b)->d_name == '.');
}

/* Keeps the message of the error at hand. */
static Status note_skipped(const char **skipped, int *n, Arena *arena)
{
    return (skipped[(*n)++] = arena_strdup(arena, status_message())) ? ST_OK : FAIL_NOMEM();
}

/* Sets `*found` when one verifies. */
static Status read_first(Checkpoint *out, bool *found, Arena *arena, const char *directory, struct dirent **entry,
                         int n)
{
    const char **skipped = ARENA_NEW(arena, const char *, (size_t)n + 1);
    char folder[PATH_MAX];
    int n_skipped = 0;

    if (!skipped)
        return FAIL_NOMEM();
    for (int i = 0; i < n && !*found; i++) {
        if (snprintf(folder, sizeof folder, "%s/%s", directory, entry[i]->d_name) >= (int)sizeof folder)
            continue;
        *found = !read_folder(out, arena, folder);
        if (!*found)
            TRY(note_skipped(skipped, &n_skipped, arena));
    }
    out->skipped = skipped;
    out->n_skipped = n_skipped;
    return ST_OK;
}

Status checkpoint_read(Checkpoint *out, Arena *arena, const char *directory)
{
    struct dirent **entry;
    Problems damaged = { 0 };
    int n = scandir(directory, &entry, is_checkpoint, newest_first);
    bool found = false;
    Status st;

    *out = (Checkpoint){ 0 };
    if (n < 0)
        return FAIL(E_IO, "%s: cannot read: %s", directory, strerror(errno));
    st = read_first(out, &found, arena, directory, entry, n);
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
    TRY(st);
    if (found)
        return ST_OK;
    for (int i = 0; i < out->n_skipped; i++)
        problems_add(&damaged, "%s", out->skipped[i]);
    return out->n_skipped ? problems_fail(&damaged, E_IO, "%s: no checkpoint verifies", directory)
                          : FAIL(E_IO, "%s: there is no checkpoint", directory);
}

int checkpoint_find(const Checkpoint *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->tensor[i].name, name))
            return i;
    return -1;
}

void checkpoint_close(Checkpoint *c)
{
    tensor_file_release(c->file);
    c->file = NULL;
}
