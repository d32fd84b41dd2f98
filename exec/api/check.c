/* dpx_check. */
#include "exec/inspect/check.h"

#include "exec/api/api.h"

dpx_status dpx_check(const char *folder, const dpx_options *options, int interpreter, dpx_check_result *out)
{
    NEED(folder, "folder");
    NEED(options, "options");
    NEED(out, "out");
    return (dpx_status)check_folder(out, folder, (const Options *)options, interpreter != 0);
}
