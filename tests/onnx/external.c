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
    CU_ASSERT_EQUAL(symlink("w.bin", path), 0);
    check_refused(folder, "link.bin", NULL, NULL, E_MODEL, "symbolic link");
    snprintf(path, sizeof path, "%s/out", folder);
    CU_ASSERT_EQUAL(symlink("/etc", path), 0);
    check_refused(folder, "out/hostname", NULL, NULL, E_MODEL, "symbolic link");
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

DEFINE_SUITE(external, { "is read", test_read }, { "paths that lead elsewhere", test_paths }, { "sizes", test_sizes },
             { "not for models in memory", test_memory_has_none }, { "models that are no files", test_model_files });
