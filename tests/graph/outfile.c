/* Files that appear whole or not at all, and what is written as it is. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <dirent.h>
#include <unistd.h>

#include "graph/base/outfile.h"
#include "tests/harness/test.h"

static char folder[] = "/tmp/outfile-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int next;
    char *p = path[next++ % 4];

    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void enter(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    CU_ASSERT_PTR_NOT_NULL(mkdtemp(folder));
}

/* Entries of the folder, which is emptied and removed. */
static int leave(void)
{
    DIR *d = opendir(folder);
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            n++;
            unlink(in_folder(e->d_name));
        }
    if (d)
        closedir(d);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
    return n;
}

static Status put(const char *path, const char *text)
{
    OutFile *o;

    TRY(outfile_open(&o, path));
    fputs(text, outfile_stream(o));
    return outfile_close(o, ST_OK);
}

static void check_text(const char *path, const char *expected)
{
    char found[64] = "";
    FILE *f = fopen(path, "r");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    found[fread(found, 1, sizeof found - 1, f)] = '\0';
    fclose(f);
    CHECK_STR(expected, found);
}

static void test_replaces(void)
{
    struct stat s;
    OutFile *o;

    enter();
    CHECK_OK(put(in_folder("a"), "one"));
    CHECK_OK(put(in_folder("a"), "two"));
    check_text(in_folder("a"), "two");
    CU_ASSERT_EQUAL(chmod(in_folder("a"), 0640), 0);
    CHECK_OK(put(in_folder("a"), "three"));
    CU_ASSERT_EQUAL(stat(in_folder("a"), &s), 0);
    CU_ASSERT_EQUAL(s.st_mode & 0777, 0640);
    CHECK_OK(outfile_open(&o, in_folder("a")));
    fputs("lost", outfile_stream(o));
    CU_ASSERT_EQUAL(outfile_close(o, FAIL(E_MODEL, "its writer failed")), E_MODEL);
    CHECK_STR("its writer failed", status_message());
    check_text(in_folder("a"), "three");
    CU_ASSERT_EQUAL(leave(), 1);
}

static void test_links(void)
{
    struct stat s;

    enter();
    CHECK_OK(put(in_folder("real"), "one"));
    CU_ASSERT_EQUAL(symlink("real", in_folder("link")), 0);
    CU_ASSERT_EQUAL(symlink("link", in_folder("second")), 0);
    CU_ASSERT_EQUAL(symlink("later", in_folder("dangling")), 0);
    CU_ASSERT_EQUAL(symlink("circle", in_folder("circle")), 0);
    CHECK_OK(put(in_folder("second"), "two"));
    check_text(in_folder("real"), "two");
    CU_ASSERT(!lstat(in_folder("second"), &s) && S_ISLNK(s.st_mode));
    CHECK_OK(put(in_folder("dangling"), "three"));
    check_text(in_folder("later"), "three");
    CU_ASSERT(!lstat(in_folder("dangling"), &s) && S_ISLNK(s.st_mode));
    CHECK_FAILS(E_IO, "circle: cannot write: Too many levels of symbolic links", put(in_folder("circle"), ""));
    CU_ASSERT_EQUAL(leave(), 6);
}

static void test_devices(void)
{
    struct stat s;
    pid_t reader;
    int status;

    enter();
    CHECK_OK(put("/dev/null", "nothing"));
    CU_ASSERT(!stat("/dev/null", &s) && S_ISCHR(s.st_mode));
    CHECK_FAILS(E_IO, "/dev/full: cannot write: No space left on device", put("/dev/full", "something"));
    CU_ASSERT_EQUAL(mkfifo(in_folder("pipe"), 0666), 0);
    if (!(reader = fork())) {
        char text[16] = "";
        int fd = open(in_folder("pipe"), O_RDONLY);

        _exit(read(fd, text, sizeof text) == 5 && !memcmp(text, "piped", 5) ? 0 : 1);
    }
    CHECK_OK(put(in_folder("pipe"), "piped"));
    CU_ASSERT(waitpid(reader, &status, 0) == reader && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT(!lstat(in_folder("pipe"), &s) && S_ISFIFO(s.st_mode));
    CU_ASSERT_EQUAL(leave(), 1);
}

/* What an open file is called below /proc is written, not replaced. */
static void test_open_files(void)
{
    char path[64];
    int fd;

    enter();
    fd = open(in_folder("out"), O_RDWR | O_CREAT, 0666);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CU_ASSERT_EQUAL(write(fd, "kept ", 5), 5);
    CHECK_OK(put(path, "new"));
    CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_END), 5);
    close(fd);
    CU_ASSERT_EQUAL(leave(), 1);
}

static void test_refusals(void)
{
    enter();
    CHECK_FAILS(E_IO, "none/a: cannot write: No such file or directory", put(in_folder("none/a"), ""));
    CHECK_FAILS(E_IO, "cannot write: Is a directory", put(folder, ""));
    CHECK_FAILS(E_IO, "cannot write: Is a directory", outfile_check(folder));
    CHECK_FAILS(E_IO, "none/a: cannot write: No such file or directory", outfile_check(in_folder("none/a")));
    CHECK_FAILS(E_IO, "cannot write: No such file or directory", outfile_check(""));
    CHECK_OK(outfile_check(in_folder("a")));
    CU_ASSERT_EQUAL(leave(), 0);
}

/* A file that may not become as long as it has to: the old one stays and nothing else does. */
static void test_full(void)
{
    struct rlimit was, small;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    OutFile *o;

    enter();
    CHECK_OK(put(in_folder("a"), "old"));
    CU_ASSERT_EQUAL(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 1000;
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_OK(outfile_open(&o, in_folder("a")));
    for (int i = 0; i < 10000; i++)
        fputs("0123456789", outfile_stream(o));
    CHECK_FAILS(E_IO, "a: cannot write: File too large", outfile_close(o, ST_OK));
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &was), 0);
    check_text(in_folder("a"), "old");
    CU_ASSERT_EQUAL(leave(), 1);
    signal(SIGXFSZ, before);
}

/* Killed in mid-write: the old file, and nothing beside it where the file system has files without names. */
static void test_killed(void)
{
    int status, nameless;
    pid_t child;

    enter();
    nameless = open(folder, O_TMPFILE | O_WRONLY, 0600);
    CHECK_OK(put(in_folder("a"), "old"));
    if (!(child = fork())) {
        OutFile *o;

        if (!outfile_open(&o, in_folder("a"))) {
            fputs("new", outfile_stream(o));
            fflush(outfile_stream(o));
            raise(SIGKILL);
        }
        _exit(1);
    }
    CU_ASSERT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    check_text(in_folder("a"), "old");
    CU_ASSERT_EQUAL(leave(), nameless >= 0 ? 1 : 2);
    close(nameless);
}

DEFINE_SUITE(outfile, { "replaces a file, or leaves it", test_replaces }, { "writes through links", test_links },
             { "devices and pipes are written as they are", test_devices }, { "open files", test_open_files },
             { "refusals", test_refusals }, { "a full disk", test_full }, { "a killed writer", test_killed });
