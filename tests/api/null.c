/* NULL for every pointer argument of every function of dpexec.h, and counts and numbers out of range: DPX_INVALID with
 * a message that names the function or the argument, or the harmless answer that the header promises.  A function that
 * the header gains must be added here: the last test compares the two files. */
#include <ctype.h>
#include <dlpack/dlpack.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/api.h"

static dpx_status sink(void *user, const void *bytes, size_t n)
{
    (void)user, (void)bytes, (void)n;
    return DPX_OK;
}

static dpx_status source(void *user, void *to, size_t room, size_t *n)
{
    (void)user, (void)to, (void)room;
    *n = 0;
    return DPX_OK;
}

static void *take(void *user, size_t alignment, size_t bytes)
{
    (void)user;
    return aligned_alloc(alignment, bytes);
}

static void give_back(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void write_nothing(void *user, const char *text, size_t bytes) { (void)user, (void)text, (void)bytes; }

/* What the rows below are given besides NULL. */
typedef struct {
    dpx_model *m;
    dpx_options *o;
    dpx_trainer *t;
    dpx_predictor *p;
    Batch b;
    dpx_tensor bad, out[1];
    dpx_result r;
    dpx_part part;
    dpx_metric metric;
    dpx_check_result check;
    dpx_plan_memory_result memory;
    dpx_options *copy;
    dpx_info info;
    dpx_device device;
    dpx_world *w;
    dpx_world_options alone, two;
    DLTensor dl, shapeless;
    dpx_data *data, *some; /* an empty list */
    int64_t number;
    void *all;
    size_t size[1];
    int n;
} Args;

typedef struct {
    const char *says; /* a part of the message */
    dpx_status (*call)(Args *a);
} Row;

/* ROW(name, text, call): a function of its own for each call. */
#define ROWS(X)                                                                                                        \
    X(dlpack_out, "dpx_tensor_from_dlpack: out", dpx_tensor_from_dlpack(NULL, "x", &a->dl))                            \
    X(dlpack_name, "dpx_tensor_from_dlpack: name", dpx_tensor_from_dlpack(&a->bad, NULL, &a->dl))                      \
    X(dlpack_tensor, "dpx_tensor_from_dlpack: dl_tensor", dpx_tensor_from_dlpack(&a->bad, "x", NULL))                  \
    X(dlpack_shape, "DLPack shape is NULL", dpx_tensor_from_dlpack(&a->bad, "x", &a->shapeless))                       \
    X(alloc, "dpx_set_allocator: alloc", dpx_set_allocator(NULL, give_back, NULL))                                     \
    X(release, "dpx_set_allocator: release", dpx_set_allocator(take, NULL, NULL))                                      \
    X(alloc_late, "memory was allocated before", dpx_set_allocator(take, give_back, NULL))                             \
    X(load_out, "dpx_model_load: out", dpx_model_load(NULL, MLP))                                                      \
    X(load_path, "dpx_model_load: path", dpx_model_load(&a->m, NULL))                                                  \
    X(within_out, "dpx_model_load_within: out", dpx_model_load_within(NULL, MLP, a->o))                                \
    X(within_path, "dpx_model_load_within: path", dpx_model_load_within(&a->m, NULL, a->o))                            \
    X(within_options, "dpx_model_load_within: options", dpx_model_load_within(&a->m, MLP, NULL))                       \
    X(info_model, "dpx_model_info: model", dpx_model_info(NULL, DPX_INPUT, 0, &a->info))                               \
    X(info_out, "dpx_model_info: out", dpx_model_info(a->m, DPX_INPUT, 0, NULL))                                       \
    X(info_kind, "kind 7", dpx_model_info(a->m, (dpx_kind)7, 0, &a->info))                                             \
    X(set_metadata_model, "dpx_model_set_metadata: model", dpx_model_set_metadata(NULL, "task", "x"))                  \
    X(set_metadata_key, "dpx_model_set_metadata: key", dpx_model_set_metadata(a->m, NULL, "x"))                        \
    X(info_index, "index -1 of 1", dpx_model_info(a->m, DPX_INPUT, -1, &a->info))                                      \
    X(set_options, "dpx_options_set: options", dpx_options_set(NULL, "lr", "1"))                                       \
    X(set_name, "dpx_options_set: name", dpx_options_set(a->o, NULL, "1"))                                             \
    X(set_value, "dpx_options_set: value", dpx_options_set(a->o, "lr", NULL))                                          \
    X(weights_options, "class_weights: options", dpx_options_set_class_weights(NULL, &a->b.tensor[0]))                 \
    X(weights_tensor, "class_weights: weights", dpx_options_set_class_weights(a->o, NULL))                             \
    X(weights_data, "has no data", dpx_options_set_class_weights(a->o, &a->bad))                                       \
    X(target_options, "target_shape: options", dpx_options_set_target_shape(NULL, &a->b.tensor[1]))                    \
    X(target_tensor, "target_shape: target", dpx_options_set_target_shape(a->o, NULL))                                 \
    X(role_options, "set_role: options", dpx_options_set_role(NULL, "x", DPX_ROLE_WHOLE))                              \
    X(role_input, "set_role: input", dpx_options_set_role(a->o, NULL, DPX_ROLE_WHOLE))                                 \
    X(role_role, "role 7", dpx_options_set_role(a->o, "x", 7))                                                         \
    X(options_check, "dpx_options_check: options", dpx_options_check(NULL))                                            \
    X(operators_out, "dpx_operators_create: out", dpx_operators_create(NULL))                                          \
    X(operators_set, "dpx_operators_add: operators", dpx_operators_add(NULL, NULL))                                    \
    X(operators_options, "set_operators: options", dpx_options_set_operators(NULL, NULL))                              \
    X(operators_given, "set_operators: operators", dpx_options_set_operators(a->o, NULL))                              \
    X(node_set, "outside of a shape function", dpx_node_set_output(NULL, 0, DPX_FLOAT32, 0, NULL))                     \
    X(node_message, "outside of a shape function", dpx_node_set_message(NULL, 1, 1))                                   \
    X(node_gradient, "outside of a shape function", dpx_node_set_gradient_message(NULL, 1, 1))                         \
    X(graph_outputs, "outside of make_gradient", dpx_graph_emit_outputs(NULL, "", "Neg", NULL, 0, NULL, 0, NULL, 0))   \
    X(graph_set, "outside of make_gradient", dpx_graph_set_input_gradient(NULL, 0, 0))                                 \
    X(join_out, "dpx_world_join: out", dpx_world_join(NULL, &a->alone))                                                \
    X(join_options, "dpx_world_join: options", dpx_world_join(&a->w, NULL))                                            \
    X(join_rendezvous, "rendezvous: expected HOST:PORT", dpx_world_join(&a->w, &a->two))                               \
    X(note_world, "dpx_world_note: world", dpx_world_note(NULL, "n", "v"))                                             \
    X(note_name, "dpx_world_note: name", dpx_world_note(a->w, NULL, "v"))                                              \
    X(note_value, "dpx_world_note: value", dpx_world_note(a->w, "n", NULL))                                            \
    X(agree_world, "dpx_world_agree: world", dpx_world_agree(NULL))                                                    \
    X(max_world, "dpx_world_max: world", dpx_world_max(NULL, 1, &a->number))                                           \
    X(max_out, "dpx_world_max: out", dpx_world_max(a->w, 1, NULL))                                                     \
    X(sum_world, "dpx_world_sum: world", dpx_world_sum(NULL, 1, &a->number))                                           \
    X(sum_out, "dpx_world_sum: out", dpx_world_sum(a->w, 1, NULL))                                                     \
    X(gather_world, "dpx_world_gather: world", dpx_world_gather(NULL, "", 0, &a->all, a->size))                        \
    X(gather_mine, "dpx_world_gather: mine", dpx_world_gather(a->w, NULL, 0, &a->all, a->size))                        \
    X(gather_all, "dpx_world_gather: all", dpx_world_gather(a->w, "", 0, NULL, a->size))                               \
    X(gather_size, "dpx_world_gather: size", dpx_world_gather(a->w, "", 0, &a->all, NULL))                             \
    X(share_world, "dpx_world_share: world", dpx_world_share(NULL, 0, &a->number, sizeof a->number))                   \
    X(share_data, "dpx_world_share: data", dpx_world_share(a->w, 0, NULL, 1))                                          \
    X(devices_out, "dpx_devices: out", dpx_devices(NULL, 1, &a->n))                                                    \
    X(devices_max, "max is -1", dpx_devices(&a->device, -1, &a->n))                                                    \
    X(devices_n, "dpx_devices: n", dpx_devices(&a->device, 1, NULL))                                                   \
    X(transform_model, "dpx_transform: model", dpx_transform(NULL, a->o, NULL, "txt", write_nothing, NULL))            \
    X(transform_options, "dpx_transform: options", dpx_transform(a->m, NULL, NULL, "txt", write_nothing, NULL))        \
    X(transform_format, "dpx_transform: format", dpx_transform(a->m, a->o, NULL, NULL, write_nothing, NULL))           \
    X(transform_write, "dpx_transform: write", dpx_transform(a->m, a->o, NULL, "txt", NULL, NULL))                     \
    X(memory_out, "dpx_plan_memory: out", dpx_plan_memory(NULL, a->m, a->o))                                           \
    X(memory_model, "dpx_plan_memory: model", dpx_plan_memory(&a->memory, NULL, a->o))                                 \
    X(memory_options, "dpx_plan_memory: options", dpx_plan_memory(&a->memory, a->m, NULL))                             \
    X(copy_out, "dpx_options_copy: out", dpx_options_copy(NULL, a->o))                                                 \
    X(copy_options, "dpx_options_copy: options", dpx_options_copy(&a->copy, NULL))                                     \
    X(plan_model, "dpx_plan: model", dpx_plan(NULL, a->o, write_nothing, NULL, NULL, NULL))                            \
    X(plan_options, "dpx_plan: options", dpx_plan(a->m, NULL, write_nothing, NULL, NULL, NULL))                        \
    X(plan_write, "dpx_plan: write", dpx_plan(a->m, a->o, NULL, NULL, NULL, NULL))                                     \
    X(create_out, "dpx_trainer_create: out", dpx_trainer_create(NULL, a->m, a->o, NULL, NULL))                         \
    X(create_model, "dpx_trainer_create: model", dpx_trainer_create(&a->t, NULL, a->o, NULL, NULL))                    \
    X(create_options, "dpx_trainer_create: options", dpx_trainer_create(&a->t, a->m, NULL, NULL, NULL))                \
    X(trace_trainer, "dpx_trainer_trace: trainer", dpx_trainer_trace(NULL, 1))                                         \
    X(profile_trainer, "dpx_trainer_profile: trainer", dpx_trainer_profile(NULL, 1))                                   \
    X(profile_step, "dpx_trainer_profile_step: trainer", dpx_trainer_profile_step(NULL, 1, 0))                         \
    X(profile_of, "dpx_trainer_write_profile: trainer", dpx_trainer_write_profile(NULL, 0, write_nothing, NULL))       \
    X(profile_write, "dpx_trainer_write_profile: write", dpx_trainer_write_profile(a->t, 0, NULL, NULL))               \
    X(write_trainer, "dpx_trainer_write_trace: trainer", dpx_trainer_write_trace(NULL, "x"))                           \
    X(write_path, "dpx_trainer_write_trace: path", dpx_trainer_write_trace(a->t, NULL))                                \
    X(train_trainer, "dpx_train_step: trainer", dpx_train_step(NULL, a->b.tensor, 2, &a->r))                           \
    X(train_batch, "the batch is NULL", dpx_train_step(a->t, NULL, 2, &a->r))                                          \
    X(train_count, "a batch of -1 tensors", dpx_train_step(a->t, a->b.tensor, -1, &a->r))                              \
    X(train_name, "type 0 and rank 0 are not valid", dpx_train_step(a->t, &(dpx_tensor){ .name = NULL }, 1, &a->r))    \
    X(train_data, "has no data", dpx_train_step(a->t, &a->bad, 1, &a->r))                                              \
    X(val_trainer, "dpx_val_step: trainer", dpx_val_step(NULL, a->b.tensor, 2, &a->r))                                 \
    X(val_batch, "the batch is NULL", dpx_val_step(a->t, NULL, 2, &a->r))                                              \
    X(val_count, "a batch of -1 tensors", dpx_val_step(a->t, a->b.tensor, -1, &a->r))                                  \
    X(val_out, "dpx_val_step: out", dpx_val_step(a->t, a->b.tensor, 2, NULL))                                          \
    X(test_trainer, "trainer is NULL", dpx_test_step(NULL, a->b.tensor, 2, &a->r))                                     \
    X(test_batch, "the batch is NULL", dpx_test_step(a->t, NULL, 2, &a->r))                                            \
    X(test_out, "out is NULL", dpx_test_step(a->t, a->b.tensor, 2, NULL))                                              \
    X(measure_options, "dpx_measure: options", dpx_measure(NULL, write_nothing, NULL))                                 \
    X(measure_write, "dpx_measure: write", dpx_measure(a->o, NULL, NULL))                                              \
    X(check_folder, "dpx_check: folder", dpx_check(NULL, a->o, 0, &a->check))                                          \
    X(check_options, "dpx_check: options", dpx_check(SOURCE_DIR, NULL, 0, &a->check))                                  \
    X(check_out, "dpx_check: out", dpx_check(SOURCE_DIR, a->o, 0, NULL))                                               \
    X(interpret_out, "dpx_interpret: outputs", dpx_interpret(NULL, MLP, a->o, a->some))                                \
    X(interpret_path, "dpx_interpret: path", dpx_interpret(&a->data, NULL, a->o, a->some))                             \
    X(interpret_options, "dpx_interpret: options", dpx_interpret(&a->data, MLP, NULL, a->some))                        \
    X(interpret_inputs, "dpx_interpret: inputs", dpx_interpret(&a->data, MLP, a->o, NULL))                             \
    X(interpret_map, "the inputs are a list, expected a map", dpx_interpret(&a->data, MLP, a->o, a->some))             \
    X(result_size, "dpx_val_step: size is 0, expected sizeof(dpx_result)",                                             \
      dpx_val_step_sized(a->t, a->b.tensor, 2, &a->r, 0))                                                              \
    X(info_size, "dpx_model_info: size is 65537", dpx_model_info_sized(a->m, DPX_INPUT, 0, &a->info, 65537))           \
    X(world_size, "dpx_world_join: size is 0", dpx_world_join_sized(&a->w, &a->alone, 0))                              \
    X(metric_trainer, "dpx_trainer_metric: trainer", dpx_trainer_metric(NULL, &a->metric))                             \
    X(preprocess_trainer, "dpx_trainer_set_preprocess: trainer", dpx_trainer_set_preprocess(NULL, NULL, NULL))         \
    X(replicate_options, "dpx_options_on_replicate: options", dpx_options_on_replicate(NULL, NULL, NULL, NULL, NULL))  \
    X(replicate_none, "dpx_options_on_replicate: replicate", dpx_options_on_replicate(a->o, NULL, NULL, NULL, NULL))   \
    X(replicate_trainer, "dpx_trainer_on_replicate: trainer", dpx_trainer_on_replicate(NULL, NULL, NULL, NULL, NULL))  \
    X(replicate_function, "dpx_trainer_on_replicate: replicate",                                                       \
      dpx_trainer_on_replicate(a->t, NULL, NULL, NULL, NULL))                                                          \
    X(metric_out, "dpx_trainer_metric: out", dpx_trainer_metric(a->t, NULL))                                           \
    X(train_metric_trainer, "dpx_trainer_train_metric: trainer", dpx_trainer_train_metric(NULL, &a->metric))           \
    X(train_metric_out, "dpx_trainer_train_metric: out", dpx_trainer_train_metric(a->t, NULL))                         \
    X(metric_at_trainer, "dpx_trainer_metric_at: trainer", dpx_trainer_metric_at(NULL, 0, &a->metric))                 \
    X(metric_at_out, "dpx_trainer_metric_at: out", dpx_trainer_metric_at(a->t, 0, NULL))                               \
    X(train_metric_at_trainer, "dpx_trainer_train_metric_at: trainer",                                                 \
      dpx_trainer_train_metric_at(NULL, 0, &a->metric))                                                                \
    X(train_metric_at_out, "dpx_trainer_train_metric_at: out", dpx_trainer_train_metric_at(a->t, 0, NULL))             \
    X(lengths_trainer, "dpx_trainer_lengths: trainer", dpx_trainer_lengths(NULL, "x", 1, 1, &a->part.from, 1))         \
    X(lengths_name, "dpx_trainer_lengths: name", dpx_trainer_lengths(a->t, NULL, 1, 1, &a->part.from, 1))              \
    X(lengths_list, "dpx_trainer_lengths: length", dpx_trainer_lengths(a->t, "x", 1, 1, NULL, 1))                      \
    X(part_trainer, "dpx_trainer_part: trainer", dpx_trainer_part(NULL, 1, &a->part))                                  \
    X(part_out, "dpx_trainer_part: out", dpx_trainer_part(a->t, 1, NULL))                                              \
    X(part_samples, "a batch of -1 samples", dpx_trainer_part(a->t, -1, &a->part))                                     \
    X(train_part_trainer, "dpx_train_part: trainer", dpx_train_part(NULL, SAMPLES, a->b.tensor, 2, &a->r))             \
    X(train_part_batch, "the batch is NULL", dpx_train_part(a->t, SAMPLES, NULL, 2, &a->r))                            \
    X(val_part_trainer, "dpx_val_part: trainer", dpx_val_part(NULL, SAMPLES, a->b.tensor, 2, &a->r))                   \
    X(val_part_out, "dpx_val_part: out", dpx_val_part(a->t, SAMPLES, a->b.tensor, 2, NULL))                            \
    X(test_part_trainer, "trainer is NULL", dpx_test_part(NULL, SAMPLES, a->b.tensor, 2, &a->r))                       \
    X(test_part_out, "out is NULL", dpx_test_part(a->t, SAMPLES, a->b.tensor, 2, NULL))                                \
    X(run_part_trainer, "dpx_run_part: trainer", dpx_run_part(NULL, SAMPLES, a->b.tensor, 1, a->out, 1))               \
    X(run_part_outputs, "dpx_run_part: outputs", dpx_run_part(a->t, SAMPLES, a->b.tensor, 1, NULL, 1))                 \
    X(result_trainer, "dpx_train_result: trainer", dpx_train_result(NULL, &a->r))                                      \
    X(result_out, "dpx_train_result: out", dpx_train_result(a->t, NULL))                                               \
    X(flush_trainer, "dpx_train_flush: trainer", dpx_train_flush(NULL, &a->r))                                         \
    X(backward_trainer, "dpx_train_backward: trainer", dpx_train_backward(NULL, a->b.tensor, 2, &a->r))                \
    X(backward_batch, "the batch is NULL", dpx_train_backward(a->t, NULL, 2, &a->r))                                   \
    X(backward_part, "dpx_train_backward_part: trainer",                                                               \
      dpx_train_backward_part(NULL, SAMPLES, a->b.tensor, 2, &a->r))                                                   \
    X(update_trainer, "dpx_train_update: trainer", dpx_train_update(NULL, &a->r))                                      \
    X(update_nothing, "no gradients are gathered", dpx_train_update(a->t, &a->r))                                      \
    X(reset_trainer, "dpx_train_reset: trainer", dpx_train_reset(NULL))                                                \
    X(keep_trainer, "dpx_trainer_keep: trainer", dpx_trainer_keep(NULL, 0))                                            \
    X(gradient_trainer, "dpx_trainer_gradient: trainer", dpx_trainer_gradient(NULL, "x", a->b.tensor))                 \
    X(gradient_name, "dpx_trainer_gradient: parameter", dpx_trainer_gradient(a->t, NULL, a->b.tensor))                 \
    X(gradient_out, "dpx_trainer_gradient: out", dpx_trainer_gradient(a->t, "x", NULL))                                \
    X(rate_trainer, "dpx_trainer_set_lr: trainer", dpx_trainer_set_lr(NULL, 0, 1))                                     \
    X(bytes_out, "dpx_model_load_memory: out", dpx_model_load_memory(NULL, "", 0, NULL, NULL, NULL, NULL))             \
    X(bytes_data, "dpx_model_load_memory: data", dpx_model_load_memory(&a->m, NULL, 0, NULL, NULL, NULL, NULL))        \
    X(sink_trainer, "dpx_trainer_export_to: trainer", dpx_trainer_export_to(NULL, sink, NULL))                         \
    X(sink_write, "dpx_trainer_export_to: write", dpx_trainer_export_to(a->t, NULL, NULL))                             \
    X(save_to_trainer, "dpx_trainer_save_to: trainer", dpx_trainer_save_to(NULL, sink, NULL, NULL))                    \
    X(save_to_write, "dpx_trainer_save_to: write", dpx_trainer_save_to(a->t, NULL, NULL, NULL))                        \
    X(load_from_trainer, "dpx_trainer_load_from: trainer", dpx_trainer_load_from(NULL, source, NULL, NULL))            \
    X(load_from_read, "dpx_trainer_load_from: read", dpx_trainer_load_from(a->t, NULL, NULL, NULL))                    \
    X(predictor_out, "dpx_predictor_create: out", dpx_predictor_create(NULL, a->m, a->t, NULL))                        \
    X(predictor_model, "dpx_predictor_create: trainer", dpx_predictor_create(&a->p, NULL, NULL, NULL))                 \
    X(take_predictor, "dpx_predictor_take: predictor", dpx_predictor_take(NULL, a->t))                                 \
    X(take_trainer, "dpx_predictor_take: trainer", dpx_predictor_take(a->p, NULL))                                     \
    X(predict_predictor, "dpx_predict: predictor", dpx_predict(NULL, a->b.tensor, 1, &a->data))                        \
    X(predict_outputs, "dpx_predict: outputs", dpx_predict(a->p, a->b.tensor, 1, NULL))                                \
    X(predict_inputs, "the batch is NULL", dpx_predict(a->p, NULL, 1, &a->data))                                       \
    X(warm_predictor, "dpx_predictor_warm: predictor", dpx_predictor_warm(NULL, 1, a->b.tensor, 1))                    \
    X(warm_callers, "0 callers", dpx_predictor_warm(a->p, 0, a->b.tensor, 1))                                          \
    X(gradients_out, "dpx_model_gradient: out", dpx_model_gradient(NULL, a->m, NULL, "logits", "x"))                   \
    X(gradients_model, "dpx_model_gradient: model", dpx_model_gradient(&a->m, NULL, NULL, "logits", "x"))              \
    X(gradients_of, "dpx_model_gradient: of", dpx_model_gradient(&a->m, a->m, NULL, NULL, "x"))                        \
    X(gradients_by, "dpx_model_gradient: with_respect_to", dpx_model_gradient(&a->m, a->m, NULL, "logits", NULL))      \
    X(close_trainer, "dpx_trainer_close_group: trainer", dpx_trainer_close_group(NULL))                                \
    X(epoch_trainer, "dpx_trainer_end_epoch: trainer", dpx_trainer_end_epoch(NULL))                                    \
    X(parallel_keep, "data_parallel: keep", dpx_data_parallel(NULL, a->m, a->b.tensor, 1, NULL, 0, 0, a->out, 1))      \
    X(tokens_trainer, "dpx_run_tokens: trainer", dpx_run_tokens(NULL, a->b.tensor, 0, 8, a->out, 1))                   \
    X(tokens_tokens, "dpx_run_tokens: tokens", dpx_run_tokens(a->t, NULL, 0, 8, a->out, 1))                            \
    X(tokens_outputs, "dpx_run_tokens: outputs", dpx_run_tokens(a->t, a->b.tensor, 0, 8, NULL, 1))                     \
    X(run_trainer, "dpx_run: trainer", dpx_run(NULL, a->b.tensor, 1, a->out, 1))                                       \
    X(run_inputs, "the batch is NULL", dpx_run(a->t, NULL, 1, a->out, 1))                                              \
    X(run_outputs, "dpx_run: outputs", dpx_run(a->t, a->b.tensor, 1, NULL, 1))                                         \
    X(run_count, "room for -1 outputs", dpx_run(a->t, a->b.tensor, 1, a->out, -1))                                     \
    X(state_trainer, "dpx_trainer_state_info: trainer", dpx_trainer_state_info(NULL, 0, &a->info))                     \
    X(state_out, "dpx_trainer_state_info: out", dpx_trainer_state_info(a->t, 0, NULL))                                 \
    X(state_index, "state -1", dpx_trainer_state_info(a->t, -1, &a->info))                                             \
    X(get_trainer, "dpx_trainer_get_state: trainer", dpx_trainer_get_state(NULL, "x", &a->b.tensor[0]))                \
    X(get_name, "dpx_trainer_get_state: name", dpx_trainer_get_state(a->t, NULL, &a->b.tensor[0]))                     \
    X(get_out, "dpx_trainer_get_state: out", dpx_trainer_get_state(a->t, "x", NULL))                                   \
    X(put_trainer, "dpx_trainer_set_state: trainer", dpx_trainer_set_state(NULL, "x", &a->b.tensor[0]))                \
    X(put_name, "dpx_trainer_set_state: name", dpx_trainer_set_state(a->t, NULL, &a->b.tensor[0]))                     \
    X(put_in, "dpx_trainer_set_state: in", dpx_trainer_set_state(a->t, "x", NULL))                                     \
    X(save_trainer, "dpx_trainer_save: trainer", dpx_trainer_save(NULL, "x", NULL))                                    \
    X(save_directory, "dpx_trainer_save: directory", dpx_trainer_save(a->t, NULL, NULL))                               \
    X(resume_trainer, "dpx_trainer_resume: trainer", dpx_trainer_resume(NULL, "x", NULL))                              \
    X(resume_directory, "dpx_trainer_resume: directory", dpx_trainer_resume(a->t, NULL, NULL))                         \
    X(step_trainer, "dpx_trainer_resume_step: trainer", dpx_trainer_resume_step(NULL, "x", 1, NULL))                   \
    X(step_directory, "dpx_trainer_resume_step: directory", dpx_trainer_resume_step(a->t, NULL, 1, NULL))              \
    X(step_number, "dpx_trainer_resume_step: step -1", dpx_trainer_resume_step(a->t, "x", -1, NULL))                   \
    X(verify_directory, "dpx_checkpoint_verify: directory", dpx_checkpoint_verify(NULL, 1))                            \
    X(remove_directory, "dpx_checkpoint_remove: directory", dpx_checkpoint_remove(NULL, 1))                            \
    X(export_trainer, "dpx_trainer_export: trainer", dpx_trainer_export(NULL, "x"))                                    \
    X(export_path, "dpx_trainer_export: path", dpx_trainer_export(a->t, NULL))                                         \
    X(data_out, "dpx_data_tensor: out", dpx_data_tensor(NULL, a->b.tensor))                                            \
    X(data_tensor, "dpx_data_tensor: tensor", dpx_data_tensor(&a->data, NULL))                                         \
    X(data_data, "has no data", dpx_data_tensor(&a->data, &a->bad))                                                    \
    X(list_out, "dpx_data_list: out", dpx_data_list(NULL, NULL, 0))                                                    \
    X(list_member, "a list: 1 members, and `member` is NULL", dpx_data_list(&a->data, NULL, 1))                        \
    X(list_null, "member 0 is NULL", dpx_data_list(&a->data, &(const dpx_data *){ NULL }, 1))                          \
    X(list_count, "a list: -1 members", dpx_data_list(&a->data, NULL, -1))                                             \
    X(map_out, "dpx_data_map: out", dpx_data_map(NULL, NULL, NULL, 0))                                                 \
    X(map_key, "a map: 1 members, and `key` is NULL", dpx_data_map(&a->data, NULL, &(const dpx_data *){ a->some }, 1)) \
    X(map_null, "key 0 of the map is NULL",                                                                            \
      dpx_data_map(&a->data, &(const char *){ NULL }, &(const dpx_data *){ a->some }, 1))                              \
    X(container_out, "dpx_data_container: out", dpx_data_container(NULL, a->some, NULL))                               \
    X(container_content, "dpx_data_container: content", dpx_data_container(&a->data, NULL, NULL))                      \
    X(view_data, "dpx_data_view: data", dpx_data_view(NULL, a->out))                                                   \
    X(view_out, "dpx_data_view: out", dpx_data_view(a->some, NULL))                                                    \
    X(view_kind, "a list, expected a tensor", dpx_data_view(a->some, a->out))                                          \
    X(collate_out, "dpx_collate: out", dpx_collate(NULL, &(const dpx_data *){ a->some }, 1, 1))                        \
    X(collate_samples, "dpx_collate: sample", dpx_collate(&a->data, NULL, 1, 1))                                       \
    X(collate_null, "dpx_collate: sample 0 is NULL", dpx_collate(&a->data, &(const dpx_data *){ NULL }, 1, 1))         \
    X(collate_count, "dpx_collate: 0 samples", dpx_collate(&a->data, &(const dpx_data *){ a->some }, 0, 1))            \
    X(collate_each, "1 samples, -1 for each", dpx_collate(&a->data, &(const dpx_data *){ a->some }, 1, -1))            \
    X(scatter_out, "dpx_scatter: out", dpx_scatter(NULL, a->some, 1))                                                  \
    X(scatter_batch, "dpx_scatter: batch", dpx_scatter(&a->data, NULL, 1))                                             \
    X(scatter_count, "dpx_scatter: 0 replicas", dpx_scatter(&a->data, a->some, 0))                                     \
    X(train_data_trainer, "dpx_train_data: trainer", dpx_train_data(NULL, a->some, &a->r))                             \
    X(train_data_batch, "dpx_train_data: batch", dpx_train_data(a->t, NULL, &a->r))                                    \
    X(val_data_trainer, "dpx_val_data: trainer", dpx_val_data(NULL, a->some, &a->r))                                   \
    X(val_data_batch, "dpx_val_data: batch", dpx_val_data(a->t, NULL, &a->r))                                          \
    X(run_data_trainer, "dpx_run_data: trainer", dpx_run_data(NULL, a->some, a->out, 1))                               \
    X(run_data_inputs, "dpx_run_data: inputs", dpx_run_data(a->t, NULL, a->out, 1))

#define CALL(NAME, SAYS, E)                \
    static dpx_status call_##NAME(Args *a) \
    {                                      \
        (void)a;                           \
        return (E);                        \
    }
#define ROW(NAME, SAYS, E) { SAYS, call_##NAME },
ROWS(CALL)
static const Row rows[] = { ROWS(ROW) };

/* One thread, for the thread sanitizer does not see how those of a team meet. */
static const char *const settings[] = { "loss=cross-entropy", "threads=1", NULL };

static bool open_args(Args *a)
{
    static int64_t shape[2] = { 2, 3 };

    *a = (Args){ .bad = { .name = "x", .dtype = DPX_FLOAT32, .rank = 1, .dim = { 4 } },
                 .alone = { .size = 1 },
                 .two = { .size = 2 } };
    make_batch(&a->b, 1);
    a->dl = a->shapeless =
        (DLTensor){ .data = a->b.x, .device = { kDLCPU, 0 }, .ndim = 2, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    a->shapeless.shape = NULL;
    a->o = dpx_options_create();
    a->t = make_trainer(settings);
    return a->o && a->t && CHECK_DPX(dpx_data_list(&a->some, NULL, 0)) && CHECK_DPX(dpx_model_load(&a->m, MLP)) &&
           CHECK_DPX(dpx_predictor_create(&a->p, a->m, NULL, NULL)) && CHECK_DPX(dpx_world_join(&a->w, &a->alone));
}

static void close_args(Args *a)
{
    dpx_predictor_free(a->p);
    dpx_trainer_free(a->t);
    dpx_options_free(a->o);
    dpx_model_free(a->m);
    dpx_data_free(a->some);
    dpx_world_leave(a->w);
}

static void test_refused(void)
{
    Args a;

    if (open_args(&a))
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            CHECK_DPX_FAILS(DPX_INVALID, rows[i].says, rows[i].call(&a));
    CHECK_DPX(dpx_train_step(a.t, a.b.tensor, 2, &a.r)); /* nothing of it has harmed the trainer */
    CU_ASSERT_EQUAL(a.r.step, 1);
    close_args(&a);
}

static void test_harmless(void)
{
    dpx_options *o = dpx_options_create();

    dpx_model_free(NULL);
    dpx_options_free(NULL);
    dpx_trainer_free(NULL);
    dpx_predictor_free(NULL);
    dpx_data_free(NULL);
    CU_ASSERT(!dpx_data_count(NULL) && !dpx_data_at(NULL, 0) && !dpx_data_key(NULL, 0) && !dpx_data_find(NULL, "x"));
    CU_ASSERT_EQUAL(dpx_data_kind_of(NULL), DPX_DATA_LIST);
    dpx_options_set_members(NULL, NULL, NULL);
    dpx_trainer_restart_metric(NULL);
    dpx_trainer_restart_train_metric(NULL);
    dpx_trainer_padding(NULL, NULL, NULL);
    dpx_world_leave(NULL);
    dpx_world_abort(NULL, "why");
    dpx_world_set_purpose(NULL, "what");
    dpx_world_end(NULL, 1);
    CU_ASSERT(dpx_world_size(NULL) == 1 && dpx_world_rank(NULL) == 0 && dpx_world_neighbours(NULL) == 1);
    dpx_options_set_world(NULL, NULL);
    dpx_options_set_world(o, NULL);
    dpx_trainer_on_step(NULL, NULL, NULL);
    dpx_operators_free(NULL);
    CU_ASSERT(!dpx_node_name(NULL) && !dpx_node_count_inputs(NULL) && !dpx_node_count_outputs(NULL));
    CU_ASSERT(!dpx_node_input(NULL, 0, NULL) && !dpx_node_output(NULL, 0, NULL));
    CU_ASSERT(!dpx_node_output_gradient(NULL, 0, NULL) && !dpx_node_input_gradient(NULL, 0, NULL));
    CU_ASSERT(!dpx_node_int(NULL, "i") && !(dpx_node_float(NULL, "f") > 0) && !dpx_node_string(NULL, "s"));
    CU_ASSERT(!dpx_node_ints(NULL, "l", NULL) && !dpx_node_floats(NULL, "l", NULL));
    CU_ASSERT(!dpx_node_count_messages(NULL) && !dpx_node_message(NULL, 0, NULL));
    CU_ASSERT(!dpx_node_answer(NULL, 0, NULL) && !dpx_node_gradient_answer(NULL, NULL));
    CU_ASSERT_EQUAL(dpx_node_fail(NULL, DPX_IO, "why"), DPX_IO);
    CU_ASSERT(!dpx_graph_input(NULL, 0) && !dpx_graph_output(NULL, 0) && !dpx_graph_output_gradient(NULL, 0));
    CU_ASSERT(!dpx_graph_constant(NULL, NULL) && !dpx_graph_number(NULL, 0, 1) && !dpx_graph_tensor(NULL, 0, NULL));
    CU_ASSERT(!dpx_graph_emit(NULL, "", "Neg", NULL, 0, NULL, 0));
    CU_ASSERT(!dpx_batch_axis(NULL, NULL, NULL) && !dpx_batch_splits(NULL, o, "x"));
    CU_ASSERT_EQUAL(dpx_batch_role(NULL, o, "x"), DPX_ROLE_UNKNOWN);
    CU_ASSERT(!dpx_model_is_step(NULL) && !dpx_model_metadata(NULL, "task") && !dpx_model_count(NULL, DPX_INPUT) &&
              !dpx_trainer_replicas(NULL) && !*dpx_trainer_summary(NULL) && !dpx_trainer_memory(NULL) &&
              isnan(dpx_trainer_group_lr(NULL, 0, 1)) && isnan(dpx_trainer_group_norm(NULL, 0)) &&
              isnan(dpx_trainer_group_scale(NULL, 0)) && !dpx_trainer_group_skipped(NULL, 0));
    CU_ASSERT(!dpx_trainer_observes(NULL) && dpx_trainer_observe(NULL, 0, 0) == DPX_INVALID);
    CU_ASSERT(!dpx_trainer_context(NULL, "node"));
    CU_ASSERT(!dpx_trainer_option(NULL, "split"));
    CU_ASSERT(!dpx_trainer_runs_ahead(NULL) && !dpx_trainer_state_count(NULL) && !dpx_trainer_step_count(NULL));
    CU_ASSERT(!dpx_trainer_bytes_resumed(NULL));
    CU_ASSERT(!dpx_metric_at(NULL, 0).name);
    CU_ASSERT(!dpx_options_get(NULL, "lr") && !dpx_options_get(o, NULL) && !dpx_options_get(o, "none"));
    CU_ASSERT(!dpx_choice_at(NULL, 0).name && !dpx_choice_at("optimizer", -1).name && !dpx_choice_at("none", 0).name);
    CU_ASSERT(!dpx_choice_at("optimizer", 1000).name && dpx_choice_at("optimizer", 0).name);
    CU_ASSERT(!dpx_choice_default(NULL, "sgd", "lr") && !dpx_choice_default("optimizer", NULL, "lr"));
    CU_ASSERT(!dpx_choice_default("optimizer", "sgd", NULL) && !dpx_choice_default("optimizer", "none", "lr"));
    CU_ASSERT_EQUAL(dpx_target(NULL), DPX_TARGET_NONE);
    CU_ASSERT(!dpx_option_at(-1).name && !dpx_option_at(dpx_option_count()).name && dpx_option_at(0).name);
    CU_ASSERT(!dpx_choice_at(NULL, 0).name && !dpx_choice_at("lr", 0).name && !dpx_choice_at("loss", -1).name);
    CU_ASSERT(!dpx_choice_default(NULL, "lion", "beta2") && !dpx_choice_default("optimizer", NULL, "beta2"));
    CU_ASSERT(!dpx_choice_default("optimizer", "lion", NULL) && !dpx_choice_default("optimizer", "sgd", "beta2"));
    CU_ASSERT_STRING_EQUAL(dpx_choice_default("optimizer", "lion", "beta2"), "0.99");
    CU_ASSERT(dpx_target(NULL) == DPX_TARGET_NONE);
    CU_ASSERT(!dpx_dtype_size((dpx_dtype)-1) && dpx_dtype_name((dpx_dtype)-1) && dpx_version() && dpx_error());
    dpx_options_free(o);
}

static void test_names(void)
{
    CU_ASSERT_EQUAL(dpx_version_number(), DPX_VERSION_NUMBER);
    CU_ASSERT(!dpx_isa_at(-1) && dpx_isa_at(0) && !dpx_isa_at(100));
    CU_ASSERT_STRING_EQUAL(dpx_status_name(DPX_OK), "DPX_OK");
    CU_ASSERT_STRING_EQUAL(dpx_status_name(DPX_SHAPE), "DPX_SHAPE");
    CU_ASSERT_STRING_EQUAL(dpx_status_name(DPX_INTERRUPTED), "DPX_INTERRUPTED");
    CU_ASSERT_STRING_EQUAL(dpx_status_name((dpx_status)1), "unknown status");
    CU_ASSERT_STRING_EQUAL(dpx_status_name((dpx_status)INT_MIN), "unknown status");
}

/* A DLPack tensor whose sizes overflow or are negative. */
static void test_dlpack_sizes(void)
{
    int64_t huge[3] = { INT64_MAX / 2, INT64_MAX / 2, 3 }, negative[2] = { -1, 4 }, strides[3] = { 1, 1, 1 };
    float data[4] = { 0 };
    DLTensor t = { .data = data,
                   .device = { kDLCPU, 0 },
                   .ndim = 3,
                   .dtype = { kDLFloat, 32, 1 },
                   .shape = huge,
                   .strides = strides };
    dpx_tensor v;

    CHECK_DPX_FAILS(DPX_INVALID, "DLPack", dpx_tensor_from_dlpack(&v, "x", &t));
    t.shape = negative;
    t.ndim = 2;
    CHECK_DPX_FAILS(DPX_INVALID, "DLPack", dpx_tensor_from_dlpack(&v, "x", &t));
    t.data = NULL;
    t.byte_offset = 4;
    negative[0] = 1;
    t.strides = NULL;
    CHECK_DPX_FAILS(DPX_INVALID, "no data", dpx_tensor_from_dlpack(&v, "x", &t));
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 17);
    size_t n = f && text ? fread(text, 1, (1 << 17) - 1, f) : 0;

    CU_ASSERT(n > 0);
    if (f)
        fclose(f);
    return text;
}

/* Every function of the header occurs in this file. */
static void test_complete(void)
{
    char *header = read_header(), *here = read_text(SOURCE_DIR "/tests/api/null.c");
    int n = 0;

    for (char *at = header_function(header); at; at = header_function(at + 1)) {
        char *end = strchr(at + 9, '('), *name = end;

        while (end && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
            name--;
        if (!end)
            break;
        *end = '\0';
        if (!strstr(here, name))
            TEST_FAIL("%s is not tested with NULL", name);
        *end = '(';
        n++;
    }
    CU_ASSERT(n >= 40);
    free(header);
    free(here);
}

DEFINE_SUITE(null_arguments, { "refused", test_refused }, { "harmless", test_harmless }, { "names", test_names },
             { "sizes of DLPack", test_dlpack_sizes }, { "complete", test_complete });
