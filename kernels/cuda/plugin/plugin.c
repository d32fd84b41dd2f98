/* libdpexec_cuda.so: the table of functions behind its one symbol. */
#include "kernels/cuda/plugin/plugin.h"

Status plan_run(GpuStream *s, GpuPlan *p, void *const *buffers, void *workspace)
{
    TRY(device_use(s->device));
    return p->is->run(p, s, buffers, workspace);
}

void plan_free(GpuPlan *p)
{
    if (p && !p->device->abandoned)
        p->is->free(p);
}

/* Functions by subject. */
/* clang-format off */
static const CudaDriver driver = {
    .runtime = {
        .abi = RUNTIME_ABI, .name = "cuda", .simulated = false, .message = status_message,
        .count = device_count, .info = device_info,
        .open = device_open, .close = device_close, .abandon = device_abandon,
        .free_memory = device_free_memory,
        .alloc = memory_alloc, .free = memory_free, .host_alloc = memory_host_alloc, .host_free = memory_host_free,
        .stream_create = stream_create, .stream_free = stream_free, .stream_wait = stream_wait,
        .event_create = event_create, .event_free = event_free,
        .event_record = event_record, .event_await = event_await,
        .event_wait = event_wait, .event_query = event_query, .event_elapsed = event_elapsed,
        .zero = memory_zero, .copy = memory_copy, .copy_rows = memory_copy_rows, .host_call = stream_host_call,
        .capture_begin = capture_begin, .capture_end = capture_end,
        .graph_launch = captured_launch, .graph_free = captured_free,
        .comm_id = comm_id, .comm_create = comm_create, .comm_free = comm_free,
        .comm_abort = comm_abort, .comm_abort_end = comm_abort_end, .comm_poll = comm_poll,
        .comm_alloc = comm_alloc, .comm_release = comm_release, .comm_register = comm_register,
        .all_reduce_sum = comm_all_reduce_sum, .reduce_scatter_sum = comm_reduce_scatter_sum,
        .all_gather = comm_all_gather, .all_to_all = comm_all_to_all,
        .broadcast = comm_broadcast,
    },
    .kernel = kernel_find, .compile = module_compile, .module_kernel = module_kernel, .module_free = module_free,
    .kernel_shared = kernel_shared, .launch = kernel_launch,
    .gemm = gemm_plan, .conv = conv_plan, .attention = attention_plan, .plan_run = plan_run, .plan_free = plan_free,
};
/* clang-format on */

CudaDriverEntry dpexec_cuda_driver __attribute__((visibility("default")));

const CudaDriver *dpexec_cuda_driver(void) { return &driver; }
