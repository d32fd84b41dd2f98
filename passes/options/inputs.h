/* Options of the inputs: members of sequences, constants, and how far each replica's part reaches. */
#ifndef DPX_PASSES_OPTIONS_INPUTS_H
#define DPX_PASSES_OPTIONS_INPUTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct BuildOptions BuildOptions;

/* The number of tensors of an input that is a sequence or optional. */
typedef struct {
    const char *name;
    int n; /* -1: the optional is absent */
} InputMembers;

/* An input that is a constant of these numbers, "16000" or "1,2,3". */
typedef struct {
    const char *name, *text;
} InputValue;

/* How far along an axis behind the samples each replica's part of an input reaches. */
typedef struct InputReach {
    const char *name;
    int axis;
    const int64_t *size; /* [replicas] */
} InputReach;

typedef struct InputOptions {
    const InputMembers *input_members; /* [n_input_members] */
    int n_input_members;
    const InputValue *input_value; /* [n_input_value] inputs of the model, or of a graph attached to it */
    int n_input_value;
    /* The number of members of an input that input_members does not list; -2: unknown.  NULL: all are unknown. */
    int (*members)(void *user, const char *input, int sequence, int optional);
    void *members_user;
    const InputReach *reach; /* [n_reach] inputs and targets whose parts end early; padding follows each part */
    int n_reach;
    bool texts;       /* tensors of strings are taken: such a graph is exported or interpreted, never planned */
    bool *reach_kept; /* [replicas] receives which replicas compute the shorter part as well; may be NULL */
} InputOptions;

const InputOptions *input_options(const BuildOptions *opt); /* all zeros where `opt` has none */

#endif
