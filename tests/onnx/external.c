/* External data: read where it should be, refused where it leads elsewhere. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/onnx/build.h"

static const float weights[4] = { 1, 2, 3, 4 };

static void write_file(const char *folder, const char *name)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    if ((f = fopen(path, "wb"))) {
        fwrite(weights, sizeof weights, 1, f);
        fclose(f);
    }
}

/* Imports a model in `folder` whose initializer w[2] lies at `location`; offset and length NULL: not given. */
static Status import_with(Graph **g, const char *folder, const char *location, const char *offset, const char *length)
{
    Built b = built_relu();
    char path[512];
    Onnx__TensorProto *t = built_init(&b, "w", DT_FLOAT32, "2", 0, NULL);

    if (location)
        tensor_external(b.arena, t, "location", location);
    if (offset)
        tensor_external(b.arena, t, "offset", offset);
    if (length)
        tensor_external(b.arena, t, "length", length);
    built_output(&b, "w");
    built_write(&b, folder);
    built_free(&b);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    *g = NULL;
    return onnx_import_file(g, NULL, path, NULL);
}

static void check_refused(const char *folder, const char *location, const char *offset, const char *length, Status code,
                          const char *text)
{
    Graph *g;

    CHECK_FAILS(code, text, import_with(&g, folder, location, offset, length));
    graph_free(g);
}

static void test_read(void)
{
    const char *folder = test_folder("external");
    char sub[512];
    Graph *g;

    write_file(folder, "w.bin");
    snprintf(sub, sizeof sub, "%s/sub", folder);
    mkdir(sub, 0777);
    write_file(folder, "sub/w.bin");
    if (CHECK_OK(import_with(&g, folder, "w.bin", "8", "8"))) {
        CU_ASSERT_EQUAL(tensor_float(value_const(g, g->output[1].value), 0), 3);
        CU_ASSERT_EQUAL(tensor_float(value_const(g, g->output[1].value), 1), 4);
        graph_free(g);
    }
    if (CHECK_OK(import_with(&g, folder, "sub/w.bin", NULL, NULL))) {
        CU_ASSERT_EQUAL(tensor_float(value_const(g, g->output[1].value), 1), 2);
        graph_free(g);
    }
}

static void test_paths(void)
{
    static const char *const plain[] = { "/etc/hostname", "..", "../w.bin",   "sub/../../w.bin", "sub/../w.bin",
                                         "./w.bin",       "",   "sub//w.bin", "w.bin/" };
    const char *folder = test_folder("paths");
    char path[512], target[512];

    write_file(folder, "w.bin");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        check_refused(folder, plain[i], NULL, NULL, E_MODEL, "must be a relative path");
    check_refused(folder, "missing.bin", NULL, NULL, E_IO, "No such file");
    check_refused(folder, NULL, "0", "8", E_MODEL, "without a location");

    snprintf(path, sizeof path, "%s/link.bin", folder);
    CU_ASSERT_EQUAL(symlink("link.bin", path), 0);
    check_refused(folder, "link.bin", NULL, NULL, E_MODEL, "symbolic links lead to no file");
    snprintf(path, sizeof path, "%s/out", folder);
    CU_ASSERT_EQUAL(symlink("/etc", path), 0);
    check_refused(folder, "out/hostname", NULL, NULL, E_MODEL, "a symbolic link leads out of the model's folder");
    snprintf(path, sizeof path, "%s/fifo", folder);
    CU_ASSERT_EQUAL(mkfifo(path, 0666), 0);
    check_refused(folder, "fifo", NULL, NULL, E_MODEL, "not a regular file");
    snprintf(path, sizeof path, "%s/dir", folder);
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    check_refused(folder, "dir", NULL, NULL, E_MODEL, "not a regular file");
    write_file(folder, "two.bin");
    snprintf(target, sizeof target, "%s/two.bin", folder);
    snprintf(path, sizeof path, "%s/names.bin", folder);
    CU_ASSERT_EQUAL(link(target, path), 0);
    check_refused(folder, "two.bin", NULL, NULL, E_MODEL, "2 hard links");
}

/* Symbolic link NAME of the folder. */
static void link_to(const char *folder, const char *name, const char *target)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    CU_ASSERT_EQUAL(symlink(target, path), 0);
}

/* A model that is itself a link, as caches have it: cache/snapshots/main/model.onnx -> ../../blobs/1a. */
static Status import_linked(Graph **g, const char *folder, const char *location)
{
    Built b = built_relu();
    char path[600], to[600];

    tensor_external(b.arena, built_init(&b, "w", DT_FLOAT32, "2", 0, NULL), "location", location);
    built_output(&b, "w");
    snprintf(path, sizeof path, "%s/blobs", folder);
    built_write(&b, path);
    built_free(&b);
    snprintf(path, sizeof path, "%s/blobs/model.onnx", folder);
    snprintf(to, sizeof to, "%s/blobs/1a", folder);
    CU_ASSERT_EQUAL(rename(path, to), 0);
    snprintf(path, sizeof path, "%s/snapshots/main/model.onnx", folder);
    *g = NULL;
    return onnx_import_file(g, NULL, path, NULL);
}

static void check_linked(const char *folder, const char *location, Status code, const char *text)
{
    Graph *g;
    Status st = import_linked(&g, folder, location);

    if (code)
        CHECK_FAILS(code, text, st);
    else if (CHECK_OK(st))
        CU_ASSERT_EQUAL(tensor_float(value_const(g, g->output[1].value), 1), 2);
    graph_free(g);
}

static void test_links(void)
{
    static const char *const folders[] = { "blobs", "blobs/more", "blobs2", "snapshots", "snapshots/main", "other" };
    const char *folder = test_folder("links");
    char path[512];
    Graph *g;

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        (void)mkdir(path, 0777);
    }
    write_file(folder, "blobs/2b");
    write_file(folder, "blobs/more/3c");
    write_file(folder, "blobs2/2b");
    write_file(folder, "other/w");
    write_file(folder, "snapshots/main/plain");
    link_to(folder, "snapshots/main/model.onnx", "../../blobs/1a");
    link_to(folder, "snapshots/main/data", "../../blobs/2b");
    check_linked(folder, "data", ST_OK, NULL);
    link_to(folder, "snapshots/main/below", "../../blobs/more/3c");
    check_linked(folder, "below", ST_OK, NULL);
    link_to(folder, "snapshots/main/again", "data");
    check_linked(folder, "again", ST_OK, NULL);
    link_to(folder, "snapshots/main/way", "../../blobs");
    check_linked(folder, "way/2b", ST_OK, NULL);
    check_linked(folder, "plain", ST_OK, NULL); /* no link: beside the path that was given */
    link_to(folder, "snapshots/main/near", "../../blobs2/2b");
    check_linked(folder, "near", E_MODEL, "leads out of the model's folder");
    link_to(folder, "snapshots/main/out", "../../other/w");
    check_linked(folder, "out", E_MODEL, "leads out of the model's folder");
    link_to(folder, "snapshots/main/own", "plain"); /* beside the link of the model, not beside the model */
    check_linked(folder, "own", E_MODEL, "leads out of the model's folder");
    link_to(folder, "snapshots/main/none", "../../blobs/9z");
    check_linked(folder, "none", E_IO, "No such file");
    link_to(folder, "snapshots/main/more", "../../blobs/more");
    check_linked(folder, "more", E_MODEL, "not a regular file");
    check_linked(folder, "../../blobs/2b", E_MODEL, "must be a relative path");
    link_to(folder, "w.bin", "other/w"); /* a model that is no link */
    if (CHECK_OK(import_with(&g, folder, "w.bin", NULL, NULL)))
        graph_free(g);
}

static void test_sizes(void)
{
    const char *folder = test_folder("sizes");

    write_file(folder, "w.bin");
    check_refused(folder, "w.bin", "-1", NULL, E_MODEL, "offset '-1' is not a number of bytes");
    check_refused(folder, "w.bin", "9", NULL, E_MODEL, "expected 8 at offset 9");
    check_refused(folder, "w.bin", "17", NULL, E_MODEL, "expected 8 at offset 17");
    check_refused(folder, "w.bin", "9223372036854775807", NULL, E_MODEL, "expected 8 at offset 9223372036854775807");
    check_refused(folder, "w.bin", "99999999999999999999999999", NULL, E_MODEL, "is not a number of bytes");
    check_refused(folder, "w.bin", "0", "4", E_MODEL, "external data of 4 bytes, expected 8");
    check_refused(folder, "w.bin", "0", "-8", E_MODEL, "length '-8' is not a number of bytes");
    check_refused(folder, "w.bin", "", NULL, E_MODEL, "is not a number of bytes");
}

static void test_memory_has_none(void)
{
    Built b = built_relu();

    tensor_external(b.arena, built_init(&b, "w", DT_FLOAT32, "2", 0, NULL), "location", "w.bin");
    REFUSED(&b, E_UNSUPPORTED, "external data needs a model in a file");
}

static void test_model_files(void)
{
    const char *folder = test_folder("files");
    char path[512];
    Graph *g;

    CHECK_FAILS(E_IO, "not a regular file", onnx_import_file(&g, NULL, folder, NULL));
    snprintf(path, sizeof path, "%s/none.onnx", folder);
    CHECK_FAILS(E_IO, "No such file", onnx_import_file(&g, NULL, path, NULL));
    snprintf(path, sizeof path, "%s/fifo.onnx", folder);
    CU_ASSERT_EQUAL(mkfifo(path, 0666), 0);
    CHECK_FAILS(E_IO, "not a regular file", onnx_import_file(&g, NULL, path, NULL));
    snprintf(path, sizeof path, "%s/empty.onnx", folder);
    close(open(path, O_CREAT | O_WRONLY, 0666));
    CHECK_FAILS(E_IO, "empty.onnx: the file is empty", onnx_import_file(&g, NULL, path, NULL));
}

DEFINE_SUITE(external, { "is read", test_read }, { "links of a cache", test_links },
             { "paths that lead elsewhere", test_paths }, { "sizes", test_sizes },
             { "not for models in memory", test_memory_has_none }, { "models that are no files", test_model_files });
