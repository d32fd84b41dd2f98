/* A program of tests/cli/abi.sh, compiled with headers whose structs are smaller or larger than the library's: it calls
 * every function that takes a struct which may grow, prints what it gets, and ends with 1 if the library wrote past
 * the struct, or left a member unset that it does not know (-DLATER). */
#include <dpexec.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 4, PIXELS = 64, GUARD = 0x5a };

/* A struct, and behind it bytes that nobody may write. */
#define GUARDED(type)             \
    struct {                      \
        type of;                  \
        unsigned char guard[256]; \
    }
#ifdef LATER
#define IS_ZERO(of) ((of).later == 0)
#else
#define IS_ZERO(of) 1
#endif

static int ended(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, dpx_error());
    return 1;
}

static int is_whole(const char *what, const unsigned char *guard, int zero)
{
    for (int i = 0; i < 256; i++)
        if (guard[i] != GUARD) {
            fprintf(stderr, "%s: byte %d behind the struct was written\n", what, i);
            return 0;
        }
    if (!zero)
        fprintf(stderr, "%s: a member that the library does not know is not 0\n", what);
    return zero;
}

/* Calls a function that fills in `of` of a guarded struct; leaves the caller when that fails. */
#define CALL(what, g, call)                              \
    do {                                                 \
        memset(&(g), GUARD, sizeof(g));                  \
        if (call)                                        \
            return ended(what);                          \
        if (!is_whole(what, (g).guard, IS_ZERO((g).of))) \
            return 1;                                    \
    } while (0)

static int train(dpx_trainer *t)
{
    static float x[SAMPLES][PIXELS];
    int64_t label[SAMPLES] = { 1, 2, 3, 4 };
    const dpx_tensor batch[] = { { "x", DPX_FLOAT32, 2, { SAMPLES, PIXELS }, x },
                                 { "target", DPX_INT64, 1, { SAMPLES }, label } };
    const dpx_part whole = { 0, SAMPLES };
    GUARDED(dpx_result) r;
    GUARDED(dpx_metric) m;
    GUARDED(dpx_info) i;

    for (int k = 0; k < SAMPLES * PIXELS; k++)
        x[k / PIXELS][k % PIXELS] = (float)(k * 37 % 101) / 101;
    CALL("dpx_train_step", r, dpx_train_step(t, batch, 2, &r.of));
    CALL("dpx_train_part", r, dpx_train_part(t, whole.to, batch, 2, &r.of));
    CALL("dpx_train_backward", r, dpx_train_backward(t, batch, 2, &r.of));
    CALL("dpx_train_backward_part", r, dpx_train_backward_part(t, SAMPLES, batch, 2, &r.of));
    CALL("dpx_train_update", r, dpx_train_update(t, &r.of));
    CALL("dpx_train_flush", r, dpx_train_flush(t, &r.of));
    if (dpx_train_step(t, batch, 2, NULL))
        return ended("dpx_train_step");
    CALL("dpx_train_result", r, dpx_train_result(t, &r.of));
    printf("step %d, loss %.9g\n", (int)r.of.step, r.of.loss);
    CALL("dpx_val_part", r, dpx_val_part(t, SAMPLES, batch, 2, &r.of));
    CALL("dpx_test_step", r, dpx_test_step(t, batch, 2, &r.of));
    CALL("dpx_test_part", r, dpx_test_part(t, SAMPLES, batch, 2, &r.of));
    CALL("dpx_val_step", r, dpx_val_step(t, batch, 2, &r.of));
    printf("validation loss %.9g\n", r.of.loss);
    CALL("dpx_trainer_metric", m, dpx_trainer_metric(t, &m.of));
    CALL("dpx_trainer_metric_at", m, dpx_trainer_metric_at(t, 0, &m.of));
    CALL("dpx_trainer_train_metric_at", m, dpx_trainer_train_metric_at(t, 0, &m.of));
    CALL("dpx_trainer_train_metric", m, dpx_trainer_train_metric(t, &m.of));
    printf("accuracy %.9g\n", m.of.value);
    CALL("dpx_trainer_state_info", i, dpx_trainer_state_info(t, 0, &i.of));
    printf("state %s, %d axes\n", i.of.name, i.of.rank);
    return 0;
}

static int ask(const dpx_model *model, const dpx_options *options)
{
    GUARDED(dpx_info) i;
    GUARDED(dpx_plan_memory_result) plan;
    GUARDED(dpx_check_result) c;
    GUARDED(dpx_device) d;
    dpx_world_options alone = { .size = 1 };
    dpx_world *world = NULL;
    int n;

    CALL("dpx_model_info", i, dpx_model_info(model, DPX_INPUT, 0, &i.of));
    printf("input %s, first axis %s\n", i.of.name, i.of.dim_name[0]);
    CALL("dpx_plan_memory", plan, dpx_plan_memory(&plan.of, model, options));
    CALL("dpx_check", c, dpx_check("no-such-folder", options, 0, &c.of));
    printf("outcome %d\n", (int)c.of.outcome);
    memset(&d, GUARD, sizeof d);
    if (dpx_devices(&d.of, 1, &n) && n != 1)
        return ended("dpx_devices");
    if (!is_whole("dpx_devices", d.guard, IS_ZERO(d.of)))
        return 1;
    printf("device %s\n", d.of.name);
    if (dpx_world_join(&world, &alone))
        return ended("dpx_world_join");
    dpx_world_leave(world);
#ifdef LATER
    alone.later = 1;
    if (dpx_world_join(&world, &alone) != DPX_INVALID)
        return ended("dpx_world_join of a newer struct");
#endif
    return 0;
}

int main(int argc, char **argv)
{
    dpx_model *model = NULL;
    dpx_trainer *trainer = NULL;
    dpx_options *options = dpx_options_create();
    int status;

    if (argc < 2 || dpx_options_set(options, "loss", "cross-entropy") ||
        dpx_options_set(options, "metric", "accuracy") || dpx_options_set(options, "batch-size", "4") ||
        dpx_model_load_within(&model, argv[1], options) || dpx_trainer_create(&trainer, model, options, NULL, NULL))
        status = ended("dpx_trainer_create");
    else
        status = ask(model, options) || train(trainer);
    dpx_trainer_free(trainer);
    dpx_model_free(model);
    dpx_options_free(options);
    return status;
}
