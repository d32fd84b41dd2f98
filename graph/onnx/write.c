/* Writing a model's file, piece by piece as protobuf-c packs it.  Weights of a model larger than 2 GiB, protobuf's
 * limit, go to a second file beside it: external data.
 *
 * Two files cannot appear at the same moment.  So the name of the second contains a digest of its content, it is
 * written first, and the older one is removed last.  A process that is killed in between leaves a whole model, old or
 * new. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/outfile.h"
#include "graph/onnx/export.h"

enum { LEAST = 1024 /* bytes of a tensor that moves */, ALIGNMENT = 4096, DIGITS = 16 };
#define SUFFIX ".data"

typedef struct {
    ProtobufCBuffer base;
    FILE *f;
} Sink;

static void append(ProtobufCBuffer *base, size_t n, const uint8_t *data) { fwrite(data, 1, n, ((Sink *)base)->f); }

/* ---- external data ---- */

typedef struct {
    Arena *arena;
    Onnx__TensorProto **tensor; /* tensors that move to the second file */
    size_t n, cap;
    char name[NAME_MAX + 1]; /* of the second file */
} Aside;

/* Adds the large initializers of a graph and its subgraphs; NULL: none. */
static Status write_collect(Aside *a, const Onnx__GraphProto *g)
{
    for (size_t i = 0; g && i < g->n_initializer; i++) {
        if (g->initializer[i]->raw_data.len < LEAST)
            continue;
        if (!(a->tensor = arena_grow(a->arena, a->tensor, sizeof *a->tensor, a->n, &a->cap)))
            return FAIL_NOMEM();
        a->tensor[a->n++] = g->initializer[i];
    }
    for (size_t i = 0; g && i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            TRY(write_collect(a, g->node[i]->attribute[k]->g));
    return ST_OK;
}

static size_t padding(size_t at) { return (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT; }

/* Sets a->name to BASE.DIGEST.data, where the digest is of the tensors' data. */
static Status name_aside(Aside *a, const char *base)
{
    XXH3_state_t *state = XXH3_createState();
    int n;

    if (!state)
        return FAIL_NOMEM();
    XXH3_64bits_reset(state);
    for (size_t i = 0; i < a->n; i++) {
        const ProtobufCBinaryData *d = &a->tensor[i]->raw_data;

        XXH3_64bits_update(state, &d->len, sizeof d->len);
        XXH3_64bits_update(state, d->data, d->len);
    }
    n = snprintf(a->name, sizeof a->name, "%s.%0*" PRIx64 SUFFIX, base, DIGITS, (uint64_t)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    return n < (int)sizeof a->name ? ST_OK : FAIL(E_INVALID, "%s: the name is too long for external data", base);
}

static Onnx__StringStringEntryProto *write_entry(Arena *a, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *e = ARENA_NEW(a, Onnx__StringStringEntryProto, 1);

    if (!e)
        return NULL;
    onnx__string_string_entry_proto__init(e);
    e->key = arena_strdup(a, key);
    e->value = arena_strdup(a, text);
    return e->key && e->value ? e : NULL;
}

/* Replaces the tensor's data by a reference to the second file. */
static Status refer_to_file(Arena *a, Onnx__TensorProto *t, const char *name, size_t offset)
{
    Onnx__StringStringEntryProto **list = ARENA_NEW(a, Onnx__StringStringEntryProto *, 3);
    char text[24], bytes[24];

    snprintf(text, sizeof text, "%zu", offset);
    snprintf(bytes, sizeof bytes, "%zu", t->raw_data.len);
    if (!list || !(list[0] = write_entry(a, "location", name)) || !(list[1] = write_entry(a, "offset", text)) ||
        !(list[2] = write_entry(a, "length", bytes)))
        return FAIL_NOMEM();
    t->external_data = list;
    t->n_external_data = 3;
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    t->has_raw_data = false;
    t->raw_data = (ProtobufCBinaryData){ 0, NULL };
    return ST_OK;
}

/* Writes the second file, and makes the tensors refer to it. */
static Status write_aside(Aside *a, const char *path)
{
    static const char zeros[ALIGNMENT];
    OutFile *file;
    size_t at = 0;
    Status st = ST_OK;

    TRY(outfile_open(&file, path));
    for (size_t i = 0; i < a->n && !st; i++) {
        const ProtobufCBinaryData d = a->tensor[i]->raw_data;
        const size_t pad = padding(at);

        fwrite(zeros, 1, pad, outfile_stream(file));
        fwrite(d.data, 1, d.len, outfile_stream(file));
        st = refer_to_file(a->arena, a->tensor[i], a->name, at + pad);
        at += pad + d.len;
    }
    return outfile_close(file, st);
}

/* Is the name of the form BASE.DIGEST.data? */
static bool is_aside(const char *name, const char *base)
{
    const size_t n = strlen(base);

    return !strncmp(name, base, n) && name[n] == '.' && strspn(name + n + 1, "0123456789abcdef") == DIGITS &&
           !strcmp(name + n + 1 + DIGITS, SUFFIX);
}

/* ---- entry ---- */

/* Resolves links to the file's folder and name: external data lie beside the file, not beside a link to it. */
static Status find_place(char folder[PATH_MAX], char base[PATH_MAX], const char *path)
{
    char real[PATH_MAX];
    const char *slash;
    struct stat s;

    if (!realpath(path, real)) {
        if (errno != ENOENT || snprintf(real, sizeof real, "%s", path) >= (int)sizeof real)
            return FAIL(E_IO, "%s: %s", path, strerror(errno == ENOENT ? ENAMETOOLONG : errno));
    } else if (stat(real, &s) || !S_ISREG(s.st_mode)) {
        return FAIL(E_UNSUPPORTED, "%s: a model of more than 2 GiB needs external data beside it, expected a file",
                    path);
    }
    slash = strrchr(real, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - real) + 1 : 2, slash ? real : "./");
    snprintf(base, PATH_MAX, "%s", slash ? slash + 1 : real);
    return ST_OK;
}

static Status write_message(const Onnx__ModelProto *m, const char *path)
{
    OutFile *file;

    TRY(outfile_open(&file, path));
    return outfile_close(file, model_print(outfile_stream(file), m, INT32_MAX));
}

Status model_print(FILE *to, const Onnx__ModelProto *m, size_t most)
{
    const size_t size = onnx__model_proto__get_packed_size(m);
    Sink s = { .base.append = append, .f = to };

    if (size > (most ? most : INT32_MAX))
        return FAIL(E_UNSUPPORTED,
                    "the ONNX graph has %zu bytes and needs a second file for its weights: write it to a "
                    "file",
                    size);
    protobuf_c_message_pack_to_buffer(&m->base, &s.base);
    return ST_OK;
}

Status model_write(Onnx__ModelProto *m, const char *path, Arena *a, size_t most)
{
    const size_t size = onnx__model_proto__get_packed_size(m);
    Aside aside = { .arena = a };
    char folder[PATH_MAX], base[PATH_MAX], data[2 * PATH_MAX];
    DIR *d;

    most = most ? most : INT32_MAX;
    if (size <= most)
        return write_message(m, path);
    TRY(find_place(folder, base, path));
    TRY(write_collect(&aside, m->graph));
    for (size_t i = 0; i < m->n_training_info; i++) {
        TRY(write_collect(&aside, m->training_info[i]->initialization));
        TRY(write_collect(&aside, m->training_info[i]->algorithm));
    }
    TRY(name_aside(&aside, base));
    snprintf(data, sizeof data, "%s%s", folder, aside.name);
    TRY(write_aside(&aside, data));
    if (onnx__model_proto__get_packed_size(m) > most)
        return FAIL(E_UNSUPPORTED, "%s: without its weights the model has %zu bytes, an ONNX file has at most 2 GiB",
                    path, onnx__model_proto__get_packed_size(m));
    TRY(write_message(m, path));
    d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) /* second files of older models; failure does no harm */
        if (is_aside(e->d_name, base) && strcmp(e->d_name, aside.name))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    return ST_OK;
}
