/* Parsers of the calls and the signature that PyTorch's exporter writes to the metadata of nodes and of the graph:
 *
 *   %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, %detach), kwargs = {})
 *   p_fc_weight: PARAMETER target='fc.weight'
 *   add: BUFFER_MUTATION target='center'
 */
#ifndef DPX_TRACED_CALLS_H
#define DPX_TRACED_CALLS_H

#include <stdbool.h>
#include <stddef.h>

/* A part of a text. */
typedef struct {
    const char *s;
    size_t n;
} TextPart;
#define TEXT_PART(p) (int)(p).n, (p).s /* for "%.*s" */
bool text_part_is(TextPart p, const char *text);

/* A call (Node.call) may be NULL: then nothing is found. */
bool call_is(const char *call, const char *operator); /* operator "aten.mul" matches every overload */
/* Iterates over the values ("%x" without '%') that the call reads.  *at is the call at first; false at the end. */
bool call_next(TextPart *argument, const char **at);
/* Argument `i` of those without a name, counted from 0, if it is a number or True (1) or False (0). */
bool call_number(const char *call, int i, double *number);
/* Is it the name of a stop-gradient's result ("detach", "detach_3")? */
bool call_detaches(TextPart name);
/* Is it the name of a copy ("clone", "clone_1")? */
bool call_copies(TextPart name);
/* Number of calls that read the call's result; 0: unknown. */
int call_users(const char *call);

/* The mode of a batch normalisation; NORM_UNKNOWN for other calls. */
typedef enum { NORM_UNKNOWN, NORM_TRAINING, NORM_EVALUATION } NormMode;
NormMode call_norm(const char *call);
/* Is it an instance normalisation with running statistics, which ONNX's operator lacks? */
bool call_has_statistics(const char *call);

/* One line of the program's signature (Graph.signature, which may be NULL). */
typedef struct {
    TextPart name;   /* of the input or the returned value in the program */
    TextPart kind;   /* PARAMETER, BUFFER, USER_INPUT, USER_OUTPUT, BUFFER_MUTATION ... */
    TextPart target; /* name in the module; empty when there is none */
} SignatureLine;
/* Iterates over the lines; *at is the signature at first; false at the end. */
bool signature_next(SignatureLine *line, const char **at);

#endif
