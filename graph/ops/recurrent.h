/* Sizes and formulas of Recurrent and RecurrentGrad (graph/ops/recurrent.c), for their kernels. */
#ifndef DPX_OPS_RECURRENT_H
#define DPX_OPS_RECURRENT_H

#include "graph/ir/op.h"

enum { CELL_RNN, CELL_GRU, CELL_LSTM };
enum { LSTM_I, LSTM_O, LSTM_F, LSTM_C, LSTM_CELL, LSTM_OUT };
enum { GRU_Z, GRU_R, GRU_H, GRU_INNER };
enum {
    ACT_AFFINE,
    ACT_ELU,
    ACT_HARD_SIGMOID,
    ACT_LEAKY_RELU,
    ACT_RELU,
    ACT_SCALED_TANH,
    ACT_SIGMOID,
    ACT_SOFTPLUS,
    ACT_SOFTSIGN,
    ACT_TANH,
    ACT_THRESHOLDED_RELU,
    N_ACTIVATIONS
};

/* Inputs and outputs, by number. */
enum { REC_X, REC_W, REC_R, REC_B, REC_LENS, REC_H0, REC_C0, REC_P };
enum { REC_Y, REC_YH, REC_YC, REC_SAVED };
enum {
    RECG_X,
    RECG_W,
    RECG_R,
    RECG_LENS,
    RECG_H0,
    RECG_C0,
    RECG_P,
    RECG_Y,
    RECG_SAVED,
    RECG_DY,
    RECG_DYH,
    RECG_DYC,
    RECG_INPUTS
};
enum { RECG_DX, RECG_DW, RECG_DR, RECG_DB, RECG_DH0, RECG_DC0, RECG_DP, RECG_OUTPUTS };

typedef struct {
    int kind; /* ACT_ */
    double alpha, beta;
} Activation;

typedef struct {
    int cell, dirs, gates; /* rows of W and R: gates * hidden */
    int activations;       /* of a direction */
    int values, planes;    /* planes of `saved` without and with slopes */
    bool slopes;           /* `saved` has slopes, as values do not determine them */
    bool input_forget, before_reset;
    bool backward[2]; /* the direction begins at the end */
    double clip;      /* INFINITY: none */
    Activation act[2][3];
    int64_t steps, batch, inputs, hidden;
    int n_in; /* number of the node's inputs, absent ones included */
} Recurrence;

void recurrence_read(Recurrence *out, const Graph *g, const Node *n);
/* E_INVALID when a length is not in 0 to `steps`. */
Status recurrence_check_lengths(const Recurrence *r, const int32_t *lengths) CHECKED;
/* Position in time of step `s` of a sequence of that length. */
static inline int64_t recurrence_time(const Recurrence *r, int dir, int64_t s, int64_t length)
{
    return r->backward[dir] ? length - 1 - s : s;
}
/* Index of the gate's activation among the direction's; gate == gates: that of C. */
static inline int recurrence_activation(const Recurrence *r, int gate)
{
    return r->cell == CELL_LSTM ? (gate == r->gates ? 2 : gate == LSTM_C) : r->cell == CELL_GRU && gate == GRU_H;
}
double activation_value(const Activation *a, double x);
double activation_slope(const Activation *a, double x);

#endif
