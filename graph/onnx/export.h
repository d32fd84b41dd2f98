/* What the files that write ONNX share. */
#ifndef DPX_ONNX_EXPORT_H
#define DPX_ONNX_EXPORT_H

#include "graph/onnx/importer.h"

enum { OPSET_AT_LEAST = 13 }; /* of an export that is not plain */

typedef struct {
    const Graph *g;
    const ExportOptions *opt;
    Arena *arena;              /* of the messages */
    const uint32_t *uses;      /* of each value */
    char **name;               /* [n_value] what the file calls each value */
    const bool *elsewhere;     /* [n_value] named and declared by another graph of the file; NULL: nothing is */
    Scope names;               /* those that are taken */
    Problems problems;         /* of plain exports: what ONNX does not have */
    struct Branches *branches; /* export_branch.c; NULL: none */
    bool no_memory;            /* sticky: the message is not complete */
    int64_t opset;             /* of the default domain; of an export that is not plain the newest `since` so far */
    Onnx__OperatorSetIdProto **domain; /* the others */
    size_t n_domain, cap_domain;
} Exporter;

/* Zeroed memory, or the sticky failure and NULL. */
void *export_alloc(Exporter *x, size_t size, size_t n);
char *export_text(Exporter *x, const char *s);
#define NEW_MESSAGE(x, Type, type) export_message((x), sizeof(Type), &type##__descriptor)
void *export_message(Exporter *x, size_t size, const ProtobufCMessageDescriptor *type);

/* ---- doc_string.c ---- */
/* The doc_string of a node, and of a value; NULL when there is nothing to tell. */
char *export_place(Exporter *x, int device, int replica);
char *export_mark(Exporter *x, uint32_t value);

/* ---- export.c ---- */
Onnx__ValueInfoProto *export_value(Exporter *x, uint32_t value);
/* A node more, for which there is room. */
void export_identity(Exporter *x, Onnx__GraphProto *gp, uint32_t from, const char *to);
/* `base`, or one with a number, that nothing else has; a base of NULL is memory that ran out. */
char *export_free_name(Exporter *x, const char *base);

/* The exporter's graph, and what else is in the model's message; its opset and domains are those seen so far. */
Status export_graph(Exporter *x, Onnx__GraphProto *gp) CHECKED;
Status export_rest(Exporter *x, Onnx__ModelProto *m) CHECKED;
/* Before either: room for names. */
Status export_begin(Exporter *x) CHECKED;

/* ---- export_branch.c ---- */
/* Once names are chosen. */
Status export_plan_branches(Exporter *x) CHECKED;
/* The nodes of the graph, or of a branch; with room for some more. */
void export_nodes(Exporter *x, Onnx__GraphProto *gp, int home, size_t more);

/* ---- export_body.c ---- */
/* The body that is attribute `a` of node n. */
Onnx__GraphProto *export_body(Exporter *x, const Node *n, const Attr *a);

/* ---- export_node.c ---- */
Onnx__NodeProto *export_node(Exporter *x, const Node *n);
Onnx__TensorProto *export_tensor(Exporter *x, const Tensor *t, char *name);

/* ---- respell.c ---- */
/* Raises `*opset` as far as the nodes need it, and replaces those that it spells otherwise than we do.  `view` is a
 * copy of the graph's struct with an arena for that; its nodes are left alone. */
Status export_respell(Graph *view, int64_t *opset) CHECKED;

/* ---- write.c ---- */
/* The file appears whole or not at all.  Above `most` bytes, 0 for what protobuf has room for, weights go to a file
 * beside it, PATH.DIGEST.data, and `m`, which is the arena's, points to them. */
Status model_write(Onnx__ModelProto *m, const char *path, Arena *a, size_t most) CHECKED;
/* Writes the message to a stream; E_UNSUPPORTED when it has more than `most` bytes. */
Status model_print(FILE *to, const Onnx__ModelProto *m, size_t most) CHECKED;

#endif
