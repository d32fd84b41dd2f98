/* Checkpoints and .safetensors.  Text that begins as JSON is the manifest of a checkpoint whose state and digests are
 * whole.  Text that begins as the folder of a checkpoint is a stream.  Else the input is a file of tensors: what is
 * read of it is written and read again. */
#include <sys/stat.h>
#include <unistd.h>

#include "exec/state/checkpoint.h"
#include "exec/train/parameter_list.h"
#include "tests/fuzz/common/fuzz.h"

/* {"w": float32 [2], "n": int64 []}: the state that the manifests of the corpus are of. */
static const char state[144] =
    "\x78\0\0\0\0\0\0\0"
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"n\":{\"dtype\":\"I64\","
    "\"shape\":[],\"data_offsets\":[8,16]}}             "
    "\0\0\x80\x3f\0\0\0\x40\3\0\0\0\0\0\0"; /* and the 0 at the end of the string */

/* Of its header, of "w" and of "n". */
static void write_digests(const char *name)
{
    static const size_t from[] = { 0, 128, 136, 144 };
    XXH64_canonical_t digest[3];

    for (int i = 0; i < 3; i++)
        XXH64_canonicalFromHash(&digest[i], XXH3_64bits(state + from[i], from[i + 1] - from[i]));
    fuzz_file(name, digest, sizeof digest);
}

static void read_manifest(Arena *a, const uint8_t *data, size_t size)
{
    Checkpoint c;
    Status st;

    if (access(fuzz_path("run/step-000000007/state.safetensors"), F_OK)) {
        fuzz_file("run/step-000000007/state.safetensors", state, sizeof state);
        write_digests("run/step-000000007/state.digests");
    }
    fuzz_file("run/step-000000007/manifest.json", data, size);
    if ((st = checkpoint_read(&c, a, fuzz_path("run"), true, NULL)))
        fuzz_refused(st);
    else
        MUST(c.n == 2 && c.step >= 0 && c.note, "%d tensors, step %lld", c.n, (long long)c.step);
    checkpoint_close(&c);
}

static void check_same(const NamedTensor *a, int n, const NamedTensor *b, int m)
{
    MUST(n == m, "%d tensors became %d", n, m);
    for (int i = 0; i < n; i++) {
        const Tensor *x = &a[i].tensor, *y = named_find(b, m, a[i].name);

        MUST(y && x->dtype == y->dtype && shape_eq(&x->shape, &y->shape) && !memcmp(x->data, y->data, tensor_bytes(x)),
             "'%s' is not what was written", a[i].name);
    }
}

static void read_tensors(Arena *a, const uint8_t *data, size_t size)
{
    const char *path = fuzz_file("fuzz.safetensors", data, size), *copy = fuzz_path("copy");
    NamedTensor *list, *again;
    const ParameterList *parameters;
    int n, m;
    Status st = safetensors_read(&list, &n, a, path);

    if (st) {
        fuzz_refused(st);
        return;
    }
    MUST_DO(safetensors_write(copy, list, n, NULL, NULL, NULL));
    MUST_DO(safetensors_read(&again, &m, a, copy));
    check_same(list, n, again, m);
    unlink(copy);
    if ((st = parameter_list_read(&parameters, a, path)))
        fuzz_refused(st);
}

/* Puts into each header of an archive the sum that belongs there, which mutations do not find. */
static void correct_sums(uint8_t *data, size_t size)
{
    enum { BLOCK = 512, SUM = 148, MAGIC = 257 };

    for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
        uint8_t *header = data + at;
        char text[8];
        unsigned sum = 0;

        if (memcmp(header + MAGIC, "ustar", 5) != 0)
            continue;
        memset(header + SUM, ' ', sizeof text);
        for (size_t i = 0; i < BLOCK; i++)
            sum += header[i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(header + SUM, text, 7);
    }
}

static void read_stream(Arena *a, const uint8_t *data, size_t size)
{
    const char *folder = fuzz_path("stream");
    uint8_t *copy = malloc(size);
    Checkpoint c = { 0 };
    FILE *f;
    int64_t step = -1;
    Status st;

    MUST(copy, "memory");
    memcpy(copy, data, size);
    correct_sums(copy, size);
    MUST(!mkdir(folder, 0777) && (f = fmemopen(copy, size, "r")), "%s", folder);
    st = checkpoint_unpack(f, folder, &step);
    fclose(f);
    if (!st)
        st = checkpoint_read_step(&c, a, folder, step, true, NULL);
    if (st)
        fuzz_refused(st);
    else
        MUST(c.step == step, "step %lld, the folder is of %lld", (long long)c.step, (long long)step);
    checkpoint_close(&c);
    checkpoint_unpack_remove(folder);
    MUST(access(folder, F_OK), "%s is left", folder);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *a = arena_create();

    MUST(a, "memory");
    if (size && *data == '{')
        read_manifest(a, data, size);
    else if (size > strlen(STEP_FOLDER) && !memcmp(data, STEP_FOLDER, strlen(STEP_FOLDER)))
        read_stream(a, data, size);
    else
        read_tensors(a, data, size);
    arena_free(a);
    return 0;
}
