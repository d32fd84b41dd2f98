/* The part of dpexec.h about structs that may grow.  Include dpexec.h.
 *
 * The functions declared with DPX_SIZED fill in or read a struct to which later versions add members at the end.  They
 * are defined here, in the caller, and pass the size that the struct had when the caller was compiled to the library's
 * function NAME_sized.  The library writes `size` bytes and no more; members that it does not know become zero.  Of a
 * struct that it reads, it takes missing members as zero, and is DPX_INVALID if a member that it does not know is not
 * zero.  So programs compiled with an older or a newer dpexec.h of the same major version work.
 *
 * A struct that a callback receives is the library's: with an older library it lacks the newer members.
 *
 * A program in another language calls NAME_sized with the size of its own struct.  `size` of dpx_devices is that of one
 * entry.  DPX_INVALID: `size` is 0, or larger than 65536.  Everything else is as the comment of NAME says. */
#ifndef DPEXEC_SIZED_H
#define DPEXEC_SIZED_H

#if !defined(DPEXEC_H)
#error "include dpexec.h, of which this is a part"
#endif

DPX_API dpx_status dpx_model_info_sized(const dpx_model *model, dpx_kind kind, int index, dpx_info *out,
                                        size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_world_join_sized(dpx_world **out, const dpx_world_options *options, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_devices_sized(dpx_device *out, int max, int *n, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_plan_memory_sized(dpx_plan_memory_result *out, const dpx_model *model,
                                         const dpx_options *options, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_check_sized(const char *folder, const dpx_options *options, int interpreter,
                                   dpx_check_result *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out,
                                        size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_val_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out,
                                      size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_test_step_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out,
                                       size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_metric_sized(const dpx_trainer *t, dpx_metric *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_metric_at_sized(const dpx_trainer *t, int index, dpx_metric *out,
                                               size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_train_metric_sized(const dpx_trainer *t, dpx_metric *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_train_metric_at_sized(const dpx_trainer *t, int index, dpx_metric *out,
                                                     size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                                        size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_val_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                                      size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_test_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out,
                                       size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_result_sized(dpx_trainer *t, dpx_result *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_flush_sized(dpx_trainer *t, dpx_result *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_backward_sized(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out,
                                            size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_backward_part_sized(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                                 dpx_result *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_update_sized(dpx_trainer *t, dpx_result *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_trainer_state_info_sized(dpx_trainer *t, int index, dpx_info *out, size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_train_data_sized(dpx_trainer *t, const dpx_data *batch, dpx_result *out,
                                        size_t size) DPX_CHECKED;
DPX_API dpx_status dpx_val_data_sized(dpx_trainer *t, const dpx_data *batch, dpx_result *out, size_t size) DPX_CHECKED;

DPX_SIZED dpx_status dpx_model_info(const dpx_model *model, dpx_kind kind, int index, dpx_info *out)
{
    return dpx_model_info_sized(model, kind, index, out, sizeof(dpx_info));
}

DPX_SIZED dpx_status dpx_world_join(dpx_world **out, const dpx_world_options *options)
{
    return dpx_world_join_sized(out, options, sizeof(dpx_world_options));
}

DPX_SIZED dpx_status dpx_devices(dpx_device *out, int max, int *n)
{
    return dpx_devices_sized(out, max, n, sizeof(dpx_device));
}

DPX_SIZED dpx_status dpx_plan_memory(dpx_plan_memory_result *out, const dpx_model *model, const dpx_options *options)
{
    return dpx_plan_memory_sized(out, model, options, sizeof(dpx_plan_memory_result));
}

DPX_SIZED dpx_status dpx_check(const char *folder, const dpx_options *options, int interpreter, dpx_check_result *out)
{
    return dpx_check_sized(folder, options, interpreter, out, sizeof(dpx_check_result));
}

DPX_SIZED dpx_status dpx_train_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    return dpx_train_step_sized(t, batch, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_val_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    return dpx_val_step_sized(t, batch, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_test_step(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    return dpx_test_step_sized(t, batch, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_trainer_metric(const dpx_trainer *t, dpx_metric *out)
{
    return dpx_trainer_metric_sized(t, out, sizeof(dpx_metric));
}

DPX_SIZED dpx_status dpx_trainer_metric_at(const dpx_trainer *t, int index, dpx_metric *out)
{
    return dpx_trainer_metric_at_sized(t, index, out, sizeof(dpx_metric));
}

DPX_SIZED dpx_status dpx_trainer_train_metric(const dpx_trainer *t, dpx_metric *out)
{
    return dpx_trainer_train_metric_sized(t, out, sizeof(dpx_metric));
}

DPX_SIZED dpx_status dpx_trainer_train_metric_at(const dpx_trainer *t, int index, dpx_metric *out)
{
    return dpx_trainer_train_metric_at_sized(t, index, out, sizeof(dpx_metric));
}

DPX_SIZED dpx_status dpx_train_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out)
{
    return dpx_train_part_sized(t, samples, part, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_val_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out)
{
    return dpx_val_part_sized(t, samples, part, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_test_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n, dpx_result *out)
{
    return dpx_test_part_sized(t, samples, part, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_train_result(dpx_trainer *t, dpx_result *out)
{
    return dpx_train_result_sized(t, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_train_flush(dpx_trainer *t, dpx_result *out)
{
    return dpx_train_flush_sized(t, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_train_backward(dpx_trainer *t, const dpx_tensor *batch, int n, dpx_result *out)
{
    return dpx_train_backward_sized(t, batch, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_train_backward_part(dpx_trainer *t, int64_t samples, const dpx_tensor *part, int n,
                                             dpx_result *out)
{
    return dpx_train_backward_part_sized(t, samples, part, n, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_train_update(dpx_trainer *t, dpx_result *out)
{
    return dpx_train_update_sized(t, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_trainer_state_info(dpx_trainer *t, int index, dpx_info *out)
{
    return dpx_trainer_state_info_sized(t, index, out, sizeof(dpx_info));
}

DPX_SIZED dpx_status dpx_train_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out)
{
    return dpx_train_data_sized(t, batch, out, sizeof(dpx_result));
}

DPX_SIZED dpx_status dpx_val_data(dpx_trainer *t, const dpx_data *batch, dpx_result *out)
{
    return dpx_val_data_sized(t, batch, out, sizeof(dpx_result));
}
#endif
