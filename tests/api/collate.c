/* Samples of any structure: containers, what dpx_collate makes of them, and what dpx_scatter gives each replica.  What
 * is expected follows by hand from the rules of mmcv.parallel's DataContainer, collate and scatter. */
#include <stdint.h>
#include <string.h>

#include "tests/api/samples.h"

#define REFUSED(status, says, each, ...)                                                    \
    CHECK_DPX_FAILS(status, says,                                                           \
                    dpx_collate(&(dpx_data *){ NULL }, (const dpx_data *[]){ __VA_ARGS__ }, \
                                (int)(sizeof((dpx_data *[]){ __VA_ARGS__ }) / sizeof(dpx_data *)), each))

static void check_tensor(const dpx_data *d, int rank, const int64_t *dim, const float *value)
{
    dpx_tensor t;
    int64_t n = 1;

    if (!CHECK_DPX(dpx_data_view(d, &t)))
        return;
    CU_ASSERT_EQUAL_FATAL(t.rank, rank);
    for (int i = 0; i < rank; i++) {
        CU_ASSERT_EQUAL_FATAL(t.dim[i], dim[i]);
        n *= dim[i];
    }
    for (int64_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(((float *)t.data)[i], value[i]);
}

#define IS(d, dims, ...) check_tensor(d, dims, (const float[]){ __VA_ARGS__ })

/* ---- containers ---- */

static void test_defaults(void)
{
    dpx_data *x = FLOATS(1, 1, 2, 3), *y = FLOATS(1, 1, 1, 4), *d = NULL;
    dpx_container how = DPX_CONTAINER_DEFAULTS;
    const dpx_data *b;

    CU_ASSERT(!how.stack && how.padding_value == 0 && how.pad_dims == 2 && !how.cpu_only);
    CHECK_DPX(dpx_data_container(&d, x, NULL));
    keep(d);
    b = COLLATE(2, d, contained(y, 0, 0, 2, 0)); /* a list for each group */
    CU_ASSERT_EQUAL(dpx_data_kind_of(b), DPX_DATA_GROUPS);
    CU_ASSERT_EQUAL(dpx_data_count(b), 1);
    CU_ASSERT_EQUAL(dpx_data_kind_of(dpx_data_at(b, 0)), DPX_DATA_LIST);
    CU_ASSERT_PTR_EQUAL(dpx_data_at(dpx_data_at(b, 0), 0), x);
    CU_ASSERT_PTR_EQUAL(dpx_data_at(dpx_data_at(b, 0), 1), y);
    how.pad_dims = 4;
    CHECK_DPX_FAILS(DPX_INVALID, "pad_dims is 4, expected 1 to 3, or 0", dpx_data_container(&d, x, &how));
    how.pad_dims = -1;
    CHECK_DPX_FAILS(DPX_INVALID, "pad_dims is -1", dpx_data_container(&d, x, &how));
    how.size = 1;
    CHECK_DPX_FAILS(DPX_INVALID, "dpx_container.size is 1", dpx_data_container(&d, x, &how));
    free_made();
}

/* The last two axes, at the end, to the largest of the group: that of another group does not count. */
static void test_padding(void)
{
    const dpx_data *b =
        COLLATE(2, STACKED(FLOATS(1, 1, 1, 2)), STACKED(FLOATS(10, 1, 2, 1)), STACKED(FLOATS(1, 1, 1, 3)));

    CU_ASSERT_EQUAL(dpx_data_count(b), 2);
    IS(dpx_data_at(b, 0), DIMS(2, 1, 2, 2), 1, 2, 0, 0, 10, 0, 20, 0);
    IS(dpx_data_at(b, 1), DIMS(1, 1, 1, 3), 1, 2, 3);
    free_made();
}

static void test_pad_dims(void)
{
    const dpx_data *b = COLLATE(2, contained(FLOATS(1, 2, 1), 1, 7, 1, 0), contained(FLOATS(10, 2, 2), 1, 0, 1, 0));

    IS(dpx_data_at(b, 0), DIMS(2, 2, 2), 1, 7, 2, 7, 10, 20, 30, 40);
    b = COLLATE(2, contained(FLOATS(1, 1, 1, 1, 2), 1, 0, 3, 0), contained(FLOATS(10, 1, 2, 1, 1), 1, 0, 3, 0));
    IS(dpx_data_at(b, 0), DIMS(2, 1, 2, 1, 2), 1, 2, 0, 0, 10, 0, 20, 0);
    b = COLLATE(2, contained(FLOATS(1, 2), 1, 0, 0, 0), contained(FLOATS(10, 2), 1, 0, 0, 0)); /* none: as they are */
    IS(dpx_data_at(b, 0), DIMS(2, 2), 1, 2, 10, 20);
    free_made();
}

static void test_own_padding(void)
{
    const dpx_data *b =
        COLLATE(3, contained(FLOATS(1, 1, 1, 1), 1, -1, 2, 0), contained(FLOATS(10, 1, 1, 2), 1, 0, 2, 0),
                contained(FLOATS(1, 1, 1, 1), 1, 255, 2, 0));

    IS(dpx_data_at(b, 0), DIMS(3, 1, 1, 2), 1, -1, 10, 20, 1, 255);
    REFUSED(DPX_INVALID, "the batch: sample 1 is padded with -1, which type uint8 cannot hold", 2,
            contained(counted(DPX_UINT8, DIMS(1, 1, 2), 1), 1, 255, 2, 0),
            contained(counted(DPX_UINT8, DIMS(1, 1, 1), 1), 1, -1, 2, 0));
    REFUSED(DPX_INVALID, "padded with 0.5", 1, contained(counted(DPX_UINT8, DIMS(1, 1, 2), 1), 1, 0.5, 2, 0));
    free_made();
}

/* int64 holds -2^63, but not 2^63. */
static void test_padding_of_integers(void)
{
    static const int64_t expected[] = { 1, INT64_MIN, 1, 2 };
    dpx_data *one = counted(DPX_INT64, DIMS(1, 1), 1), *two = counted(DPX_INT64, DIMS(1, 2), 1);
    const dpx_data *b = COLLATE(2, contained(one, 1, -0x1p63, 1, 0), contained(two, 1, 0, 1, 0));
    dpx_tensor t;

    if (CHECK_DPX(dpx_data_view(dpx_data_at(b, 0), &t))) {
        CU_ASSERT_FATAL(t.dtype == DPX_INT64 && t.rank == 3 && t.dim[0] == 2 && t.dim[1] == 1 && t.dim[2] == 2);
        CU_ASSERT(!memcmp(t.data, expected, sizeof expected));
    }
    REFUSED(DPX_INVALID, "which type int64 cannot hold", 2, contained(one, 1, 0x1p63, 1, 0),
            contained(two, 1, 0, 1, 0));
    free_made();
}

static void test_what_cannot_be_stacked(void)
{
    REFUSED(DPX_SHAPE, "expected more axes than are padded", 1, STACKED(FLOATS(1, 2, 3)));
    REFUSED(DPX_SHAPE, "sample 1 is [2,1,2] float32, sample 0 [1,1,2] float32: all axes but those that are padded", 2,
            STACKED(FLOATS(1, 1, 1, 2)), STACKED(FLOATS(1, 2, 1, 2)));
    REFUSED(DPX_SHAPE, "expected the same type and number of axes", 2, STACKED(FLOATS(1, 1, 1, 2)),
            STACKED(FLOATS(1, 1, 1, 1, 2)));
    REFUSED(DPX_SHAPE, "sample 1 is [1,1,2] float64", 2, STACKED(FLOATS(1, 1, 1, 2)),
            STACKED(counted(DPX_FLOAT64, DIMS(1, 1, 2), 1)));
    REFUSED(DPX_SHAPE, "expected the same shape", 2, contained(FLOATS(1, 2), 1, 0, 0, 0),
            contained(FLOATS(1, 3), 1, 0, 0, 0));
    REFUSED(DPX_INVALID, "the container of sample 0 has a list, expected a tensor", 1, STACKED(list_of(NULL, NULL)));
    free_made();
}

static void test_cpu_only(void)
{
    dpx_data *x = FLOATS(1, 1, 1, 2), *note = map_of("id", scalar(3), NULL, NULL);
    const dpx_data *b = COLLATE(1, contained(x, 1, 0, 2, 1), contained(note, 1, 0, 2, 1));

    CU_ASSERT_EQUAL(dpx_data_count(b), 2);
    CU_ASSERT_EQUAL(dpx_data_kind_of(dpx_data_at(b, 0)), DPX_DATA_LIST); /* whatever `stack` says */
    CU_ASSERT_PTR_EQUAL(dpx_data_at(dpx_data_at(b, 0), 0), x);
    CU_ASSERT_PTR_EQUAL(dpx_data_at(dpx_data_at(b, 1), 0), note);
    free_made();
}

/* Of a group: the second begins with another. */
static void test_first_of_group(void)
{
    const dpx_data *b = COLLATE(2, STACKED(FLOATS(1, 1, 1, 1)), contained(FLOATS(10, 1, 1, 2), 0, 5, 1, 0),
                                contained(FLOATS(1, 1, 1, 1), 0, 0, 2, 0), STACKED(FLOATS(1, 1, 1, 2)));

    IS(dpx_data_at(b, 0), DIMS(2, 1, 1, 2), 1, 0, 10, 20);
    CU_ASSERT_EQUAL(dpx_data_kind_of(dpx_data_at(b, 1)), DPX_DATA_LIST);
    CU_ASSERT_EQUAL(dpx_data_count(dpx_data_at(b, 1)), 2);
    REFUSED(DPX_SHAPE, "all axes but those that are padded", 2, contained(FLOATS(1, 1, 1, 2), 1, 0, 1, 0),
            STACKED(FLOATS(1, 1, 2, 2))); /* by the first's pad_dims, 1 */
    free_made();
}

/* ---- collate ---- */

static void test_groups(void)
{
    dpx_data *x[5];
    const dpx_data *b;

    for (int i = 0; i < 5; i++)
        x[i] = STACKED(FLOATS(i + 1, 1, 1, 1));
    CU_ASSERT_EQUAL(dpx_data_count(collated(0, 5, x)), 5); /* one each, unless told */
    b = collated(2, 5, x);
    CU_ASSERT_EQUAL(dpx_data_count(b), 3);
    IS(dpx_data_at(b, 1), DIMS(2, 1, 1, 1), 3, 4);
    IS(dpx_data_at(b, 2), DIMS(1, 1, 1, 1), 5); /* the last is smaller */
    free_made();
}

static void test_structure(void)
{
    const dpx_data *b = COLLATE(2, map_of("img", FLOATS(1, 2), "box", list_of(scalar(1), FLOATS(1, 1))),
                                map_of("box", list_of(scalar(2), FLOATS(5, 1)), "img", FLOATS(10, 2))),
                   *box = dpx_data_find(b, "box");

    CU_ASSERT_EQUAL(dpx_data_kind_of(b), DPX_DATA_MAP);
    CU_ASSERT_STRING_EQUAL(dpx_data_key(b, 0), "img");     /* in the first sample's order */
    IS(dpx_data_find(b, "img"), DIMS(2, 2), 1, 2, 10, 20); /* on a new axis 0 */
    CU_ASSERT_EQUAL(dpx_data_kind_of(box), DPX_DATA_LIST); /* transposed: a list of two columns */
    CU_ASSERT_EQUAL(dpx_data_count(box), 2);
    IS(dpx_data_at(box, 0), DIMS(2), 1, 2);
    IS(dpx_data_at(box, 1), DIMS(2, 1), 1, 5);
    b = COLLATE(1, map_of("a", scalar(1), NULL, NULL), map_of("b", scalar(8), "a", scalar(2)));
    CU_ASSERT_EQUAL(dpx_data_count(b), 1); /* the first sample's keys alone */
    free_made();
}

static void test_paths(void)
{
    dpx_data *a = scalar(1), *v = FLOATS(1, 2), *w = FLOATS(1, 3);

    REFUSED(DPX_INVALID, "the batch: sample 1 has no 'img', sample 0 has", 1, map_of("img", a, NULL, NULL),
            map_of("box", a, NULL, NULL));
    REFUSED(DPX_INVALID, "meta.box: sample 1 has 1 members, sample 0 2", 1,
            map_of("meta", map_of("box", list_of(a, a), NULL, NULL), NULL, NULL),
            map_of("meta", map_of("box", list_of(a, NULL), NULL, NULL), NULL, NULL));
    REFUSED(DPX_INVALID, "[0]: sample 1 has 1 members, sample 0 0", 1, list_of(list_of(NULL, NULL), NULL),
            list_of(list_of(a, NULL), NULL));
    REFUSED(DPX_SHAPE, "box[1]: sample 1 is [3] float32, sample 0 [2] float32", 1,
            map_of("box", list_of(a, v), NULL, NULL), map_of("box", list_of(a, w), NULL, NULL));
    REFUSED(DPX_INVALID, "[1]: sample 1 has a list, sample 0 a tensor", 1, list_of(a, v), list_of(a, list_of(a, a)));
    REFUSED(DPX_SHAPE, "img: sample 3 is", 2, map_of("img", STACKED(FLOATS(1, 1, 1, 1)), NULL, NULL),
            map_of("img", STACKED(FLOATS(1, 1, 1, 1)), NULL, NULL),
            map_of("img", STACKED(FLOATS(1, 1, 1, 1)), NULL, NULL),
            map_of("img", STACKED(FLOATS(1, 2, 1, 1)), NULL, NULL));
    free_made();
}

/* ---- scatter ---- */

static void scatter(const dpx_data **part, const dpx_data *b, int replicas)
{
    dpx_data *out[MOST];

    if (CHECK_DPX(dpx_scatter(out, b, replicas)))
        for (int r = 0; r < replicas; r++)
            part[r] = keep(out[r]);
}

/* Five samples, two a replica: "img" in groups, "y" as a tensor, "note" on the host. */
static const dpx_data *five(void)
{
    dpx_data *s[5];

    for (int i = 0; i < 5; i++) {
        dpx_data *d = NULL;

        CHECK_DPX(dpx_data_map(&d, (const char *[]){ "img", "y", "note" },
                               (const dpx_data *[]){ STACKED(FLOATS(i + 1, 1, 1, i + 1)), scalar((float)i),
                                                     contained(scalar((float)-i), 0, 0, 2, 1) },
                               3));
        s[i] = keep(d);
    }
    return collated(2, 5, s);
}

static void test_scatter(void)
{
    const dpx_data *part[MOST];

    scatter(part, five(), 4);
    IS(dpx_data_find(part[0], "img"), DIMS(2, 1, 1, 2), 1, 0, 2, 4);
    IS(dpx_data_find(part[1], "y"), DIMS(2), 2, 3); /* the groups' sizes are the parts of every input */
    IS(dpx_data_find(part[2], "y"), DIMS(1), 4);
    IS(dpx_data_find(part[2], "img"), DIMS(1, 1, 1, 5), 5, 10, 15, 20, 25);
    check_tensor(dpx_data_at(dpx_data_find(part[1], "note"), 1), 0, NULL, (const float[]){ -3 });
    IS(dpx_data_find(part[3], "img"), DIMS(0, 1, 1, 5), 0); /* fewer groups than replicas leave the rest empty */
    IS(dpx_data_find(part[3], "y"), DIMS(0), 0);
    CU_ASSERT_EQUAL(dpx_data_count(dpx_data_find(part[3], "note")), 0);
    CHECK_DPX_FAILS(DPX_INVALID, "the batch has 3 groups, more than the 2 replicas",
                    dpx_scatter((dpx_data *[2]){ NULL }, five(), 2));
    free_made();
}

static void test_scatter_without_groups(void)
{
    const dpx_data *part[MOST];

    scatter(part, list_of(FLOATS(1, 5), scalar(9)), 3);
    IS(dpx_data_at(part[0], 0), DIMS(2), 1, 2);
    IS(dpx_data_at(part[2], 0), DIMS(1), 5);
    check_tensor(dpx_data_at(part[2], 1), 0, NULL, (const float[]){ 9 }); /* no axis: every replica has it */
    free_made();
}

static void test_scatter_refused(void)
{
    dpx_data *out[MOST];
    const dpx_data *two = COLLATE(2, STACKED(FLOATS(1, 1, 1, 1)), STACKED(FLOATS(1, 1, 1, 1))),
                   *ones = COLLATE(1, STACKED(FLOATS(1, 1, 1, 1)), STACKED(FLOATS(1, 1, 1, 1)));

    CHECK_DPX_FAILS(DPX_INVALID, "b: 2 samples in 2 groups, others of the batch have 2 in 1",
                    dpx_scatter(out, map_of("a", two, "b", ones), 2));
    CHECK_DPX_FAILS(DPX_INVALID, "b[0]: 3 samples along axis 0, others of the batch have 2",
                    dpx_scatter(out, map_of("a", two, "b", list_of(FLOATS(1, 3), NULL)), 2));
    CHECK_DPX_FAILS(DPX_INVALID, "[1]: 2 samples along axis 0, others of the batch have 0",
                    dpx_scatter(out, list_of(FLOATS(1, 0), FLOATS(1, 2)), 2));
    CHECK_DPX_FAILS(DPX_INVALID, "[0]: a container of one sample",
                    dpx_scatter(out, list_of(STACKED(scalar(1)), NULL), 2));
    CHECK_DPX_FAILS(DPX_INVALID, "is a batch already", dpx_collate(out, (const dpx_data *[]){ two }, 1, 1));
    free_made();
}

DEFINE_SUITE(collate, { "defaults of a container", test_defaults }, { "padded to the group's largest", test_padding },
             { "one to three axes, or none", test_pad_dims }, { "each sample's own padding", test_own_padding },
             { "padding of integers", test_padding_of_integers },
             { "what cannot be stacked", test_what_cannot_be_stacked }, { "what stays on the host", test_cpu_only },
             { "the first sample of a group decides", test_first_of_group }, { "groups", test_groups },
             { "lists, maps and tensors", test_structure }, { "errors name the path", test_paths },
             { "scatter", test_scatter }, { "scatter without groups", test_scatter_without_groups },
             { "scatter refuses", test_scatter_refused });
