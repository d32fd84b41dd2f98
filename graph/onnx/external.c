/* External data: weights in files beside the model.
 *
 * The model gives the file's name, so the name must not lead out of the model's folder: no absolute path, no "..", no
 * hard link to another file, and regular files only.  Linux checks the path (openat2); if the kernel or a container
 * lacks that call, the path is walked part by part with the same rules.
 *
 * Caches of models store files elsewhere and link to them: snapshots/main/model.onnx -> ../../blobs/1a and
 * snapshots/main/model.onnx_data -> ../../blobs/2b.  So if a part of the path is a symbolic link, all links are
 * followed, and the file must lie in the folder that the model's own path resolves to (here blobs/), or below it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "graph/onnx/importer.h"

typedef struct File {
    struct File *next;
    const char *location;
    Mapped map;
} File;

struct External {
    Arena *arena;
    const char *model_path;
    File *files;
    size_t read;              /* bytes since the pages of the files were released */
    const OnnxMemory *memory; /* reads the data instead of files; NULL: none */
    uint8_t *buffer;          /* [room] what it read last */
    size_t room;
};

External *external_create(Arena *a, const char *model_path, const OnnxMemory *memory)
{
    External *e = ARENA_NEW(a, External, 1);

    if (e) {
        e->arena = a;
        e->model_path = model_path;
        e->memory = memory;
    }
    return e;
}

void external_close(External *e)
{
    for (File *f = e ? e->files : NULL; f; f = f->next)
        mapped_close(&f->map);
    if (e)
        free(e->buffer);
}

/* ---- opening ---- */

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW };

/* Opens each part of the path relative to the folder before it; no part may be a link. */
static int open_by_parts(int folder, const char *location)
{
    char part[NAME_MAX + 1];
    int at = dup(folder), next = -1;

    while (at >= 0) {
        size_t len = strcspn(location, "/");
        bool last = location[len] == '\0';

        if (len > NAME_MAX) {
            close(at);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, location, len);
        part[len] = '\0';
        next = openat(at, part, OPEN_FLAGS); /* a link gives ELOOP; a file, ENOTDIR in the next turn */
        close(at);
        if (last)
            return next;
        at = next;
        location += len + 1;
    }
    return -1;
}

/* Opens a file below the folder; -1 with errno. */
static int open_beneath(int folder, const char *location)
{
    struct open_how how = { .flags = OPEN_FLAGS,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    long fd = syscall(SYS_openat2, folder, location, &how, sizeof how);

    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL))
        return open_by_parts(folder, location);
    return (int)fd;
}

/* Opens a path with a link in it: all links are followed first, and the result is opened without any.  -1 with errno;
 * EXDEV: it leads out of the model's folder. */
static int open_resolved(const External *e, const char *location)
{
    char model[PATH_MAX], joined[PATH_MAX], target[PATH_MAX], *slash;
    int folder, fd;

    slash = strrchr(e->model_path, '/');
    if (snprintf(joined, sizeof joined, "%.*s%s", slash ? (int)(slash - e->model_path) + 1 : 0, e->model_path,
                 location) >= (int)sizeof joined) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!realpath(e->model_path, model) || !realpath(joined, target))
        return -1;
    slash = strrchr(model, '/');
    if (strncmp(model, target, (size_t)(slash - model) + 1)) {
        errno = EXDEV;
        return -1;
    }
    location = target + (slash - model) + 1;
    slash[slash == model] = '\0';
    if ((folder = open(model, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return -1;
    fd = open_beneath(folder, location);
    close(folder);
    return fd;
}

/* Is it a relative path without "." and ".."?  Neither openat2 nor the walk has to handle these. */
static bool is_plain_path(const char *location)
{
    for (const char *p = location;; p++) {
        size_t len = strcspn(p, "/");

        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += len;
        if (!*p)
            return true;
    }
}

/* Opens the model's folder. */
static Status open_folder(int *out, External *e)
{
    const char *slash = strrchr(e->model_path, '/');
    const char *dir = !slash ? "." : slash == e->model_path ? "/" : NULL;

    if (!dir) {
        char *copy = arena_strdup(e->arena, e->model_path);

        if (!copy)
            return FAIL_NOMEM();
        copy[slash - e->model_path] = '\0';
        dir = copy;
    }
    if ((*out = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return FAIL(E_IO, "%s: %s", dir, strerror(errno));
    return ST_OK;
}

/* Checks and maps an opened file; fd -1: opening failed with errno. */
static Status map_file(Mapped *out, int fd, const char *name, const char *location)
{
    struct stat st;

    if (fd < 0)
        return FAIL(errno == ELOOP || errno == EXDEV ? E_MODEL : E_IO, "initializer '%s': external data '%s': %s", name,
                    location,
                    errno == ELOOP   ? "its symbolic links lead to no file"
                    : errno == EXDEV ? "a symbolic link leads out of the model's folder"
                                     : strerror(errno));
    if (fstat(fd, &st))
        return FAIL(E_IO, "initializer '%s': external data '%s': %s", name, location, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return FAIL(E_MODEL, "initializer '%s': external data '%s' is not a regular file", name, location);
    if (st.st_nlink != 1)
        return FAIL(E_MODEL, "initializer '%s': external data '%s' has %lu hard links, expected 1", name, location,
                    (unsigned long)st.st_nlink);
    return status_prefix(mapped_fd(out, fd, location), "initializer '%s': external data", name);
}

/* Finds the file at `location`, or opens and maps it. */
static Status file_get(File **out, External *e, const char *location, const char *name)
{
    Mapped map = { NULL, 0 };
    int folder, fd;
    Status st;
    File *f;

    for (f = e->files; f; f = f->next)
        if (!strcmp(f->location, location)) {
            *out = f;
            return ST_OK;
        }
    if (!is_plain_path(location))
        return FAIL(E_MODEL, "initializer '%s': external data '%s' must be a relative path without '.' and '..'", name,
                    location);
    if (!(f = ARENA_NEW(e->arena, File, 1)))
        return FAIL_NOMEM();
    TRY(open_folder(&folder, e));
    fd = open_beneath(folder, location);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) /* the latter: a link on the way, by open_by_parts */
        fd = open_resolved(e, location);
    st = map_file(&map, fd, name, location);
    if (fd >= 0)
        close(fd);
    close(folder);
    TRY(st);
    *f = (File){ e->files, location, map };
    *out = e->files = f;
    return ST_OK;
}

/* ---- fields of the tensor ---- */

static Status parse_size(size_t *out, const char *key, const char *text, const char *name)
{
    size_t v = 0;

    for (const char *p = text; *p || p == text; p++) {
        if (*p < '0' || *p > '9' || v > (SIZE_MAX - 9) / 10)
            return FAIL(E_MODEL, "initializer '%s': external data %s '%.40s' is not a number of bytes", name, key,
                        text);
        v = v * 10 + (size_t)(*p - '0');
    }
    *out = v;
    return ST_OK;
}

/* Asks the caller's function for the data. */
static Status read_by_function(const uint8_t **out, External *e, const char *location, size_t offset, size_t size,
                               const char *name)
{
    Status st;

    if (!is_plain_path(location))
        return FAIL(E_MODEL, "initializer '%s': external data '%s': the path leads out of the model's folder", name,
                    location);
    if (size >= e->room) {
        uint8_t *grown = realloc(e->buffer, size + 1);

        if (!grown)
            return FAIL_NOMEM();
        e->buffer = grown;
        e->room = size + 1;
    }
    if ((st = e->memory->external(e->memory->external_user, location, offset, size, e->buffer)))
        return FAIL(st < E_INTERRUPTED || st > ST_OK ? E_IO : st,
                    "initializer '%s': external data '%s': the caller's function failed with status %d", name, location,
                    (int)st);
    *out = e->buffer;
    return ST_OK;
}

Status external_bytes(const uint8_t **out, External *e, const Onnx__TensorProto *t, size_t size)
{
    const char *location = NULL, *name = text_or(t->name, "?");
    size_t offset = 0, length = size;
    File *f;

    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = text_or(t->external_data[i]->key, ""), *text = text_or(t->external_data[i]->value, "");

        if (!strcmp(key, "location"))
            location = text;
        else if (!strcmp(key, "offset"))
            TRY(parse_size(&offset, key, text, name));
        else if (!strcmp(key, "length"))
            TRY(parse_size(&length, key, text, name));
    }
    if (!location)
        return FAIL(E_MODEL, "initializer '%s': external data without a location", name);
    if (length != size)
        return FAIL(E_MODEL, "initializer '%s': external data of %zu bytes, expected %zu", name, length, size);
    if (e->memory)
        return read_by_function(out, e, location, offset, size, name);
    TRY(file_get(&f, e, location, name));
    if (offset > f->map.size || size > f->map.size - offset)
        return FAIL(E_MODEL, "initializer '%s': external data '%s' has %zu bytes, expected %zu at offset %zu", name,
                    location, f->map.size, size, offset);
    *out = f->map.data + offset;
    for (File *read = e->files; read && e->read >= KEPT_OF_FILE; read = read->next)
        mapped_forget(&read->map); /* earlier tensors have been read */
    e->read = (e->read >= KEPT_OF_FILE ? 0 : e->read) + size;
    return ST_OK;
}
