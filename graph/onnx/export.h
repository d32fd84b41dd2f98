/* Declarations that the files which write ONNX share: the exporter's context, and a section for each file. */
#ifndef DPX_ONNX_EXPORT_H
#define DPX_ONNX_EXPORT_H

#include "graph/onnx/importer.h"

enum { OPSET_AT_LEAST = 13 }; /* of an export that is not plain */

typedef struct {
    const Graph *g;
    const ExportOptions *opt;
    Arena *arena;              /* owns the messages */
    const uint32_t *uses;      /* number of readers of each value */
    char **name;               /* [n_value] name of each value in the file */
    const bool *elsewhere;     /* [n_value] another graph of the file names and declares the value; NULL: none */
    Scope names;               /* names that are taken */
    Problems problems;         /* of plain exports: operators that ONNX does not have */
    struct Branches *branches; /* export_branch.c; NULL: none */
    bool no_memory;            /* sticky: the message is not complete */
    int64_t opset; /* of the default domain; unless the export is plain, the newest `since` of a node so far */
    Onnx__OperatorSetIdProto **domain; /* other domains */
    size_t n_domain, cap_domain;
} Exporter;

/* Allocates zeroed memory in the arena.  Without memory: NULL ("" for a text), and x->no_memory. */
void *export_alloc(Exporter *x, size_t size, size_t n);
char *export_text(Exporter *x, const char *s);
#define NEW_MESSAGE(x, Type, type) export_message((x), sizeof(Type), &type##__descriptor)
void *export_message(Exporter *x, size_t size, const ProtobufCMessageDescriptor *type);

/* ---- doc_string.c ---- */
/* The doc_string of a node, and of a value; NULL: none is needed. */
char *export_place(Exporter *x, int device, int replica);
char *export_mark(Exporter *x, uint32_t value);

/* ---- export.c ---- */
Onnx__ValueInfoProto *export_value(Exporter *x, uint32_t value);
/* Adds an Identity, for which there is room. */
void export_identity(Exporter *x, Onnx__GraphProto *gp, uint32_t from, const char *to);
/* Takes a free name: `base`, or `base` with a number.  NULL as `base`: no memory. */
char *export_free_name(Exporter *x, const char *base);

/* Fills the message of the exporter's graph. */
Status export_graph(Exporter *x, Onnx__GraphProto *gp) CHECKED;
/* Fills the other fields of the model's message, after all graphs, whose opsets and domains it lists. */
Status export_rest(Exporter *x, Onnx__ModelProto *m) CHECKED;
/* Makes room for names and counts uses, before export_graph. */
Status export_begin(Exporter *x) CHECKED;

/* ---- export_branch.c ---- */
/* Groups the nodes that choose, after names were chosen. */
Status export_plan_branches(Exporter *x) CHECKED;
/* Adds the nodes of a region, 0 for the graph itself, and room for `more`. */
void export_nodes(Exporter *x, Onnx__GraphProto *gp, int region, size_t more);

/* ---- export_body.c ---- */
/* The message of the body that is attribute `a` of node n. */
Onnx__GraphProto *export_body(Exporter *x, const Node *n, const Attr *a);

/* ---- export_node.c ---- */
Onnx__NodeProto *export_node(Exporter *x, const Node *n);
Onnx__TensorProto *export_tensor(Exporter *x, const Tensor *t, char *name);

/* ---- export_opset.c ---- */
/* Raises `*opset` as far as the nodes need it, and replaces nodes that it spells in another way.  `view` is a copy of
 * the graph's struct with an arena for the new nodes; the graph's own nodes do not change. */
Status export_respell(Graph *view, int64_t *opset) CHECKED;

/* ---- write.c ---- */
/* Writes the file, which appears whole or not at all.  If it would exceed `most` bytes (0: protobuf's limit), weights
 * go to a file beside it, PATH.DIGEST.data, and `m`, which the arena owns, refers to them. */
Status model_write(Onnx__ModelProto *m, const char *path, Arena *a, size_t most) CHECKED;
/* Writes the message to a stream; E_UNSUPPORTED when it has more than `most` bytes. */
Status model_print(FILE *to, const Onnx__ModelProto *m, size_t most) CHECKED;

#endif
