/* What fails in a thread of a team is told to who called: the code, and that thread's message. */
#include "kernels/cpu/team.h"

#include <omp.h>
#include <string.h>

#include "tests/harness/test.h"

enum { THREADS = 4, TIMES = 50 };

static Status part_of(int t, int failing)
{
    return t & failing ? FAIL(t == 1 ? E_NOMEM : E_DEVICE, "part %d failed", t) : ST_OK;
}

/* Parts t of which t & failing. */
static Status all_parts(int failing)
{
    TeamFailure failure = { 0 };

#pragma omp parallel for num_threads(THREADS) schedule(static, 1)
    for (int t = 0; t < THREADS; t++)
        team_note(&failure, part_of(t, failing));
    return team_status(&failure);
}

static void test_message_of_a_thread(void)
{
    for (int i = 0; i < TIMES; i++) {
        Status st;

        status_clear();
        CHECK_OK(all_parts(0));
        CHECK_STR("", status_message());
        st = all_parts(1); /* parts 1 and 3 */
        CU_ASSERT(st == E_NOMEM ? !strcmp(status_message(), "part 1 failed")
                                : st == E_DEVICE && !strcmp(status_message(), "part 3 failed"));
    }
}

DEFINE_SUITE(team, { "the message of a thread", test_message_of_a_thread });
