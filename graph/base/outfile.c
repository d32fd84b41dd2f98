/* Files that appear whole or not at all.  Writes go through a custom stream, which keeps the first error, because stdio
 * forgets why an earlier write failed.
 *
 * Links are followed here, because their target may not exist yet, and because links below /proc (where /dev/stdout
 * leads) name open files, which a rename does not replace. */
#include "graph/base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40, MAX_NAMES = 100 };

struct OutFile {
    FILE *f;
    int fd, error;         /* errno of the first write that failed */
    char *given;           /* the path as given, for messages */
    char path[PATH_MAX];   /* all links are followed, unless it is `direct` */
    char folder[PATH_MAX]; /* the folder of `path` */
    char temporary[PATH_MAX];
    bool nameless; /* the temporary file has no name */
    bool direct;   /* written in place: a device, a pipe, or an open file */
    mode_t mode;   /* of the file that is replaced; 0: there is none */
};

static Status cannot(const char *path, int why) { return FAIL(E_IO, "%s: cannot write: %s", path, strerror(why)); }

/* ---- the target ---- */

/* The folder of a path, with all links followed; false with errno. */
static bool folder_of(char folder[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[PATH_MAX];

    if (!slash)
        strcpy(name, ".");
    else
        snprintf(name, sizeof name, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return realpath(name, folder) != NULL;
}

/* Follows one link; the result may be another. */
static bool outfile_follow(OutFile *o)
{
    char link[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t n = readlink(o->path, link, sizeof link - 1);

    if (n < 0)
        return false;
    link[n] = '\0';
    snprintf(joined, sizeof joined, "%s%s%s", *link == '/' ? "" : o->folder, *link == '/' ? "" : "/", link);
    if (strlen(joined) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(o->path, joined);
    return true;
}

static bool below_proc(const char *folder) { return !strcmp(folder, "/proc") || !strncmp(folder, "/proc/", 6); }

/* Finds out where to write: sets path, folder, direct and mode.  false with errno. */
static bool find_target(OutFile *o, const char *path)
{
    struct stat s;

    if (!*path) {
        errno = ENOENT;
        return false;
    }
    if (snprintf(o->path, sizeof o->path, "%s", path) >= (int)sizeof o->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (int i = 0; i < MAX_LINKS; i++) {
        bool is_there;

        if (!folder_of(o->folder, o->path))
            return false;
        is_there = !lstat(o->path, &s);
        if (!is_there && errno != ENOENT)
            return false;
        if (is_there && S_ISLNK(s.st_mode) && !below_proc(o->folder)) {
            if (!outfile_follow(o))
                return false;
            continue;
        }
        o->direct = is_there && !S_ISREG(s.st_mode);
        o->mode = is_there ? s.st_mode & 07777 : 0;
        return true;
    }
    errno = ELOOP;
    return false;
}

/* ---- the stream ---- */

static ssize_t outfile_take(void *cookie, const char *data, size_t n)
{
    OutFile *o = cookie;
    size_t left = n;

    while (left && !o->error) {
        ssize_t done = write(o->fd, data, left);

        if (done < 0 && errno != EINTR)
            o->error = errno;
        data += done > 0 ? done : 0;
        left -= done > 0 ? (size_t)done : 0;
    }
    return o->error ? 0 : (ssize_t)n;
}

/* Where a header is written again, when all is known that it counts.  A terminal or pipe refuses. */
static int outfile_seek(void *cookie, off64_t *to, int whence)
{
    const OutFile *o = cookie;
    const off_t at = lseek(o->fd, (off_t)*to, whence);

    *to = at;
    return at < 0 ? -1 : 0;
}

/* Opens a temporary file with a name of its own beside the target. */
static bool open_named(OutFile *o)
{
    for (int i = 0; i < MAX_NAMES; i++) {
        if (snprintf(o->temporary, sizeof o->temporary, "%.*s.%ld.%d.tmp", PATH_MAX - 40, o->path, (long)getpid(), i) <
            0)
            return false;
        if ((o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* Opens the target if it is written in place, otherwise a temporary file, without a name where the system can. */
static bool open_target(OutFile *o)
{
    if (o->direct)
        return (o->fd = open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY)) >= 0;
    o->nameless =
        !access("/proc/self/fd", X_OK) && (o->fd = open(o->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666)) >= 0;
    return o->nameless || open_named(o);
}

Status outfile_open(OutFile **out, const char *path)
{
    OutFile *o = calloc(1, sizeof *o);
    int why;

    if (!o || !(o->given = strdup(path))) {
        free(o);
        return FAIL_NOMEM();
    }
    o->fd = -1;
    if (find_target(o, path) && open_target(o) &&
        (o->f = fopencookie(o, "w", (cookie_io_functions_t){ .write = outfile_take, .seek = outfile_seek }))) {
        *out = o;
        return ST_OK;
    }
    why = errno;
    if (o->fd >= 0)
        close(o->fd);
    if (*o->temporary)
        unlink(o->temporary);
    free(o->given);
    free(o);
    return cannot(path, why);
}

FILE *outfile_stream(OutFile *o) { return o->f; }

/* ---- the end ---- */

/* A file system that cannot sync gives EINVAL or ENOTSUP, and there is nothing to wait for. */
static bool synced(int fd) { return !fsync(fd) || errno == EINVAL || errno == ENOTSUP; }

/* Gives a nameless temporary file a name. */
static bool name_temporary(OutFile *o)
{
    char opened[40];

    if (!o->nameless)
        return true;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", o->fd);
    for (int i = 0; i < MAX_NAMES; i++) {
        snprintf(o->temporary, sizeof o->temporary, "%.*s.%ld.%d.tmp", PATH_MAX - 40, o->path, (long)getpid(), i);
        if (!linkat(AT_FDCWD, opened, AT_FDCWD, o->temporary, AT_SYMLINK_FOLLOW))
            return true;
        if (errno != EEXIST)
            break;
    }
    *o->temporary = '\0';
    return false;
}

static bool sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why;
    bool good;

    if (fd < 0)
        return errno == EACCES; /* a folder may be writable and not readable */
    good = synced(fd);
    why = errno;
    close(fd);
    errno = why;
    return good;
}

/* Renames the temporary file after its data are on the disk: a power failure leaves the old file or the new one. */
static bool commit(OutFile *o)
{
    if (o->direct)
        return true;
    if (o->mode && fchmod(o->fd, o->mode))
        return false;
    if (!synced(o->fd) || !name_temporary(o) || rename(o->temporary, o->path))
        return false;
    *o->temporary = '\0';
    return sync_folder(o->folder);
}

Status outfile_close(OutFile *o, Status st)
{
    if (!o)
        return st;
    errno = 0;
    if (fclose(o->f) && !o->error)
        o->error = errno ? errno : EIO;
    if (!st && !o->error && !commit(o))
        o->error = errno;
    if (close(o->fd) && !o->error)
        o->error = errno;
    if (*o->temporary)
        unlink(o->temporary);
    if (!st && o->error)
        st = cannot(o->given, o->error);
    free(o->given);
    free(o);
    return st;
}

Status outfile_check(const char *path)
{
    OutFile o = { .fd = -1 };

    if (!find_target(&o, path))
        return cannot(path, errno);
    if (o.direct && !access(o.path, F_OK)) {
        struct stat s;

        if (!stat(o.path, &s) && S_ISDIR(s.st_mode))
            return cannot(path, EISDIR);
    }
    return access(o.direct ? o.path : o.folder, W_OK) ? cannot(path, errno) : ST_OK;
}
