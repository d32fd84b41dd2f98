/* A program of tests/cli/embed.sh: it gives the library memory of its own, trains, predicts and frees everything, and
 * checks that all of the memory came back and was aligned.  With a number N as second argument, the N-th allocation
 * fails: then a call ends with DPX_NOMEM, or does without, and all of the memory comes back as well. */
#include <dpexec.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, PIXELS = 64 };

/* Stands before each piece of memory, at its alignment's distance. */
typedef struct {
    void *start;
    size_t bytes;
} Head;

typedef struct {
    atomic_long calls, pieces; /* calls so far; pieces of memory that are out */
    atomic_size_t bytes, most, all;
    long fails_at; /* the number of the call that fails; 0: none */
    atomic_int unaligned;
} Count;

static void *take(void *user, size_t alignment, size_t bytes)
{
    Count *c = user;
    const size_t room = alignment > sizeof(Head) ? alignment : sizeof(Head);
    char *start;
    size_t now;

    if (++c->calls == c->fails_at)
        return NULL;
    if (!alignment || alignment & (alignment - 1) || bytes % alignment) {
        c->unaligned++;
        return NULL;
    }
    if (!(start = aligned_alloc(room, room + (bytes + room - 1) / room * room)))
        return NULL;
    memset(start + room, 0xa5, bytes); /* nothing may rely on zeros */
    ((Head *)(start + room))[-1] = (Head){ start, bytes };
    c->pieces++;
    c->all += bytes;
    now = atomic_fetch_add(&c->bytes, bytes) + bytes;
    if (now > atomic_load(&c->most))
        atomic_store(&c->most, now);
    return start + room;
}

static void give_back(void *user, void *memory)
{
    Count *c = user;
    Head h = ((Head *)memory)[-1];

    c->pieces--;
    c->bytes -= h.bytes;
    free(h.start);
}

static dpx_status train_and_predict(dpx_trainer *t)
{
    static float x[SAMPLES][PIXELS];
    int64_t label[SAMPLES] = { 1, 2, 3, 4 };
    const dpx_tensor batch[] = { { "x", DPX_FLOAT32, 2, { SAMPLES, PIXELS }, x },
                                 { "target", DPX_INT64, 1, { SAMPLES }, label } };
    dpx_predictor *predictor = NULL;
    dpx_data *outputs = NULL;
    dpx_result r;
    dpx_status st = DPX_OK;

    for (int k = 0; k < SAMPLES * PIXELS; k++)
        x[k / PIXELS][k % PIXELS] = (float)(k * 37 % 101) / 101;
    for (int k = 0; k < 3 && !st; k++)
        st = dpx_train_step(t, batch, 2, &r);
    if (!st)
        st = dpx_predictor_create(&predictor, NULL, t, NULL);
    if (!st)
        st = dpx_predict(predictor, batch, 1, &outputs);
    if (!st)
        printf("loss %.9g\n", r.loss);
    dpx_data_free(outputs);
    dpx_predictor_free(predictor);
    return st;
}

int main(int argc, char **argv)
{
    Count c = { .fails_at = argc > 2 ? atol(argv[2]) : 0 };
    dpx_model *model = NULL;
    dpx_trainer *trainer = NULL;
    dpx_options *options;
    dpx_status st = argc > 1 ? dpx_set_allocator(take, give_back, &c) : DPX_INVALID;

    if (st || dpx_set_allocator(take, give_back, &c) != DPX_INVALID)
        return 2;
    options = dpx_options_create();
    if (!options)
        st = DPX_NOMEM;
    else if (!(st = dpx_options_set(options, "loss", "cross-entropy")) &&
             !(st = dpx_options_set(options, "devices", "cpu*2")) &&
             !(st = dpx_model_load_within(&model, argv[1], options)) &&
             !(st = dpx_trainer_create(&trainer, model, options, NULL, NULL)))
        st = train_and_predict(trainer);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    dpx_options_free(options);
    fprintf(stderr, "%s: %ld calls, %zu bytes in all, %zu at once; %ld pieces left, %d not aligned\n",
            dpx_status_name(st), (long)c.calls, (size_t)c.all, (size_t)c.most, (long)c.pieces, (int)c.unaligned);
    return c.pieces || c.unaligned || (st && (st != DPX_NOMEM || !c.fails_at));
}
