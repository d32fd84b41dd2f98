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
        const Shape shape = SHAPE(N);
        Value v = { .name = "w", .kind = V_STATE, .dtype = DT_FLOAT32, .shape = &shape };

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

/* ---- pieces ---- */

static const int64_t piece_from[DEVICES] = { 0, 2, 2 }, piece_count[DEVICES] = { 2, 0, 3 };

/* Device d's piece of a state "m" of shape [1,N]. */
static Status open_piece(Rig *r, int d, int64_t from, int64_t count)
{
    static const float init[N] = { 9, 9, 9, 9, 9 };
    const Shard shard = { SHAPE(1, N), from };
    const Tensor begin = { DT_FLOAT32, SHAPE(count), (void *)init };
    Value v = {
        .name = "m", .kind = V_STATE, .dtype = DT_FLOAT32, .shape = &begin.shape, .shard = &shard, .init = &begin
    };

    v.device = d;
    v.replica = -1;
    return states_storage((void **)&r->copy[d], r->states, &v);
}

static bool open_pieces(Rig *r, const Tensor *given)
{
    memset(r, 0, sizeof *r);
    for (int d = 0; d < DEVICES; d++)
        if (!CHECK_OK(device_open(&r->device[d], &(DeviceSpec){ .index = d, .threads = 1 }, false)))
            return false;
    if (!CHECK_OK(states_create(&r->states, r->device, DEVICES)) ||
        (given && !CHECK_OK(states_give(r->states, "m", given, false))))
        return false;
    for (int d = 0; d < DEVICES; d++) {
        if (!CHECK_OK(open_piece(r, d, piece_from[d], piece_count[d])))
            return false;
        CU_ASSERT_EQUAL(state_waits(states_find(r->states, "m")), given && d + 1 < DEVICES);
    }
    return true;
}

static void check_pieces(const Rig *r, const float *expected)
{
    for (int d = 0; d < DEVICES; d++)
        if (piece_count[d] && memcmp(r->copy[d], expected + piece_from[d], (size_t)piece_count[d] * sizeof *expected))
            TEST_FAIL("the piece of device %d begins with %g, expected %g", d, r->copy[d][0], expected[piece_from[d]]);
}

/* A checkpoint's value waits until all pieces are there; what is read and written is whole. */
static void test_pieces(void)
{
    float given[N] = { 1, -2, 3, -4, 5 }, other[N] = { 6, 7, 8, -9, 10 }, found[N];
    const float begin[N] = { 9, 9, 9, 9, 9 };
    Tensor to = { DT_FLOAT32, SHAPE(1, N), given }, from = { DT_FLOAT32, SHAPE(1, N), found },
           again = { DT_FLOAT32, SHAPE(1, N), other };
    Rig r;

    for (int resumed = 0; resumed < 2; resumed++) {
        if (open_pieces(&r, resumed ? &to : NULL)) {
            check_pieces(&r, resumed ? given : begin);
            CHECK_OK(states_get(r.states, "m", &from));
            CU_ASSERT(!memcmp(found, resumed ? given : begin, sizeof found));
            CHECK_OK(states_set(r.states, "m", &again));
            check_pieces(&r, other);
            CHECK_OK(states_get(r.states, "m", &from));
            CU_ASSERT(!memcmp(found, other, sizeof found));
            CHECK_OK(states_check_mirrors(r.states));
            CHECK_FAILS(E_INTERNAL, "cut otherwise", open_piece(&r, 2, 1, 4));
        }
        close_rig(&r);
    }
}

DEFINE_SUITE(state, { "what is set is in every copy", test_all_copies_are_set },
             { "partial sums are set in one", test_partial_sums },
             { "pieces are read and set as a whole", test_pieces });
