/* The commands of dpexec; each returns the exit status of the process. */
#ifndef DPX_TOOLS_COMMANDS_H
#define DPX_TOOLS_COMMANDS_H

#include "tools/args.h"
#include "tools/findings.h"

extern const Command command_train, command_resume, command_export, command_eval, command_run, command_launch,
    command_devices, command_check, command_data, command_tokenize, command_report, command_generate, command_new,
    command_completion;
/* The commands in order; NULL past the end. */
const Command *command_at(int index);

int run_train(const Args *a);
int run_export(const Args *a);
int run_eval(const Args *a);
int run_run(const Args *a);
int run_launch(const Args *a);
int run_devices(const Args *a);
int run_check(const Args *a);
int run_data(const Args *a);
int run_tokenize(const Args *a);
int run_report(const Args *a);
int run_generate(const Args *a);
int run_new(const Args *a);
int run_completion(const Args *a);

/* Add the files that the arguments of a command name and that cannot be read.  The arguments may be wrong otherwise: an
 * error of the command line then lists these files, too. */
void find_train_files(Findings *f, const Args *a);
void find_eval_files(Findings *f, const Args *a);
void find_run_files(Findings *f, const Args *a);

/* --dry-run of a command that takes MODEL.onnx and options. */
Status print_plan(const Args *a, bool quiet) CHECKED;

/* Log receiver of the library, whose `user` is a Progress: warnings always, the rest unless it is quiet, and details
 * only if it is verbose. */
void report_log(void *user, int level, const char *line);

#endif
