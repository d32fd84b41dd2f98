/* A message to a file, all of it or nothing: written under a temporary name in the same folder, synced, renamed. */
#include "graph/onnx/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ProtobufCBuffer base;
    int fd, error;
    size_t used;
    uint8_t data[65536];
} Sink;

static void write_all(Sink *s, const uint8_t *data, size_t n)
{
    while (n && !s->error) {
        ssize_t done = write(s->fd, data, n);

        if (done < 0 && errno != EINTR)
            s->error = errno;
        data += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
}

static void flush(Sink *s)
{
    write_all(s, s->data, s->used);
    s->used = 0;
}

static void append(ProtobufCBuffer *base, size_t n, const uint8_t *data)
{
    Sink *s = (Sink *)base;

    if (n > sizeof s->data - s->used)
        flush(s);
    if (n > sizeof s->data) {
        write_all(s, data, n);
    } else if (n) {
        memcpy(s->data + s->used, data, n);
        s->used += n;
    }
}

static Status open_temporary(int *fd, const char **name, Arena *a, const char *path)
{
    for (int i = 0; i < 100; i++) {
        if (!(*name = arena_printf(a, "%s.%ld.%d.tmp", path, (long)getpid(), i)))
            return FAIL_NOMEM();
        if ((*fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0)
            return ST_OK;
        if (errno != EEXIST)
            break;
    }
    return FAIL(E_IO, "%s: %s", path, strerror(errno));
}

static void sync_folder(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = arena_strdup(a, slash == path ? "/" : slash ? path : ".");
    int fd;

    if (!dir)
        return;
    if (slash && slash != path)
        dir[slash - path] = '\0';
    if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        fsync(fd);
        close(fd);
    }
}

Status message_write(const ProtobufCMessage *m, Arena *a, const char *path)
{
    Sink *s = ARENA_NEW(a, Sink, 1);
    size_t size = protobuf_c_message_get_packed_size(m);
    const char *name;

    if (!s)
        return FAIL_NOMEM();
    if (size > INT32_MAX)
        return FAIL(E_UNSUPPORTED, "%s: the model has %zu bytes, an ONNX file has at most 2 GiB", path, size);
    s->base.append = append;
    TRY(open_temporary(&s->fd, &name, a, path));
    protobuf_c_message_pack_to_buffer(m, &s->base);
    flush(s);
    if (!s->error && fsync(s->fd))
        s->error = errno;
    if (close(s->fd) && !s->error)
        s->error = errno;
    if (!s->error && rename(name, path))
        s->error = errno;
    if (s->error) {
        unlink(name);
        return FAIL(E_IO, "%s: %s", path, strerror(s->error));
    }
    sync_folder(a, path);
    return ST_OK;
}
