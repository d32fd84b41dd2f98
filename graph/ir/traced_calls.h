/* Calls of the program that PyTorch's exporter traced, as it describes them in the metadata of nodes and of the graph:
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
} Piece;
#define PIECE(p) (int)(p).n, (p).s /* for "%.*s" */
bool piece_is(Piece p, const char *text);
bool piece_eq(Piece a, Piece b);

/* Texts of calls (Node.call) may be NULL: then nothing is found. */
Piece call_name(const char *call);                    /* "mul"; of no characters when there is none */
bool call_is(const char *call, const char *operator); /* "aten.mul", whatever the overload */
/* The next result of another call, or input, that the call reads, without '%'; `*at` is the call, then where to go on.
 */
bool call_next(Piece *argument, const char **at);
/* Argument `i` of those without a name, counted from 0, if it is a number or True (1) or False (0). */
bool call_number(const char *call, int i, double *number);
/* Is it the result of a stop-gradient ("detach", "detach_3"), by its name? */
bool call_detaches(Piece name);
/* Is it a copy ("clone", "clone_1"), by its name? */
bool call_copies(Piece name);
/* How many calls of the program read the call's result; 0: unknown. */
int call_users(const char *call);

/* What the call says of the mode of a batch normalisation. */
typedef enum { NORM_UNKNOWN, NORM_TRAINING, NORM_EVALUATION } NormMode;
NormMode call_norm(const char *call);
/* Does it give an instance normalisation running statistics, which ONNX's has not? */
bool call_has_statistics(const char *call);

/* One line of the program's signature (Graph.signature), which may be NULL. */
typedef struct {
    Piece name;   /* in the program: of an input, or of the value that is returned */
    Piece kind;   /* PARAMETER, BUFFER, USER_INPUT, USER_OUTPUT, BUFFER_MUTATION ... */
    Piece target; /* name in the module; of no characters when there is none */
} SignatureLine;
bool signature_next(SignatureLine *line, const char **at);

#endif
