/* dpexec export: writes the model of a run's checkpoint for inference. */
#include <stdio.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/stored_args.h"

static const Flag flags[] = {
    { "at", "best|last|STEP",
      "which checkpoint: the best model's, the newest, or that of a step [best, if there is one]" },
    { "export-preprocess", NULL,
      "put the preprocessing in front: the file takes images as bytes, or raw columns of a table" },
    { "o", "FILE.onnx", "the file to write" },
    { NULL, NULL, NULL },
};

const Command command_export = { "export",
                                 "RUN -o FILE.onnx [--at best|last|STEP]",
                                 "Writes the model of a run's checkpoint for inference.",
                                 flags,
                                 NO_OPTIONS,
                                 1,
                                 1,
                                 NULL };

static Status export_run(const Args *a)
{
    const char *run = a->positional[0], *at = args_value(a, "at");
    char path[4096];

    if (!args_has(a, "o"))
        return FAIL(E_INVALID, "-o FILE.onnx is missing: the file to write");
    snprintf(path, sizeof path, "%s/checkpoints/best", run);
    return export_checkpoint(run,
                             at                   ? at
                             : access(path, F_OK) ? "last"
                                                  : "best",
                             args_has(a, "export-preprocess"), args_value(a, "o"));
}

int run_export(const Args *a)
{
    Status st = export_run(a);

    return st ? args_failed(a, "dpexec", st) : EXIT_DONE;
}
