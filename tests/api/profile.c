/* A trainer's profile: which steps count, how long they took, and what cannot be asked for. */
#include <string.h>

#include "tests/api/api.h"

static const char *const sgd[] = { "loss=cross-entropy", "metric=accuracy", "lr=0.1", "momentum=0.9",
                                   "threads=1",          "batch-size=6",    NULL };

typedef struct {
    char text[1 << 15];
    size_t n;
} Written;

static void write_all(void *user, const char *text, size_t bytes)
{
    Written *w = user;

    CU_ASSERT_FATAL(w->n + bytes < sizeof w->text);
    memcpy(w->text + w->n, text, bytes);
    w->n += bytes;
}

static void test_profile(void)
{
    dpx_trainer *t = make_trainer(sgd);
    Written text = { .n = 0 }, json = { .n = 0 };
    dpx_result r;
    Batch b;

    if (!t)
        return;
    CHECK_DPX_FAILS(DPX_INVALID, "there is no profile", dpx_trainer_profile_step(t, 1, 0));
    CHECK_DPX_FAILS(DPX_INVALID, "there is no profile", dpx_trainer_write_profile(t, 0, write_all, &text));
    CHECK_DPX(dpx_trainer_profile(t, 1));
    CHECK_DPX(dpx_trainer_write_profile(t, 0, write_all, &text));
    CU_ASSERT(strstr(text.text, "no step was counted of 0") != NULL);
    make_batch(&b, 4);
    for (int i = 0; i < 7; i++) { /* two to warm up, one that is left out, four that count */
        CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
        CHECK_DPX(dpx_val_step(t, b.tensor, 2, &r)); /* not counted */
        CHECK_DPX(dpx_trainer_profile_step(t, i == 4 ? NAN : 0.5, 0.125));
    }
    CHECK_DPX(dpx_trainer_write_profile(t, 1, write_all, &json));
    CU_ASSERT(strstr(json.text, "\"steps\": 4,") && strstr(json.text, "\"steps_seen\": 7,"));
    CU_ASSERT(strstr(json.text, "\"seconds\": 0.5,") && strstr(json.text, "\"waiting_for_data\": 0.125"));
    CU_ASSERT(strstr(json.text, "\"operator\": \"Update\", \"calls\": 1,") != NULL);
    CHECK_DPX(dpx_trainer_profile(t, 0));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    dpx_trainer_free(t);
}

DEFINE_SUITE(profile, { "which steps count", test_profile });
