/* Readers of options with numbers in a row, for the table of options; `to` is an Options. */
#ifndef DPX_OPTIONS_NUMBERS_H
#define DPX_OPTIONS_NUMBERS_H

#include "graph/recipes/setting.h"

/* --split: a word, or "W1,W2,...". */
Status options_set_split(const Setting *r, void *to, const char *value) CHECKED;
/* --links: a file, or what sums cost by one that was read. */
Status options_set_links(const Setting *r, void *to, const char *value) CHECKED;
/* --output-device: a number, or the host. */
Status options_set_output_device(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_loss_weight(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_class_axis(const Setting *r, void *to, const char *value) CHECKED;
Status options_set_output_axis(const Setting *r, void *to, const char *value) CHECKED;
/* --chunk-loss auto|off|ROWS. */
Status options_set_chunk_loss(const Setting *r, void *to, const char *value) CHECKED;
/* --bucket-mb X: of 2^20 bytes. */
Status options_set_bucket(const Setting *r, void *to, const char *value) CHECKED;
/* --input-shape NAME=2,3,4; --batch-input NAME[:AXIS]: exec/train/options_inputs.c. */
Status options_add_input_shape(const Setting *r, void *to, const char *value) CHECKED;
/* --input-members NAME=N|present|absent: likewise. */
Status options_add_input_members(const Setting *r, void *to, const char *value) CHECKED;
/* --input-value NAME=NUMBER,...: likewise. */
Status options_add_input_value(const Setting *r, void *to, const char *value) CHECKED;
bool options_are_numbers(const char *text); /* a list of numbers, true and false: "1,0.5,true" */
Status options_add_batch_input(const Setting *r, void *to, const char *value) CHECKED;

#endif
