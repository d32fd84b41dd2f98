/* A checkpoint is a folder; the rename of the folder is the commit.
 *
 * Its manifest vouches for the file of digests, and that for every part of the state: who needs a part reads no more.
 */
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
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/foreign.h"
#include "graph/base/jsontext.h"

#define FINAL STEP_FOLDER
#define ASIDE ".old-step-"
#define TEMPORARY ".tmp-" /* + process id + "-" + step */
enum { FORMAT = 1, HASH_TEXT = 33 };

/* ---- files ---- */

static void hash_text_of(char text[HASH_TEXT], XXH128_hash_t h)
{
    snprintf(text, HASH_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

static Status hash_file(const char *path, char text[HASH_TEXT], int64_t *bytes)
{
    XXH3_state_t *state = XXH3_createState();
    FILE *f = state ? fopen(path, "rb") : NULL;
    char *buf = f ? malloc(1 << 20) : NULL;
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
        hash_text_of(text, XXH3_128bits_digest(state));
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

/* A digest of all fields of the manifest but the files. */
static void hash_note(char text[HASH_TEXT], int64_t step, const char *note)
{
    hash_text_of(text, XXH3_128bits_withSeed(note, strlen(note), (XXH64_hash_t)step));
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

static Status write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wbx");
    bool good = f && fwrite(data, 1, bytes, f) == bytes && !fflush(f) && !fsync(fileno(f));
    int why = errno;

    if (f && fclose(f) && good) {
        good = false;
        why = errno;
    }
    return good ? ST_OK : FAIL(E_IO, "%s: cannot write: %s", path, strerror(why));
}

static void remove_folder(const char *path)
{
    static const char *const names[] = { STATE_FILE, DIGEST_FILE, MANIFEST_FILE };
    char file[PATH_MAX];
    int why = errno;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        unlink(file);
    }
    rmdir(path);
    errno = why;
}

/* ---- writing ---- */

Status checkpoint_manifest(char **out, int64_t step, const char *note, int64_t bytes, const TensorDigests *d)
{
    char hash[HASH_TEXT], of_digests[HASH_TEXT], of_note[HASH_TEXT];
    json_t *root;

    if (!utf8_valid(note))
        return FAIL(E_INVALID, "the note of a checkpoint is not UTF-8");
    hash_text_of(hash, d->whole);
    hash_text_of(of_digests, XXH3_128bits(d->piece, d->n * sizeof *d->piece));
    hash_note(of_note, step, note);
    root = json_pack("{s:i, s:I, s:s, s:s, s:{s:{s:I, s:s}, s:{s:I, s:s, s:i}}}", "format", FORMAT, "step",
                     (json_int_t)step, "note", note, "note_xxh3_128", of_note, "files", STATE_FILE, "bytes",
                     (json_int_t)bytes, "xxh3_128", hash, DIGEST_FILE, "bytes", (json_int_t)(d->n * sizeof *d->piece),
                     "xxh3_128", of_digests, "block", TENSOR_BLOCK);
    *out = root ? json_text(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return *out ? ST_OK : FAIL_NOMEM();
}

static Status write_manifest(const char *folder, int64_t step, const char *note, int64_t bytes, const TensorDigests *d)
{
    char path[PATH_MAX], *text;
    Status st;

    TRY(checkpoint_manifest(&text, step, note, bytes, d));
    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    st = write_bytes(path, text, strlen(text));
    free(text);
    return st;
}

static Status size_of(int64_t *bytes, const char *path)
{
    struct stat s;

    if (stat(path, &s))
        return FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    *bytes = (int64_t)s.st_size;
    return ST_OK;
}

static Status fill_folder(const char *folder, int64_t step, const NamedTensor *list, int n, TensorSource *source,
                          void *user, const char *note)
{
    char state[PATH_MAX], path[PATH_MAX];
    TensorDigests digests;
    int64_t bytes;
    Status st;

    if (!utf8_valid(note))
        return FAIL(E_INVALID, "%s: the note is not UTF-8", folder);
    snprintf(state, sizeof state, "%s/%s", folder, STATE_FILE);
    snprintf(path, sizeof path, "%s/%s", folder, DIGEST_FILE);
    TRY(safetensors_write(state, list, n, source, user, &digests));
    st = write_bytes(path, digests.piece, digests.n * sizeof *digests.piece);
    if (!st)
        st = size_of(&bytes, state);
    if (!st)
        st = write_manifest(folder, step, note, bytes, &digests);
    free(digests.piece);
    return st ? st : sync_path(folder);
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

/* Locks a folder for writing.  The lock ends with the process, however it ends and in whichever container. */
static int lock_folder(const char *path, bool *known)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *known = true;
    if (fd < 0 || !flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    *known = errno == EWOULDBLOCK; /* else the file system has no locks of folders */
    close(fd);
    return -1;
}

/* Has the folder's writer ended?  On file systems without locks its process's number decides. */
static bool is_given_up(const char *path, const char *name)
{
    char *end;
    long pid = strtol(name + strlen(TEMPORARY), &end, 10);
    bool known;
    int fd = lock_folder(path, &known);

    if (fd >= 0)
        close(fd);
    if (fd >= 0 || known)
        return fd >= 0;
    return pid > 0 && *end == '-' && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* *lock: of the folder, to be closed; -1 where there are none.  One of the same name is what a process of the same
 * number left when it crashed. */
static Status make_temporary(int *lock, const char *path)
{
    bool known, made = !mkdir(path, 0777);
    struct stat s;

    for (int i = 0; i < 2 && !made && errno == EEXIST && is_given_up(path, strrchr(path, '/') + 1); i++) {
        remove_folder(path);
        made = !mkdir(path, 0777);
    }
    if (!made)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    *lock = lock_folder(path, &known);
    if (*lock < 0 ? known : fstat(*lock, &s) || !s.st_nlink) /* one that tidies up came in between */
        return FAIL(E_IO, "%s: another process writes or removes it", path);
    return ST_OK;
}

static int is_temporary(const struct dirent *e) { return !strncmp(e->d_name, TEMPORARY, strlen(TEMPORARY)); }

/* Removes the files that a process was writing when it was killed. */
static void remove_left_overs(const char *directory)
{
    struct dirent **entry;
    char path[PATH_MAX];
    int n = scandir(directory, &entry, is_temporary, alphasort);

    for (int i = 0; i < n; i++) {
        if (snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name) < (int)sizeof path &&
            is_given_up(path, entry[i]->d_name))
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
    int lock;
    Status st;

    if (strlen(directory) > PATH_MAX - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", directory);
    snprintf(temporary, sizeof temporary, "%s/" TEMPORARY "%ld-%" PRId64, directory, (long)getpid(), step);
    if (mkdir(directory, 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", directory, strerror(errno));
    remove_left_overs(directory);
    TRY(make_temporary(&lock, temporary));
    st = fill_folder(temporary, step, list, n, source, user, note ? note : "");
    if (!st)
        st = commit_folder(directory, temporary, step);
    if (st)
        remove_folder(temporary);
    if (lock >= 0)
        close(lock);
    return st;
}

Status checkpoint_remove(const char *directory, int64_t step)
{
    char final[PATH_MAX], temporary[PATH_MAX];

    if (strlen(directory) > PATH_MAX - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", directory);
    snprintf(final, sizeof final, "%s/" FINAL "%09" PRId64, directory, step);
    snprintf(temporary, sizeof temporary, "%s/" TEMPORARY "%ld-%" PRId64, directory, (long)getpid(), step);
    if (is_given_up(temporary, strrchr(temporary, '/') + 1))
        remove_folder(temporary); /* a process of the same number left it when it crashed */
    if (rename(final, temporary))
        return errno == ENOENT ? ST_OK : FAIL(E_IO, "%s: cannot remove: %s", final, strerror(errno));
    remove_folder(temporary);
    return ST_OK;
}

/* ---- reading ---- */

/* A file as the manifest describes it. */
typedef struct {
    char path[PATH_MAX];
    const json_t *entry;
    const char *hash;
    int64_t bytes;
} Described;

/* Finds a file in the manifest, and checks that it is as long as the manifest says. */
static Status find_described(Described *out, const char *folder, const json_t *root, const char *name)
{
    snprintf(out->path, sizeof out->path, "%s/%s", folder, name);
    out->entry = json_object_get(json_object_get(root, "files"), name);
    out->hash = json_string_value(json_object_get(out->entry, "xxh3_128"));
    if (!out->hash)
        return FAIL(E_IO, "%s/%s: not a manifest of format %d: it has no hash of %s", folder, MANIFEST_FILE, FORMAT,
                    name);
    TRY(size_of(&out->bytes, out->path));
    if (out->bytes != json_integer_value(json_object_get(out->entry, "bytes")))
        return FAIL(E_IO, "%s: %" PRId64 " bytes, the manifest says %lld", out->path, out->bytes,
                    (long long)json_integer_value(json_object_get(out->entry, "bytes")));
    return ST_OK;
}

static Status wrong_hash(const char *path) { return FAIL(E_IO, "%s: the hash is not the manifest's", path); }

/* Opens a state of an earlier version, whose manifest has a digest of the whole file. */
static Status open_undivided(Checkpoint *out, const Described *state, int64_t *bytes)
{
    char found[HASH_TEXT];
    int64_t read;

    TRY(hash_file(state->path, found, &read));
    if (bytes)
        *bytes += read;
    if (strcmp(found, state->hash))
        return wrong_hash(state->path);
    snprintf(out->digest, sizeof out->digest, "%s", state->hash);
    return tensor_file_open(&out->file, state->path, NULL, 0, bytes);
}

static Status read_digests(XXH64_canonical_t *list, const Described *d, int64_t *bytes)
{
    char found[HASH_TEXT];
    FILE *f = fopen(d->path, "rb");
    const bool good = f && fread(list, 1, (size_t)d->bytes, f) == (size_t)d->bytes;
    const int why = errno;

    if (f)
        fclose(f);
    if (!good)
        return FAIL(E_IO, "%s: cannot read: %s", d->path, strerror(why));
    if (bytes)
        *bytes += d->bytes;
    hash_text_of(found, XXH3_128bits(list, (size_t)d->bytes));
    return strcmp(found, d->hash) ? wrong_hash(d->path) : ST_OK;
}

/* A piece has a digest of 8 bytes, and more than that of the state: of the header, or in it to describe a tensor. */
static Status open_divided(Checkpoint *out, const Described *state, const Described *digests, int64_t *bytes)
{
    const int64_t block = json_integer_value(json_object_get(digests->entry, "block"));
    XXH64_canonical_t *list;
    Status st;

    if (block != TENSOR_BLOCK || digests->bytes % (int64_t)sizeof *list || digests->bytes > state->bytes)
        return FAIL(E_IO, "%s: %" PRId64 " bytes of digests of blocks of %" PRId64 ", expected 8 for each %d",
                    digests->path, digests->bytes, block, TENSOR_BLOCK);
    if (!(list = malloc((size_t)digests->bytes + 1)))
        return FAIL_NOMEM();
    st = read_digests(list, digests, bytes);
    if (!st)
        st = tensor_file_open(&out->file, state->path, list, (size_t)digests->bytes / sizeof *list, bytes);
    free(list);
    snprintf(out->digest, sizeof out->digest, "%s", digests->hash);
    return st;
}

static Status open_state(Checkpoint *out, const char *folder, const json_t *root, bool whole, int64_t *bytes)
{
    Described state, digests;

    TRY(find_described(&state, folder, root, STATE_FILE));
    if (!json_object_get(json_object_get(root, "files"), DIGEST_FILE))
        return open_undivided(out, &state, bytes);
    TRY(find_described(&digests, folder, root, DIGEST_FILE));
    TRY(open_divided(out, &state, &digests, bytes));
    return whole ? tensor_file_verify(out->file) : ST_OK;
}

static Status check_manifest(Checkpoint *out, Arena *arena, const char *folder, const json_t *root)
{
    const char *note = json_string_value(json_object_get(root, "note")),
               *hash = json_string_value(json_object_get(root, "note_xxh3_128"));
    char found[HASH_TEXT];

    note = note ? note : "";
    if (json_integer_value(json_object_get(root, "format")) != FORMAT ||
        !json_is_integer(json_object_get(root, "step")))
        return FAIL(E_IO, "%s/%s: not a manifest of format %d", folder, MANIFEST_FILE, FORMAT);
    out->step = json_integer_value(json_object_get(root, "step"));
    hash_note(found, out->step, note);
    if (out->step < 0)
        return FAIL(E_IO, "%s/%s: step is %" PRId64 ", expected 0 or more", folder, MANIFEST_FILE, out->step);
    if (hash && strcmp(hash, found) != 0) /* a checkpoint of an earlier version has no hash */
        return FAIL(E_IO, "%s/%s: the hash of the note is not the manifest's", folder, MANIFEST_FILE);
    out->note = arena_strdup(arena, note);
    return out->note ? ST_OK : FAIL_NOMEM();
}

static Status read_folder(Checkpoint *out, Arena *arena, const char *folder, bool whole, int64_t *bytes)
{
    char path[PATH_MAX];
    json_error_t why;
    json_t *root;
    Status st;

    snprintf(path, sizeof path, "%s/%s", folder, MANIFEST_FILE);
    if (!(root = json_load_file(path, JSON_REJECT_DUPLICATES, &why)))
        return FAIL(json_error_code(&why) == json_error_out_of_memory ? E_NOMEM : E_IO, "%s: %s", path, why.text);
    st = check_manifest(out, arena, folder, root);
    if (!st)
        st = open_state(out, folder, root, whole, bytes);
    json_decref(root);
    if (st)
        checkpoint_close(out);
    else
        out->tensor = tensor_file_list(out->file, &out->n);
    return st;
}

static const char *digits_of(const struct dirent *e) { return e->d_name + strlen(*e->d_name == '.' ? ASIDE : FINAL); }

static int is_checkpoint(const struct dirent *e)
{
    bool named = !strncmp(e->d_name, FINAL, strlen(FINAL)) || !strncmp(e->d_name, ASIDE, strlen(ASIDE));

    return named && *digits_of(e) && !digits_of(e)[strspn(digits_of(e), "0123456789")];
}

/* Orders by step; of two of one step, the folder in place comes before the one moved aside. */
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

/* Sets `*found` when one verifies.  Want of memory is no damage, for which an older one would do. */
static Status read_first(Checkpoint *out, bool *found, Arena *arena, const char *directory, struct dirent **entry,
                         int n, bool whole, int64_t *bytes)
{
    const char **skipped = ARENA_NEW(arena, const char *, (size_t)n + 1);
    char folder[PATH_MAX];
    int n_skipped = 0;
    Status st;

    if (!skipped)
        return FAIL_NOMEM();
    for (int i = 0; i < n && !*found; i++) {
        if (snprintf(folder, sizeof folder, "%s/%s", directory, entry[i]->d_name) >= (int)sizeof folder)
            continue;
        st = read_folder(out, arena, folder, whole, bytes);
        *found = !st;
        if (st == E_NOMEM)
            return st;
        if (st)
            TRY(note_skipped(skipped, &n_skipped, arena));
    }
    out->skipped = skipped;
    out->n_skipped = n_skipped;
    return ST_OK;
}

Status checkpoint_read(Checkpoint *out, Arena *arena, const char *directory, bool whole, int64_t *bytes)
{
    struct dirent **entry;
    PROBLEMS(damaged);
    int n = scandir(directory, &entry, is_checkpoint, newest_first);
    bool found = false;
    Status st;

    *out = (Checkpoint){ 0 };
    if (n < 0)
        return FAIL(E_IO, "%s: cannot read: %s", directory, strerror(errno));
    st = read_first(out, &found, arena, directory, entry, n, whole, bytes);
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

/* E_IO with the steps that there are, the newest first. */
static Status no_such_step(const char *directory, int64_t step)
{
    struct dirent **entry;
    PROBLEMS(has);
    int n = scandir(directory, &entry, is_checkpoint, newest_first);

    for (int i = 0; i < n; i++) {
        if (i < 8)
            problems_add(&has, "%lld", strtoll(digits_of(entry[i]), NULL, 10));
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return n > 0 ? problems_fail(&has, E_IO, "%s: there is no checkpoint of step %" PRId64 "; the newest are of steps",
                                 directory, step)
                 : FAIL(E_IO, "%s: there is no checkpoint of step %" PRId64, directory, step);
}

Status checkpoint_read_step(Checkpoint *out, Arena *arena, const char *directory, int64_t step, bool whole,
                            int64_t *bytes)
{
    char folder[PATH_MAX];

    *out = (Checkpoint){ 0 };
    if (strlen(directory) > PATH_MAX - 64)
        return FAIL(E_IO, "%.60s...: the path is too long", directory);
    snprintf(folder, sizeof folder, "%s/" FINAL "%09" PRId64, directory, step);
    if (access(folder, F_OK))
        snprintf(folder, sizeof folder, "%s/" ASIDE "%09" PRId64, directory, step);
    if (access(folder, F_OK))
        return no_such_step(directory, step);
    TRY(read_folder(out, arena, folder, whole, bytes));
    if (out->step == step)
        return ST_OK;
    checkpoint_close(out);
    return FAIL(E_IO, "%s/%s: step is %" PRId64 ", expected %" PRId64, folder, MANIFEST_FILE, out->step, step);
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
