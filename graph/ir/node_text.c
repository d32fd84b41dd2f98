/* The name of a node in messages. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/op.h"

const char *node_text(const Graph *g, const Node *n)
{
    static _Thread_local char text[4][256]; /* several may stand in one message */
    static _Thread_local unsigned turn;
    char *buf = text[turn++ % 4];
    const char *out = "";

    for (int i = 0; i < n->n_out && !*out; i++)
        if (has_value(n->out[i]))
            out = value(g, n->out[i])->name;
    snprintf(buf, sizeof text[0], "%s %.100s (output '%.100s')", n->op ? n->op->name : "removed", n->name, out);
    return buf;
}
