/* Tokens of the text form. */
#ifndef DPX_LEX_H
#define DPX_LEX_H

#include "graph/base/arena.h"
#include "graph/base/status.h"

typedef enum {
    T_END,
    T_WORD,   /* letters, digits, _ . / - beginning with a letter or _: `text` */
    T_VALUE,  /* %name (@ may stand in it too) or %"name": `text` is the name */
    T_STRING, /* "..." with \" \\ \xNN: `text` without the quotes */
    T_NUMBER, /* begins with a digit or a sign */
    T_PUNCT   /* one of ( ) { } [ ] , : = @ ? * or := or ... */
} TokenKind;

typedef struct {
    TokenKind kind;
    const char *text; /* NUL-terminated, in the lexer's arena */
    size_t len;
    int line;
} Token;

typedef struct {
    const char *at, *end;
    int line;
    Arena *arena;
} Lexer;

/* Reads the next token.  E_MODEL: a character begins no token, or a string does not end. */
Status lex_next(Lexer *l, Token *out) CHECKED;

#endif
