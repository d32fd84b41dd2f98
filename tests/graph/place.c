/* The placement rules where broadcasting is easy to mistake: axes of size 1 and 2, batches of one and two samples. */
#include "graph/ir/placement_rules.h"

#include <stdio.h>
#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"

/* Placements as "B S0 -> S0"; D and E are elements cut for devices, in two ways. */
#define UPDATE \
    "dpexec.Update(%a, %b, %lr) {formula=graph(%w, %g, %lr) { %s = Mul(%lr, %g) %v = Sub(%w, %s) return %v }}"

typedef struct {
    const char *node; /* of inputs %a, %b */
    const char *a, *b;
    int batch;
    const char *have, *expected;
} Rule;

static const Rule rules[] = {
    /* An axis of size 1 is stretched to the split one's: all of it is needed everywhere. */
    { "Add(%a, %b)", "2,3", "1,3", 2, "S0 B", "S0 B -> S0" },
    { "Add(%a, %b)", "1,3", "2,3", 2, "B S0", "B S0 -> S0" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "S0 B", "S0 S0 -> S0" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "B S0", "S0 S0 -> S0" },
    { "Add(%a, %b)", "2,3", "2,1", 2, "S0 B", "S0 S0 -> S0" },
    /* Axes are counted from the right. */
    { "Add(%a, %b)", "2,2", "2", 2, "S0 B", "S0 B -> S0" },
    { "Add(%a, %b)", "2,2", "2", 2, "S1 B", "S1 S0 -> S1" },
    { "Add(%a, %b)", "2", "2,2", 2, "S0 B", "S0 S1 -> S1" },
    { "Add(%a, %b)", "2,2", "2", 2, "B S0", "S1 S0 -> S1" },
    { "Add(%a, %b)", "2,2", "1", 2, "S1 B", "S1 B -> S1" },
    /* Split along different ones: the leading one stays. */
    { "Add(%a, %b)", "2,2", "2,2", 2, "S0 S1", "S0 S0 -> S0 mixes" },
    { "Add(%a, %b)", "2,2", "2,2", 2, "S1 S0", "S0 S0 -> S0 mixes" },
    /* A batch of one: parts of 1 and 0 samples.  What has size 1 too is split alike, what is larger stretches it. */
    { "Add(%a, %b)", "1,3", "1,3", 1, "S0 B", "S0 S0 -> S0" },
    { "Add(%a, %b)", "1,3", "3", 1, "S0 B", "S0 B -> S0" },
    { "Add(%a, %b)", "1,3", "2,3", 1, "S0 B", "S0 S0 -> S0" },
    { "Add(%a, %b)", "1,3", "1,1", 1, "S0 B", "S0 S0 -> S0" },
    { "Mul(%a, %b)", "2,2", "2,1", 2, "P B", "P B -> P" },
    { "Mul(%a, %b)", "2,2", "2,1", 2, "P P", "B B -> B" },
    { "Add(%a, %b)", "1", "1", 1, "P P", "P P -> P" },
    { "Add(%a, %b)", "2", "2", 2, "P B", "B B -> B" },
    /* Cut by elements: what has the same shape follows, whatever it was; one number is whole. */
    { "Add(%a, %b)", "2,3", "2,3", 2, "D B", "D D -> D" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "P D", "D D -> D" },
    { "Mul(%a, %b)", "2,3", "", 2, "D B", "D B -> D" },
    { "Mul(%a, %b)", "2,3", "", 2, "D P", "D B -> D" },
    { "Mul(%a, %b)", "", "2,3", 2, "B D", "B D -> D" },
    { "Div(%a, %b)", "2,3", "2,3", 2, "P D", "D D -> D" },
    { UPDATE, "2,3", "2,3", 2, "D P", "D D -> D" },
    { UPDATE, "2,3", "2,3", 2, "B P", "B B -> B" },
    /* Together again where shapes differ, cuts differ, replicas compute, or not element by element. */
    { "Add(%a, %b)", "2,3", "1,3", 2, "D B", "B B -> B" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "D E", "D D -> D" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "S0 D", "S0 S0 -> S0" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "D S1", "S1 S1 -> S1" },
    { "Add(%a, %b)", "2,3", "2,3", 2, "D L", "B L -> L" },
    { "ReduceSum(%a, %b) {keepdims=1}", "2,2", "=0", 2, "D B", "B B -> B" },
    { "Reshape(%a, %b) {}", "2,2", "=4", 2, "D B", "B B -> B" },
    /* New shapes. */
    { "Reshape(%a, %b) {}", "2,2", "=1,2,2", 2, "S0 B", "S0 B -> S1" },
    { "Reshape(%a, %b) {}", "2,1", "=2", 2, "S0 B", "S0 B -> S0" },
    { "Reshape(%a, %b) {}", "1,2", "=2,1", 1, "S0 B", "S0 B -> S0" },
    { "Reshape(%a, %b) {}", "1,2", "=1,1,2", 1, "S0 B", "S0 B -> S0" },
    { "Reshape(%a, %b) {}", "2,3", "=1,2,3", 1, "S0 B", "S0 B -> S1" },
    { "Reshape(%a, %b) {}", "2,2", "=4", 2, "S0 B", "S0 B -> S0" },
    { "Reshape(%a, %b) {}", "4", "=2,2", 2, "S0 B", "S0 B -> S0" },
    { "Reshape(%a, %b) {}", "4", "=1,4", 4, "S0 B", "S0 B -> S1" },
    { "Expand(%a, %b)", "2,1", "=2,2", 2, "S0 B", "S0 B -> S0" },
    { "Expand(%a, %b)", "2", "=1,2", 2, "S0 B", "S0 B -> S1" },
    /* Random numbers of a tensor's shape: its parts say which to draw, partial sums do not matter. */
    { "dpexec.Random(%draw, %b)", "2", "2,3", 2, "B S0", "B S0 -> S0" },
    { "dpexec.Random(%draw, %b)", "2", "2,3", 2, "B P", "B B -> B" },
    /* Sums. */
    { "ReduceSum(%a, %b) {keepdims=1}", "2,2", "=0", 2, "S0 B", "S0 B -> P" },
    { "ReduceSum(%a, %b) {keepdims=0}", "2,2", "=0", 2, "S1 B", "S1 B -> S0" },
    { "ReduceSum(%a, %b) {keepdims=1}", "1,2", "=1", 1, "S0 B", "S0 B -> S0" },
    { "ReduceMax(%a, %b) {keepdims=1}", "2,2", "=0", 2, "S0 B", "B B -> B mixes" },
};

static Graph *graph_of(const Rule *r)
{
    char text[512];
    Graph *g = NULL;
    int n = r->b[0] == '='
                ? snprintf(text, sizeof text,
                           "graph \"g\" {\n  input %%a : float32[%s]\n  const %%b : int64[%d] = {%s}\n"
                           "  %%y = %s\n  output \"y\" = %%y\n}\n",
                           r->a, (int)(strlen(r->b) / 2), r->b + 1, r->node)
                : snprintf(
                      text, sizeof text,
                      "graph \"g\" {\n  input %%a : float32[%s]\n  input %%b : float32[%s]\n"
                      "  input %%lr : float32[]\n  const %%draw : int64[] = {0}\n  %%y = %s\n  output \"y\" = %%y\n}\n",
                      r->a, r->b, r->node);

    CHECK_OK(graph_parse(&g, text, (size_t)n));
    return g;
}

static const int64_t halves[] = { 3, 3 }, half_of[] = { 0, 3 }, one[] = { 6, 0 }, one_of[] = { 0, 6 };
static const Split cut = { true, 2, 6, halves, half_of }, other_cut = { true, 2, 6, one, one_of };

static Place parsed(const char *word, const Split *batch)
{
    if (word[0] == 'S')
        return (Place){ .kind = PL_S, .axis = word[1] - '0', .blocks = 1, .split = batch };
    return word[0] == 'D'   ? PLACE_PIECES(&cut)
           : word[0] == 'E' ? PLACE_PIECES(&other_cut)
           : word[0] == 'P' ? PLACE_P
           : word[0] == 'L' ? PLACE_L
                            : PLACE_B;
}

static const char *printed(char text[8], Place at)
{
    if (at.kind == PL_S && at.axis >= 0)
        snprintf(text, 8, "S%d", at.axis);
    else
        snprintf(text, 8, "%c",
                 at.kind == PL_S   ? split_eq(at.split, &cut) ? 'D' : 'E'
                 : at.kind == PL_P ? 'P'
                 : at.kind == PL_L ? 'L'
                                   : 'B');
    return text;
}

static void check(const Rule *r)
{
    Graph *g = graph_of(r);
    const char *second = strchr(r->have, ' ');
    const int64_t all = r->batch, none = 0;
    const Split batch = { false, 1, r->batch, &all, &none };
    Place in[3] = { parsed(r->have, &batch), parsed(second + 1, &batch), PLACE_B }, out[1] = { PLACE_B };
    Placement p = { g, g ? g->node[0] : NULL, &batch, in, out, NULL };
    char found[64], text[3][8];

    if (!g || !CHECK_OK(place_by_rule(&p)))
        return;
    snprintf(found, sizeof found, "%s %s -> %s%s", printed(text[0], in[0]), printed(text[1], in[1]),
             printed(text[2], out[0]), p.mixes ? " mixes" : "");
    if (strcmp(found, r->expected))
        TEST_FAIL("%s of [%s] and [%s], batch %d, %s: %s, expected %s", r->node, r->a, r->b, r->batch, r->have, found,
                  r->expected);
    graph_free(g);
}

/* Splits are what they say, not where they lie; an axis of k times what is cut is cut in pieces k times as long. */
static void test_splits(void)
{
    const int64_t count[] = { 3, 3 }, offset[] = { 0, 3 }, wide[] = { 5, 1 }, late[] = { 0, 5 };
    const Split same = { true, 2, 6, count, offset }, by_replica = { false, 2, 6, count, offset },
                uneven = { true, 2, 6, wide, late }, none = { false, 2, 0, one, one_of };

    CU_ASSERT(split_eq(&cut, &same) && split_eq(NULL, NULL));
    CU_ASSERT(!split_eq(&cut, &other_cut) && !split_eq(&cut, &by_replica) && !split_eq(&cut, NULL));
    CU_ASSERT(place_eq(PLACE_PIECES(&cut), PLACE_PIECES(&same)));
    CU_ASSERT_EQUAL(split_count(&uneven, 18, 0), 15);
    CU_ASSERT_EQUAL(split_offset(&uneven, 18, 1), 15);
    CU_ASSERT_EQUAL(split_count(&uneven, 18, 1), 3);
    CU_ASSERT_EQUAL(split_count(&none, 18, 0), 0);
}

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check(&rules[i]);
}

DEFINE_SUITE(place, { "axes of size 1 and 2, pieces", test_rules }, { "splits", test_splits });
