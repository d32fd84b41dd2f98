/* Branches of a plain export: nodes that choose by a condition on data become an If again.  Its branches hold the nodes
 * that nothing else needs, so that a runtime computes only the branch that is taken.
 *
 * The graph and each branch is a region.  A node belongs to the innermost region that contains all its readers.  A Gate
 * or Enter node (graph/ops/branch.c) is not written if it leads into its own region, because a subgraph sees the values
 * around it.  In other regions it is written as the operators that it computes; they are not lazy. */
#include <string.h>

#include "graph/onnx/export.h"

enum { NOWHERE = -1, ROOT = 0 };

/* Nodes that choose, of one condition and one name: they become one If. */
typedef struct {
    ValueId condition;
    const char *name;
    int region;           /* region of the If */
    uint32_t last;        /* index of the last node of the group */
    int choice, n_choice; /* in Branches.choice */
} Group;

struct Branches {
    Exporter *x;
    Group *group;
    int n_group;
    int *group_of; /* by node that chooses: its group */
    int *region;   /* by node: its region.  ROOT; 1 + 2 k and 2 + 2 k: the branches of group k; NOWHERE: not needed */
    int *read_in;  /* by value: the region that contains all readers so far */
    const Node **choice;
    int *first, *next; /* lists of a region's nodes, in order: 1 + index */
    bool moved;
};

static const Group *group_at(const struct Branches *b, int region) { return &b->group[(region - 1) / 2]; }
static int parent(const struct Branches *b, int region)
{
    return region <= ROOT ? NOWHERE : group_at(b, region)->region;
}

static int depth(const struct Branches *b, int region)
{
    int n = 0;

    for (; region > ROOT && n <= b->n_group; region = parent(b, region))
        n++;
    return n;
}

/* The innermost region that contains both. */
static int common(const struct Branches *b, int one, int other)
{
    int d = depth(b, one), e = depth(b, other);

    if (one == NOWHERE || other == NOWHERE)
        return one == NOWHERE ? other : one;
    for (; d > e; d--)
        one = parent(b, one);
    for (; e > d; e--)
        other = parent(b, other);
    for (; one != other && one > ROOT && other > ROOT; one = parent(b, one))
        other = parent(b, other);
    return one == other ? one : ROOT;
}

static ValueId condition_of(const Node *n) { return n->in[n->op->branch == BRANCH_GATE ? 1 : 0]; }
static ValueId entering_value(const Node *n) { return n->in[n->op->branch == BRANCH_GATE ? 0 : 1]; }

/* Is the region, or one around it, the branch that is taken where the condition holds? */
static bool is_within(const struct Branches *b, int region, ValueId condition)
{
    for (; region > ROOT; region = parent(b, region)) {
        const ValueId c = group_at(b, region)->condition;
        const Node *not = value(b->x->g, condition)->producer;

        if (region % 2 ? value_eq(c, condition) : not &&not ->n_in == 1 && value_eq(c, not ->in[0]))
            return true;
    }
    return false;
}

/* Is n a Gate or Enter node whose region sees the value that enters?  Then it is not written. */
static bool is_entrance(const struct Branches *b, const Node *n)
{
    return (n->op->branch == BRANCH_GATE || n->op->branch == BRANCH_ENTER) &&
           is_within(b, b->region[n->index], condition_of(n));
}

static void read_in(struct Branches *b, ValueId v, int region)
{
    if (has_value(v))
        b->read_in[v.i] = common(b, b->read_in[v.i], region);
}

/* Places a node whose readers have been placed. */
static void export_branch_place(struct Branches *b, const Node *n)
{
    int region = n->op->check_sizes || n->op->flags & OPF_IMPURE ? ROOT : NOWHERE;

    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o]))
            region = common(b, region, b->read_in[n->out[o].i]);
    b->region[n->index] = region;
    if (region == NOWHERE)
        return;
    if (n->op->branch == BRANCH_CHOICE) {
        const int k = b->group_of[n->index], around = common(b, b->group[k].region, region);

        b->moved |= around != b->group[k].region;
        b->region[n->index] = b->group[k].region = around;
        read_in(b, n->in[0], around);
        read_in(b, n->in[1], 1 + 2 * k);
        read_in(b, n->in[2], 2 + 2 * k);
    } else if (is_entrance(b, n))
        read_in(b, entering_value(n), region);
    else
        for (int i = 0; i < n->n_in; i++)
            read_in(b, n->in[i], region);
}

/* Places all nodes, from the outputs back.  An If moves outwards with its branches when a further node of its group is
 * found outside; this repeats until nothing moves. */
static void place_all(struct Branches *b)
{
    const Graph *g = b->x->g;

    do {
        b->moved = false;
        for (uint32_t i = 0; i < g->n_value; i++)
            b->read_in[i] = NOWHERE;
        for (int i = 0; i < g->n_output; i++)
            b->read_in[g->output[i].value.i] = ROOT;
        for (uint32_t i = g->n_node; i-- > 0;)
            if (g->node[i]->op)
                export_branch_place(b, g->node[i]);
    } while (b->moved);
}

/* ---- groups ---- */

/* The group of a node that chooses; -1: a new one. */
static int find_group(const struct Branches *b, const Node *n)
{
    int k = b->n_group - 1;

    while (k >= 0 && !(value_eq(b->group[k].condition, n->in[0]) && !strcmp(b->group[k].name, n->name)))
        k--;
    return k;
}

static void group_choices(struct Branches *b)
{
    int n_choice = 0;

    FOR_NODES(b->x->g, n) {
        int k = n->op->branch == BRANCH_CHOICE ? find_group(b, n) : 0;

        if (n->op->branch != BRANCH_CHOICE)
            continue;
        if (k < 0)
            b->group[k = b->n_group++] = (Group){ .condition = n->in[0], .name = n->name, .region = NOWHERE };
        b->group_of[n->index] = k;
        b->group[k].last = n->index;
        b->group[k].n_choice++;
    }
    for (int k = 0; k < b->n_group; k++) {
        b->group[k].choice = n_choice;
        n_choice += b->group[k].n_choice;
        b->group[k].n_choice = 0;
    }
    FOR_NODES(b->x->g, n)
        if (n->op->branch == BRANCH_CHOICE) {
            Group *g = &b->group[b->group_of[n->index]];

            b->choice[g->choice + g->n_choice++] = n;
        }
}

/* The If is written in place of its group's last node.  Does n come after the groups whose results it reads? */
static bool is_in_order(const struct Branches *b, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *from = has_value(n->in[i]) ? value(b->x->g, n->in[i])->producer : NULL;

        if (from && from->op->branch == BRANCH_CHOICE && b->group[b->group_of[from->index]].last > n->index)
            return false;
    }
    return true;
}

/* Gives outputs of nodes that are not written the name of their input, counts uses, and lists each region's nodes. */
static void export_branch_settle(struct Branches *b)
{
    Exporter *x = b->x;
    uint32_t *uses = export_alloc(x, sizeof *uses, x->g->n_value);

    if (!uses)
        return;
    for (int i = 0; i < x->g->n_output; i++)
        uses[x->g->output[i].value.i]++;
    FOR_NODES(x->g, n) {
        if (b->region[n->index] == NOWHERE)
            continue;
        if (!is_in_order(b, n))
            problems_add(&x->problems, "%s", node_text(x->g, n));
        if (is_entrance(b, n))
            x->name[n->out[0].i] = x->name[entering_value(n).i];
        for (int i = 0; i < n->n_in; i++)
            if (!is_entrance(b, n) || value_eq(n->in[i], entering_value(n)))
                uses[n->in[i].i]++;
    }
    x->uses = uses;
    for (uint32_t i = x->g->n_node; i-- > 0;) {
        const int region = x->g->node[i]->op ? b->region[i] : NOWHERE;

        if (region == NOWHERE)
            continue;
        b->next[i] = b->first[region];
        b->first[region] = (int)i + 1;
    }
}

Status export_plan_branches(Exporter *x)
{
    const size_t n = x->g->n_node;
    struct Branches *b = export_alloc(x, sizeof *b, 1);
    bool any = false;

    FOR_NODES(x->g, node)
        any |= node->op->branch == BRANCH_CHOICE;
    if (!any || !b)
        return x->no_memory ? FAIL_NOMEM() : ST_OK;
    *b = (struct Branches){ .x = x,
                            .group = export_alloc(x, sizeof *b->group, n),
                            .group_of = export_alloc(x, sizeof *b->group_of, n),
                            .region = export_alloc(x, sizeof *b->region, n),
                            .read_in = export_alloc(x, sizeof *b->read_in, x->g->n_value),
                            .choice = export_alloc(x, sizeof *b->choice, n),
                            .first = export_alloc(x, sizeof *b->first, 2 * n + 1),
                            .next = export_alloc(x, sizeof *b->next, n) };
    if (x->no_memory)
        return FAIL_NOMEM();
    group_choices(b);
    place_all(b);
    export_branch_settle(b);
    x->branches = b;
    return x->no_memory ? FAIL_NOMEM() : ST_OK;
}

/* ---- messages ---- */

/* Adds a branch's output, with a new name, because the value may come from around the branch. */
static void add_result(Exporter *x, Onnx__GraphProto *gp, const Node *choice, int side)
{
    Onnx__ValueInfoProto *info = NEW_MESSAGE(x, Onnx__ValueInfoProto, onnx__value_info_proto);
    char *name =
        export_free_name(x, arena_printf(x->arena, "%s/%s", x->name[choice->out[0].i], side == 1 ? "then" : "else"));

    export_identity(x, gp, choice->in[side].i, name);
    if (info)
        info->name = name;
    gp->output[gp->n_output++] = info;
}

/* The branch of group k for side 1, then, or 2, else. */
static Onnx__AttributeProto *export_side(Exporter *x, int k, int side)
{
    const Group *g = &x->branches->group[k];
    Onnx__AttributeProto *a = NEW_MESSAGE(x, Onnx__AttributeProto, onnx__attribute_proto);
    Onnx__GraphProto *gp = NEW_MESSAGE(x, Onnx__GraphProto, onnx__graph_proto);

    if (!a || !gp)
        return NULL;
    a->name = side == 1 ? "then_branch" : "else_branch";
    a->has_type = true;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    a->g = gp;
    gp->name = a->name;
    gp->output = export_alloc(x, sizeof *gp->output, (size_t)g->n_choice);
    export_nodes(x, gp, 2 * k + side, (size_t)g->n_choice);
    for (int i = 0; i < g->n_choice && !x->no_memory; i++)
        add_result(x, gp, x->branches->choice[g->choice + i], side);
    return a;
}

static Onnx__NodeProto *export_if(Exporter *x, int k)
{
    const Group *g = &x->branches->group[k];
    Onnx__NodeProto *p = NEW_MESSAGE(x, Onnx__NodeProto, onnx__node_proto);

    if (!p || !(p->input = export_alloc(x, sizeof *p->input, 1)) ||
        !(p->output = export_alloc(x, sizeof *p->output, (size_t)g->n_choice)) ||
        !(p->attribute = export_alloc(x, sizeof *p->attribute, 2)))
        return NULL;
    p->op_type = "If";
    p->name = export_text(x, g->name);
    p->n_input = 1;
    p->input[0] = x->name[g->condition.i];
    for (int i = 0; i < g->n_choice; i++)
        p->output[p->n_output++] = x->name[x->branches->choice[g->choice + i]->out[0].i];
    for (int side = 1; side <= 2; side++)
        p->attribute[p->n_attribute++] = export_side(x, k, side);
    return p;
}

static void export_one(Exporter *x, Onnx__GraphProto *gp, const Node *n)
{
    const struct Branches *b = x->branches;
    const int k = b && n->op->branch == BRANCH_CHOICE ? b->group_of[n->index] : NOWHERE;

    if (b && (is_entrance(b, n) || (k >= 0 && n->index != b->group[k].last)))
        return;
    gp->node[gp->n_node++] = k >= 0 ? export_if(x, k) : export_node(x, n);
}

void export_nodes(Exporter *x, Onnx__GraphProto *gp, int region, size_t more)
{
    const Graph *g = x->g;
    const struct Branches *b = x->branches;
    size_t n = 0;

    for (int i = b ? b->first[region] : 0; i; i = b->next[i - 1])
        n++;
    if (!(gp->node = export_alloc(x, sizeof *gp->node, (b ? n : g->n_node) + more)))
        return;
    for (int i = b ? b->first[region] : 0; i && !x->no_memory; i = b->next[i - 1])
        export_one(x, gp, g->node[i - 1]);
    if (!b)
        FOR_NODES(g, node)
            export_one(x, gp, node);
}
