/* What a process forked off from one that trains is told of the trainer, and that the parent goes on. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/api.h"

static const char *const two[] = { "loss=cross-entropy", "devices=cpu*2", "threads=1", "lr=0.1", NULL };

static int says_fork(dpx_status st) { return st == DPX_DEVICE && strstr(dpx_error(), "of which this one is a fork"); }

/* In the child: the number of what is wrong first, 0: nothing. */
static int use_after_fork(dpx_trainer *t, const Batch *b)
{
    dpx_tensor y = { .name = "logits" };
    dpx_result r;
    static float state[1 << 20];
    dpx_tensor view = { .data = state };
    dpx_info info;

    if (!says_fork(dpx_train_step(t, b->tensor, 2, &r)))
        return 1;
    if (!says_fork(dpx_val_step(t, b->tensor, 2, &r)))
        return 2;
    if (!says_fork(dpx_run(t, b->tensor, 1, &y, 1)))
        return 3;
    if (dpx_trainer_state_info(t, 0, &info) || info.rank > 2)
        return 4;
    view.dtype = info.dtype;
    view.rank = info.rank;
    memcpy(view.dim, info.dim, sizeof view.dim);
    (void)!dpx_trainer_get_state(t, info.name, &view); /* as it was, or an error: no end of waiting */
    dpx_trainer_free(t);
#ifndef __SANITIZE_THREAD__ /* which does not know threads of a child */
    if (!(t = make_trainer(two)))
        return 5;
    if (dpx_train_step(t, b->tensor, 2, &r))
        return 6;
    dpx_trainer_free(t);
#endif
    return 0;
}

static void test_fork(void)
{
    dpx_trainer *t = make_trainer(two);
    dpx_result r;
    int status = -1;
    pid_t child;
    Batch b;

    if (!t)
        return;
    make_batch(&b, 1);
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    if (!(child = fork())) {
        alarm(60); /* it would wait for ever */
        _exit(use_after_fork(t, &b));
    }
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        TEST_FAIL("the child: %s %d", WIFEXITED(status) ? "check" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    CHECK_DPX(dpx_train_step(t, b.tensor, 2, &r));
    CU_ASSERT_EQUAL(r.step, 2);
    dpx_trainer_free(t);
}

DEFINE_SUITE(api_fork, { "a trainer after fork", test_fork });
