/* dpx_check. */
#include "exec/inspect/check.h"

#include "exec/api/api.h"

dpx_status dpx_check_sized(const char *folder, const dpx_options *options, int interpreter, dpx_check_result *out,
                           size_t size)
{
    dpx_check_result result;
    Status st;

    NEED(folder, "folder");
    NEED(options, "options");
    NEED(out, "out");
    NEED_SIZE(size, dpx_check_result);
    if (!(st = check_folder(&result, folder, (const Options *)options, interpreter != 0)))
        GIVE(out, size, result);
    return (dpx_status)st;
}
