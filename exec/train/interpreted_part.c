/* Parts of a model that is interpreted. */
#include "exec/train/interpreted_part.h"
#include "passes/build_options.h"
#include "passes/options/backend.h"
#include "passes/options/memory.h"

static Status interpreted_part_run(Session *s, const Tensor **out, Arena *arena, const Graph *part,
                                   const Tensor *const *in)
{
    NamedTensor *given = ARENA_NEW(arena, NamedTensor, part->n_input);
    const NamedTensor *found;
    int n;

    if (!given)
        return FAIL_NOMEM();
    for (int i = 0; i < part->n_input; i++)
        given[i] = (NamedTensor){ value(part, part->input[i])->name, *in[i] };
    TRY(session_step(&found, &n, s, BUILD_INFER, given, part->n_input));
    for (int i = 0; i < part->n_output; i++) {
        const Tensor *t = named_find(found, n, part->output[i].name);

        if (!t)
            return FAIL(E_INTERNAL, "output '%s' was not computed", part->output[i].name);
        if (!(out[i] = tensor_copy(arena, t)))
            return FAIL_NOMEM();
    }
    return ST_OK;
}

Status part_compute(void *user, const Tensor **out, Arena *arena, const Graph *part, const Tensor *const *in)
{
    const PartOptions *how = user;
    const BackendOptions *backend = backend_options(how->build);
    const MemoryOptions *memory = memory_options(how->build);
    const BuildOptions build = {
        .backend = &(BackendOptions){ .tf32 = backend->tf32, .blocks = backend->blocks, .fuse = backend->fuse },
        .memory = &(MemoryOptions){ .plan_memory = memory->plan_memory },
    };
    Session *s;
    Status st;

    TRY(session_create(&s, part, &build, how->devices, NULL, NULL));
    st = interpreted_part_run(s, out, arena, part, in);
    session_free(s);
    return st;
}
