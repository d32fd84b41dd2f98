/* Every invariant, broken on purpose, is found and named. */
#include "graph/ir/verify.h"

#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

static Graph *good(void)
{
    static const char text[] = "graph \"g\" {\n"
                               "  input %x : float32[2,3]\n"
                               "  state %s : float32[2,3] = all 0\n"
                               "  const %c : float32[2,3] = all 1\n"
                               "  %y : float32[2,3] = Softmax(%x) {axis=1}\n"
                               "  %z : float32[2,3] = Add(%y, %c)\n"
                               "  update %s := %z\n"
                               "  output \"z\" = %z\n"
                               "}\n";
    Graph *g = NULL;

    CHECK_OK(graph_parse(&g, text, sizeof text - 1));
    CHECK_OK(graph_verify(g));
    return g;
}

static Value *named(Graph *g, const char *name) { return value(g, graph_find(g, name)); }

static void swap_nodes(Graph *g)
{
    Node *first = g->node[0];

    g->node[0] = g->node[1];
    g->node[1] = first;
    g->node[0]->index = 0;
    g->node[1]->index = 1;
}

static void use_dead(Graph *g) { graph_remove(g, g->node[0]); }
static void assign_twice(Graph *g) { g->node[1]->out[0] = g->node[0]->out[0]; }
static void assign_input(Graph *g) { g->node[0]->out[0] = g->input[0]; }
static void lose_producer(Graph *g) { named(g, "y")->producer = NULL; }
static void wrong_out_index(Graph *g) { named(g, "y")->out_index = 1; }
static void wrong_index(Graph *g) { g->node[1]->index = 7; }
static void bad_input_id(Graph *g) { g->node[1]->in[0].i = 1000; }
static void bad_output_id(Graph *g) { g->node[1]->out[0].i = 1000; }
static void too_few_inputs(Graph *g) { g->node[1]->n_in = 1; }
static void absent_input(Graph *g) { g->node[1]->in[1] = NO_VALUE; }
static void absent_output(Graph *g) { g->node[1]->out[0] = NO_VALUE; }
static void too_many_outputs(Graph *g)
{
    g->node[1]->out = arena_alloc(g->arena, 2 * sizeof(ValueId));
    g->node[1]->out[0] = graph_find(g, "z");
    g->node[1]->n_out = 2;
}
static void missing_attr(Graph *g) { node_remove_attr(g, g->node[0], "axis"); }
static void unknown_attr(Graph *g) { node_set_int(g, g->node[0], "nonsense", 1); }
static void wrong_attr_type(Graph *g) { node_set_string(g, g->node[0], "axis", "1"); }
static void no_node_name(Graph *g) { g->node[0]->name = NULL; }
static void same_names(Graph *g) { named(g, "y")->name = "x"; }
static void no_value_name(Graph *g) { named(g, "y")->name = ""; }
static void no_data(Graph *g) { named(g, "c")->init = NULL; }
static void null_data(Graph *g) { ((Tensor *)named(g, "c")->init)->data = NULL; }
static void wrong_data_type(Graph *g) { named(g, "c")->dtype = DT_FLOAT64; }
static void wrong_data_shape(Graph *g) { value_set_shape(g, named(g, "s"), &(Shape){ 2, { 3, 2 } }); }
static void trainable_const(Graph *g) { named(g, "c")->trainable = true; }
static void const_with_producer(Graph *g) { named(g, "c")->producer = g->node[0]; }
static void overflowing_shape(Graph *g) { value_set_shape(g, named(g, "y"), &(Shape){ 2, { INT64_MAX, INT64_MAX } }); }
static void wild_rank(Graph *g)
{
    static const Shape wild = { .rank = 77 };

    named(g, "y")->shape = &wild;
}
static void update_of_const(Graph *g) { g->update[0].state = graph_find(g, "c"); }
static void update_twice(Graph *g) { graph_add_update(g, graph_find(g, "s"), graph_find(g, "y")); }
static void update_by_nothing(Graph *g) { g->update[0].next = NO_VALUE; }
static void update_of_other_shape(Graph *g) { value_set_shape(g, named(g, "z"), &(Shape){ 2, { 3, 2 } }); }
static void output_of_nothing(Graph *g) { g->output[0].value = NO_VALUE; }
static void output_of_dead(Graph *g) { graph_remove(g, g->node[1]); }
static void outputs_of_one_name(Graph *g) { graph_add_output(g, "z", graph_find(g, "y")); }
static void input_is_no_input(Graph *g) { g->input[0] = graph_find(g, "y"); }
static void input_listed_twice(Graph *g)
{
    g->input = arena_alloc(g->arena, 2 * sizeof *g->input);
    g->input[0] = g->input[1] = graph_find(g, "x");
    g->n_input = 2;
}

static const struct {
    void (*breaks)(Graph *);
    const char *message;
} broken[] = {
    { swap_nodes, "uses 'y' before it is defined" },
    { use_dead, "uses 'y' before it is defined" },
    { assign_twice, "assigns 'y' a second time" },
    { assign_input, "assigns 'x' a second time" },
    { lose_producer, "has another producer than" },
    { wrong_out_index, "has another producer than" },
    { wrong_index, "index 7 at position 1" },
    { bad_input_id, "input 0 is value 1000" },
    { bad_output_id, "output 0 is value 1000" },
    { too_few_inputs, "1 inputs, expected 2 to 2" },
    { absent_input, "required input 1 is absent" },
    { absent_output, "required output 0 is absent" },
    { too_many_outputs, "2 outputs, expected 1 to 1" },
    { missing_attr, "attribute 'axis' is missing" },
    { unknown_attr, "attributes," },
    { wrong_attr_type, "attribute 'axis' has the wrong type" },
    { no_node_name, "has no name" },
    { same_names, "two values are called 'x'" },
    { no_value_name, "has no name" },
    { no_data, "'c' has no data" },
    { null_data, "'c' has no data" },
    { wrong_data_type, "'c' is float64[2,3], its data float32[2,3]" },
    { wrong_data_shape, "'s' is float32[3,2], its data float32[2,3]" },
    { trainable_const, "is no state" },
    { const_with_producer, "is no temporary" },
    { overflowing_shape, "overflows" },
    { wild_rank, "has rank 77" },
    { update_of_const, "'c' is updated, but is no state" },
    { update_twice, "state 's' is updated twice" },
    { update_by_nothing, "lacks its state or its value" },
    { update_of_other_shape, "is updated by 'z' float32[3,2]" },
    { output_of_nothing, "output 'z' is not defined" },
    { output_of_dead, "which nothing defines" },
    { outputs_of_one_name, "two outputs are called 'z'" },
    { input_is_no_input, "is no input value" },
    { input_listed_twice, "listed twice" },
};

static void test_broken(void)
{
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        Graph *g = good();
        Status st;

        broken[i].breaks(g);
        st = graph_verify(g);
        if (st == ST_OK || !strstr(status_message(), broken[i].message))
            TEST_FAIL("expected \"%s\", found \"%s\"", broken[i].message, st ? status_message() : "success");
        graph_free(g);
    }
}

/* A failure of a builder is the graph's failure. */
static void test_sticky(void)
{
    Graph *g = good();

    g->status = FAIL(E_NOMEM, "out of memory");
    CHECK_FAILS(E_NOMEM, "out of memory", graph_verify(g));
    graph_free(g);
}

DEFINE_SUITE(verify, { "broken invariants are named", test_broken }, { "a builder's failure sticks", test_sticky });
