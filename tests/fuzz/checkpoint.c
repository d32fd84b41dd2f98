/* Checkpoints and .safetensors.  Text that begins as JSON is the manifest of a checkpoint whose state and digests are
 * whole; else the input is a file of tensors: what is read of it is written and read again. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *a = arena_create();

    MUST(a, "memory");
    if (size && *data == '{')
        read_manifest(a, data, size);
    else
        read_tensors(a, data, size);
    arena_free(a);
    return 0;
}
