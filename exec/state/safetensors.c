/* Tensors are written in the given order without padding, so the offsets in the header are running sums; they are read
 * by their offsets, all of a tensor or a part of it.  A block holds bytes of one tensor, so that a digest that does not
 * fit names the damaged tensor. */
#include "exec/state/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/foreign.h"
#include "graph/base/jsontext.h"

static const uint64_t MAX_HEADER = 100 * 1000 * 1000;

static const struct {
    DType dtype;
    const char *name;
} types[] = {
    { DT_FLOAT32, "F32" }, { DT_FLOAT64, "F64" }, { DT_FLOAT16, "F16" }, { DT_BFLOAT16, "BF16" }, { DT_BOOL, "BOOL" },
    { DT_INT8, "I8" },     { DT_INT16, "I16" },   { DT_INT32, "I32" },   { DT_INT64, "I64" },     { DT_UINT8, "U8" },
    { DT_UINT16, "U16" },  { DT_UINT32, "U32" },  { DT_UINT64, "U64" },
};
enum { N_TYPES = sizeof types / sizeof *types };

int named_place(const NamedTensor *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return i;
    return -1;
}

const Tensor *named_find(const NamedTensor *list, int n, const char *name)
{
    const int i = named_place(list, n, name);

    return i < 0 ? NULL : &list[i].tensor;
}

static const char *type_name(DType t)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].dtype == t)
            return types[i].name;
    return NULL;
}

static DType type_parse(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].name, name))
            return types[i].dtype;
    return DT_NONE;
}

/* ---- digests ---- */

static XXH64_canonical_t digest_of(const void *data, size_t bytes)
{
    XXH64_canonical_t out;

    XXH64_canonicalFromHash(&out, XXH3_64bits(data, bytes));
    return out;
}

static size_t blocks_of(const Tensor *t) { return (tensor_bytes(t) + TENSOR_BLOCK - 1) / TENSOR_BLOCK; }

/* ---- writing ---- */

/* The header's entry of a tensor whose data begins at `from`; NULL: no memory. */
static json_t *safetensors_describe(const Tensor *t, uint64_t from)
{
    json_t *shape = json_array();

    for (int i = 0; i < t->shape.rank; i++)
        if (json_array_append_new(shape, json_integer(t->shape.dim[i]))) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)from, (json_int_t)(from + tensor_bytes(t)));
}

/* The header behind its length, padded with spaces to a multiple of 8 so that the data is aligned; `*bytes`: the size
 * of both. NULL: no memory. */
static char *make_header(const NamedTensor *list, int n, size_t *bytes)
{
    json_t *root = json_object();
    uint64_t at = 0;
    char *text, *padded;
    size_t len;

    for (int i = 0; i < n; i++) {
        if (json_object_set_new(root, list[i].name, safetensors_describe(&list[i].tensor, at)))
            break;
        at += tensor_bytes(&list[i].tensor);
    }
    text = root && json_object_size(root) == (size_t)n ? json_text(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    len = (strlen(text) + 7) / 8 * 8;
    if ((padded = malloc(8 + len + 1))) {
        for (int i = 0; i < 8; i++)
            padded[i] = (char)(unsigned char)((uint64_t)len >> (8 * i));
        snprintf(padded + 8, len + 1, "%-*s", (int)len, text);
    }
    free(text);
    *bytes = 8 + len;
    return padded;
}

static Status cannot_write(const char *path) { return FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno)); }

/* Writes the header or a tensor, with a digest of each piece of at most `block` bytes; `whole` NULL: without. */
static Status write_bytes(FILE *f, const char *path, const char *data, size_t bytes, size_t block, XXH3_state_t *whole,
                          TensorDigests *digests)
{
    if (bytes && fwrite(data, 1, bytes, f) != bytes)
        return cannot_write(path);
    for (size_t at = 0; whole && at < bytes; at += block)
        digests->piece[digests->n++] = digest_of(data + at, bytes - at < block ? bytes - at : block);
    return whole && XXH3_128bits_update(whole, data, bytes) ? FAIL_NOMEM() : ST_OK;
}

/* Writes the tensors behind the header. */
static Status write_tensors(FILE *f, const char *name, const NamedTensor *list, int n, TensorSource *source, void *user,
                            XXH3_state_t *whole, TensorDigests *found)
{
    Status st = ST_OK;

    for (int i = 0; i < n && !st; i++) {
        const Tensor *t = &list[i].tensor;
        void *asked = NULL;

        if (!t->data && source) {
            if (!(asked = malloc(tensor_bytes(t) + 1)))
                return FAIL_NOMEM();
            st = source(user, &list[i], asked);
        }
        if (!st)
            st = write_bytes(f, name, asked ? asked : t->data, tensor_bytes(t), TENSOR_BLOCK, whole, found);
        free(asked);
    }
    return st;
}

Status safetensors_stream(FILE *to, const char *name, const NamedTensor *list, int n, TensorSource *source, void *user,
                          TensorDigests *digests)
{
    TensorDigests found = { .n = 0 };
    XXH3_state_t *whole = NULL; /* of what was written */
    char *header = NULL;
    size_t bytes = 0, pieces = 1;
    Status st = ST_OK;

    for (int i = 0; i < n; i++) {
        if (!utf8_valid(list[i].name)) /* which JSON has to be */
            return FAIL(E_INVALID, "%s: the name of tensor '%s' is not UTF-8", name, list[i].name);
        pieces += blocks_of(&list[i].tensor);
    }
    if (digests && (!(found.piece = malloc(pieces * sizeof *found.piece)) || !(whole = XXH3_createState()) ||
                    XXH3_128bits_reset(whole)))
        TRY_TO(done, st, FAIL_NOMEM());
    if (!(header = make_header(list, n, &bytes)))
        TRY_TO(done, st, FAIL(E_NOMEM, "%s: no memory for the header", name));
    TRY_TO(done, st, write_bytes(to, name, header, bytes, bytes, whole, &found));
    TRY_TO(done, st, write_tensors(to, name, list, n, source, user, whole, &found));
    if (digests) {
        *digests = found;
        digests->whole = XXH3_128bits_digest(whole);
        found.piece = NULL;
    }
done:
    free(found.piece);
    XXH3_freeState(whole);
    free(header);
    return st;
}

Status safetensors_size(int64_t *out, const NamedTensor *list, int n)
{
    size_t bytes;
    char *header = make_header(list, n, &bytes);

    if (!header)
        return FAIL(E_NOMEM, "no memory for the header of %d tensors", n);
    free(header);
    for (int i = 0; i < n; i++)
        bytes += tensor_bytes(&list[i].tensor);
    *out = (int64_t)bytes;
    return ST_OK;
}

Status safetensors_write(const char *path, const NamedTensor *list, int n, TensorSource *source, void *user,
                         TensorDigests *digests)
{
    TensorDigests found = { .n = 0 };
    FILE *f = fopen(path, "wbx");
    Status st;

    if (!f)
        return cannot_write(path);
    st = safetensors_stream(f, path, list, n, source, user, digests ? &found : NULL);
    if (!st && (fflush(f) || fsync(fileno(f))))
        st = cannot_write(path);
    if (fclose(f) && !st)
        st = cannot_write(path);
    if (st)
        free(found.piece);
    else if (digests)
        *digests = found;
    return st;
}

/* ---- reading ---- */

struct TensorFile {
    Arena *arena;
    const char *path;
    int fd, n, users;
    uint64_t size, data; /* of the file; where in it the tensors begin */
    NamedTensor *list;
    uint64_t *at;             /* [n] of each, behind `data` */
    size_t *block;            /* [n] which piece the first of each is */
    XXH64_canonical_t *piece; /* [n_piece] the digests that pieces must have; NULL: not known */
    size_t n_piece;
    int64_t *bytes; /* that were read; NULL: not counted */
};

static Status read_bytes(const TensorFile *f, void *to, size_t bytes, uint64_t from)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)to + done, bytes - done, (off_t)(from + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return FAIL(E_IO, "%s: cannot read: %s", f->path, n ? strerror(errno) : "the file became shorter");
        done += (size_t)n;
    }
    if (f->bytes)
        *f->bytes += (int64_t)bytes;
    return ST_OK;
}

static Status open_file(TensorFile *f)
{
    struct stat s;

    if ((f->fd = open(f->path, O_RDONLY | O_CLOEXEC)) < 0)
        return FAIL(E_IO, "%s: cannot read: %s", f->path, strerror(errno));
    if (fstat(f->fd, &s) || !S_ISREG(s.st_mode))
        return FAIL(E_IO, "%s: not a regular file", f->path);
    f->size = (uint64_t)s.st_size;
    return ST_OK;
}

static Status read_shape(Shape *out, const char *path, const char *name, const json_t *dims)
{
    size_t i;
    json_t *d;

    out->rank = 0;
    if (!json_is_array(dims) || json_array_size(dims) > MAX_RANK)
        return FAIL(E_IO, "%s: tensor '%s': shape is not a list of at most %d numbers", path, name, MAX_RANK);
    json_array_foreach(dims, i, d) {
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return FAIL(E_IO, "%s: tensor '%s': dimension %zu is not a count", path, name, i);
        out->dim[out->rank++] = json_integer_value(d);
    }
    return shape_check(out, 16);
}

static Status read_entry(TensorFile *f, int i, const char *name, const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *range = json_object_get(entry, "data_offsets");
    json_int_t from = json_integer_value(json_array_get(range, 0)), to = json_integer_value(json_array_get(range, 1));
    Tensor *t = &f->list[i].tensor;

    if (!type || !(t->dtype = type_parse(type)))
        return FAIL(E_IO, "%s: tensor '%s': unknown type '%s'", f->path, name, type ? type : "");
    TRY(read_shape(&t->shape, f->path, name, json_object_get(entry, "shape")));
    if (json_array_size(range) != 2 || from < 0 || to < from || (uint64_t)to > f->size - f->data ||
        (uint64_t)(to - from) != tensor_bytes(t))
        return FAIL(E_IO, "%s: tensor '%s': offsets %lld to %lld do not fit %zu bytes in %llu", f->path, name,
                    (long long)from, (long long)to, tensor_bytes(t), (unsigned long long)(f->size - f->data));
    f->at[i] = (uint64_t)from;
    return (f->list[i].name = arena_strdup(f->arena, name)) ? ST_OK : FAIL_NOMEM();
}

typedef struct {
    int64_t from, to;
    int entry;
} Range;

static int by_offset(const void *a, const void *b)
{
    const Range *x = a, *y = b;

    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

/* Every byte belongs to exactly one tensor, and pieces follow one another as the tensors do. */
static Status check_cover(TensorFile *f)
{
    const uint64_t size = f->size - f->data;
    Range *range = arena_array(f->arena, sizeof *range, (size_t)f->n);
    int64_t end = 0;
    size_t block = 1;

    if (!range)
        return FAIL_NOMEM();
    for (int i = 0; i < f->n; i++)
        range[i] = (Range){ (int64_t)f->at[i], (int64_t)(f->at[i] + tensor_bytes(&f->list[i].tensor)), i };
    qsort(range, (size_t)f->n, sizeof *range, by_offset);
    for (int i = 0; i < f->n; end = range[i++].to) {
        if (range[i].from != end)
            return FAIL(E_IO, "%s: tensors overlap or leave a hole at byte %lld", f->path, (long long)end);
        f->block[range[i].entry] = block;
        block += blocks_of(&f->list[range[i].entry].tensor);
    }
    if ((uint64_t)end != size)
        return FAIL(E_IO, "%s: %llu bytes of data, the header covers %lld", f->path, (unsigned long long)size,
                    (long long)end);
    return !f->piece || f->n_piece == block
               ? ST_OK
               : FAIL(E_IO, "%s: %zu digests, expected one of the header and %zu of blocks", f->path, f->n_piece,
                      block - 1);
}

static Status read_entries(TensorFile *f, const json_t *root)
{
    const char *name;
    json_t *entry;

    f->list = ARENA_NEW(f->arena, NamedTensor, json_object_size(root));
    f->at = ARENA_NEW(f->arena, uint64_t, json_object_size(root));
    f->block = ARENA_NEW(f->arena, size_t, json_object_size(root));
    if (!f->list || !f->at || !f->block)
        return FAIL_NOMEM();
    json_object_foreach((json_t *)(uintptr_t)root, name, entry)
        if (strcmp(name, "__metadata__"))
            TRY(read_entry(f, f->n++, name, entry));
    return check_cover(f);
}

static Status parse_header(TensorFile *f, const char *text, size_t n)
{
    json_error_t why;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    Status st;

    if (!root && json_error_code(&why) == json_error_out_of_memory)
        return FAIL(E_NOMEM, "%s: no memory for the header", f->path);
    if (!json_is_object(root)) {
        json_decref(root);
        return FAIL(E_IO, "%s: the header is not a JSON object%s%s", f->path, root ? "" : ": ", root ? "" : why.text);
    }
    st = read_entries(f, root);
    json_decref(root);
    return st;
}

/* Pieces follow one another from the header, which is the first, on. */
static bool is_piece(const TensorFile *f, size_t k, const void *data, size_t bytes)
{
    const XXH64_canonical_t found = digest_of(data, bytes);

    return !memcmp(&found, &f->piece[k], sizeof found);
}

static Status safetensors_read_header(TensorFile *f)
{
    unsigned char size[9] = { 0 };
    uint64_t header = 0;
    char *text;
    Status st;

    TRY(read_bytes(f, size, f->size < sizeof size ? (size_t)f->size : sizeof size, 0));
    for (int i = 0; i < 8 && f->size >= 8; i++)
        header |= (uint64_t)size[i] << (8 * i);
    if (f->size < 8 || header > MAX_HEADER || header > f->size - 8 || header < 2 || size[8] != '{')
        return FAIL(E_IO, "%s: not a safetensors file (%llu bytes, header of %llu)", f->path,
                    (unsigned long long)f->size, (unsigned long long)header);
    f->data = 8 + header;
    if (!(text = malloc((size_t)f->data)))
        return FAIL_NOMEM();
    st = read_bytes(f, text, (size_t)f->data, 0);
    if (!st && f->piece && !(f->n_piece && is_piece(f, 0, text, (size_t)f->data)))
        st = FAIL(E_IO, "%s: the header is damaged: its digest is not the one that was written", f->path);
    if (!st)
        st = parse_header(f, text + 8, (size_t)header);
    free(text);
    return st;
}

static Status copy_pieces(TensorFile *f, const XXH64_canonical_t *pieces, size_t n)
{
    f->n_piece = n;
    if (!pieces)
        return ST_OK;
    if (!(f->piece = arena_array(f->arena, sizeof *pieces, n + 1)))
        return FAIL_NOMEM();
    if (n)
        memcpy(f->piece, pieces, n * sizeof *pieces);
    return ST_OK;
}

Status tensor_file_open(TensorFile **out, const char *path, const XXH64_canonical_t *pieces, size_t n, int64_t *bytes)
{
    Arena *a = arena_create();
    TensorFile *f = a ? ARENA_NEW(a, TensorFile, 1) : NULL;
    Status st;

    if (!f || !(f->path = arena_strdup(a, path))) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    f->arena = a;
    f->users = 1;
    f->fd = -1;
    f->bytes = bytes;
    if ((st = copy_pieces(f, pieces, n)) || (st = open_file(f)) || (st = safetensors_read_header(f))) {
        tensor_file_release(f);
        return st;
    }
    *out = f;
    return ST_OK;
}

TensorFile *tensor_file_share(TensorFile *f)
{
    f->users++;
    return f;
}

void tensor_file_release(TensorFile *f)
{
    if (!f || --f->users)
        return;
    if (f->fd >= 0)
        close(f->fd);
    arena_free(f->arena);
}

const NamedTensor *tensor_file_list(const TensorFile *f, int *n)
{
    *n = f->n;
    return f->list;
}

/* Whole blocks, to their place: of tensor i from byte `at` on, where one begins; the last ends them, or the tensor. */
static Status read_blocks(const TensorFile *f, int i, char *to, size_t at, size_t bytes)
{
    TRY(read_bytes(f, to, bytes, f->data + f->at[i] + at));
    for (size_t done = 0; done < bytes; done += TENSOR_BLOCK) {
        const size_t n = bytes - done < TENSOR_BLOCK ? bytes - done : TENSOR_BLOCK, from = at + done;

        if (!is_piece(f, f->block[i] + from / TENSOR_BLOCK, to + done, n))
            return FAIL(E_IO, "%s: tensor '%s' is damaged: bytes %zu to %zu do not have the digest that was written",
                        f->path, f->list[i].name, from, from + n - 1);
    }
    return ST_OK;
}

/* A part of one block. */
static Status read_part(const TensorFile *f, int i, char *to, size_t from, size_t bytes)
{
    const size_t at = from - from % TENSOR_BLOCK, left = tensor_bytes(&f->list[i].tensor) - at;
    char block[TENSOR_BLOCK];

    TRY(read_blocks(f, i, block, at, left < TENSOR_BLOCK ? left : TENSOR_BLOCK));
    memcpy(to, block + (from - at), bytes);
    return ST_OK;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* The end of a block, whole ones, and the beginning of one. */
Status tensor_file_read(const TensorFile *f, int i, void *to, size_t from, size_t bytes)
{
    const size_t all = tensor_bytes(&f->list[i].tensor), end = from + bytes;
    const size_t first = smaller((TENSOR_BLOCK - from % TENSOR_BLOCK) % TENSOR_BLOCK, bytes),
                 last = end == all ? 0 : smaller(end % TENSOR_BLOCK, bytes - first), whole = bytes - first - last;

    if (!f->piece)
        return read_bytes(f, to, bytes, f->data + f->at[i] + from);
    if (first)
        TRY(read_part(f, i, to, from, first));
    if (whole)
        TRY(read_blocks(f, i, (char *)to + first, from + first, whole));
    return last ? read_part(f, i, (char *)to + first + whole, from + first + whole, last) : ST_OK;
}

Status tensor_file_verify(const TensorFile *f)
{
    enum { ROOM = 64 * TENSOR_BLOCK };
    char *buffer = malloc(ROOM);
    Status st = buffer ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < f->n && f->piece; i++) {
        const size_t all = tensor_bytes(&f->list[i].tensor);

        for (size_t at = 0; at < all && !st; at += ROOM)
            st = read_blocks(f, i, buffer, at, smaller(all - at, ROOM));
    }
    free(buffer);
    return st;
}

Status safetensors_read(NamedTensor **list, int *n, Arena *arena, const char *path)
{
    TensorFile *f;
    NamedTensor *t;
    Status st;

    TRY(tensor_file_open(&f, path, NULL, 0, NULL));
    st = (t = ARENA_NEW(arena, NamedTensor, f->n)) ? ST_OK : FAIL_NOMEM();
    for (int i = 0; i < f->n && !st; i++) {
        t[i] = f->list[i];
        t[i].name = arena_strdup(arena, t[i].name);
        t[i].tensor.data = arena_alloc(arena, tensor_bytes(&t[i].tensor));
        st = t[i].name && t[i].tensor.data ? tensor_file_read(f, i, t[i].tensor.data, 0, tensor_bytes(&t[i].tensor))
                                           : FAIL_NOMEM();
    }
    if (!st) {
        *list = t;
        *n = f->n;
    }
    tensor_file_release(f);
    return st;
}
