/* The parser's state and its lower half: tokens, numbers, tensors and types (parse_data.c), used by parse.c. */
#ifndef DPX_PARSER_H
#define DPX_PARSER_H

#include "graph/ir/graph.h"
#include "graph/text/lex.h"

typedef struct {
    Lexer lex;
    Token tok; /* the next token */
    Graph *g;  /* the graph that is being read, or the body of one of its nodes */
    int depth; /* nesting of bodies */
} Parser;

Status parse_next(Parser *p) CHECKED;
/* Fails with "line 7: expected WHAT, found 'TOKEN'". */
Status parse_expected(const Parser *p, const char *what) CHECKED;
bool at_punct(const Parser *p, const char *s);
bool at_word(const Parser *p, const char *s);
Status parse_punct(Parser *p, const char *s) CHECKED;               /* skips the token s, or fails */
Status parse_accept(Parser *p, const char *s, bool *found) CHECKED; /* skips the token s if it is next */
Status parse_accept_word(Parser *p, const char *s, bool *found) CHECKED;
Status parse_string(Parser *p, const char **out, const char *what) CHECKED;
bool parse_int_text(int64_t *out, const char *s); /* the whole of `s` */
Status parse_integer(Parser *p, int64_t *out) CHECKED;
Status parse_float64(Parser *p, double *out) CHECKED;
/* Parses {1, 2} or "all 0", with the number of elements that the shape has. */
Status parse_data(Parser *p, Tensor **out, DType dtype, const Shape *s) CHECKED;
/* Parses float32[2,"batch"=?,3] or float32[*]; `params` (of MAX_RANK, may be NULL) gets the names of dimensions. */
Status parse_type(Parser *p, DType *dtype, Shape *s, const char **params) CHECKED;

#endif
