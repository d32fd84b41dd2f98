/* State with copies on several devices: what is set is in all of them, partial sums in one. */
#include "exec/state/state.h"

#include <string.h>

#include "tests/harness/test.h"

enum { N = 5, DEVICES = 3 };

typedef struct {
    Device *device[DEVICES];
    States *states;
    float *copy[DEVICES];
} Rig;

/* A state "w" with a copy on each device, or a part of each replica, one on each. */
static bool open_rig(Rig *r, bool partial)
{
    memset(r, 0, sizeof *r);
    for (int d = 0; d < DEVICES; d++)
        if (!CHECK_OK(device_open(&r->device[d], &(DeviceSpec){ .index = d, .threads = 1 }, false)))
            return false;
    if (!CHECK_OK(states_create(&r->states, r->device, DEVICES)))
        return false;
    for (int d = 0; d < DEVICES; d++) {
        Value v = { .name = "w", .kind = V_STATE, .dtype = DT_FLOAT32, .shape = SHAPE(N) };

        v.device = d;
        v.replica = partial ? d : -1;
        v.partial = partial;
        if (!CHECK_OK(states_storage((void **)&r->copy[d], r->states, &v)))
            return false;
    }
    return true;
}

static void close_rig(Rig *r)
{
    states_free(r->states);
    for (int d = 0; d < DEVICES; d++)
        device_close(r->device[d]);
}

static void check_copy(const Rig *r, int d, const float *expected)
{
    if (memcmp(r->copy[d], expected, N * sizeof *expected))
        TEST_FAIL("copy %d is %g, %g ..., expected %g, %g ...", d, r->copy[d][0], r->copy[d][1], expected[0],
                  expected[1]);
}

static void test_all_copies_are_set(void)
{
    float given[N] = { 1, -2, 3, -4, 5 }, found[N] = { 0 };
    Tensor to = { DT_FLOAT32, SHAPE(N), given }, from = { DT_FLOAT32, SHAPE(N), found };
    Rig r;

    if (open_rig(&r, false)) {
        CHECK_OK(states_set(r.states, "w", &to));
        for (int d = 0; d < DEVICES; d++)
            check_copy(&r, d, given);
        CHECK_OK(states_check_mirrors(r.states));
        CHECK_OK(states_get(r.states, "w", &from));
        CU_ASSERT_EQUAL(memcmp(found, given, sizeof given), 0);
        r.copy[DEVICES - 1][N - 1] = 6;
        CHECK_FAILS(E_INTERNAL, "state 'w' differs between cpu:0 and cpu:2", states_check_mirrors(r.states));
    }
    close_rig(&r);
}

/* The sum of the parts is what was given. */
static void test_partial_sums(void)
{
    const float zero[N] = { 0 };
    float given[N] = { 1, -2, 3, -4, 5 };
    Tensor to = { DT_FLOAT32, SHAPE(N), given };
    Rig r;

    if (open_rig(&r, true)) {
        for (int d = 0; d < DEVICES; d++)
            r.copy[d][1] = 7;
        CHECK_OK(states_set(r.states, "w", &to));
        check_copy(&r, 0, given);
        for (int d = 1; d < DEVICES; d++)
            check_copy(&r, d, zero);
        CHECK_FAILS(E_UNSUPPORTED, "spread over replicas", states_get(r.states, "w", &to));
    }
    close_rig(&r);
}

DEFINE_SUITE(state, { "what is set is in every copy", test_all_copies_are_set },
             { "partial sums are set in one", test_partial_sums });
