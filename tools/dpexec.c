/* dpexec: finds the command and runs it.  `dpexec model.onnx ...` trains. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/help.h"
#include "tools/launcher.h"
#include "tools/man.h"
#include "tools/progress.h"
#include "tools/standard_streams.h"
#include "tools/stored_args.h"

static const struct {
    const Command *command;
    int (*run)(const Args *);
    bool by_all; /* all processes of a launcher run it; false: only rank 0 does */
    /* Makes the command line that takes the place of the given one, of the command `as`; NULL: none does. */
    Status (*expand)(ArgList *out, const Args *a);
    const Command *as;
    void (*find_files)(Findings *f, const Args *a); /* finds missing files; NULL: names none */
} commands[] = {
    { &command_train, run_train, true, expand_config, &command_train, find_train_files },
    { &command_resume, run_train, true, expand_resume, &command_train, NULL },
    { &command_eval, run_eval, false, expand_run, &command_eval, find_eval_files },
    { &command_run, run_run, false, expand_run, &command_run, find_run_files },
    { &command_generate, run_generate, false, expand_run, &command_generate, find_eval_files },
    { &command_export, run_export, false, NULL, NULL, NULL },
    { &command_report, run_report, false, NULL, NULL, NULL },
    { &command_check, run_check, false, NULL, NULL, NULL },
    { &command_data, run_data, false, NULL, NULL, NULL },
    { &command_launch, run_launch, true, NULL, NULL, NULL },
    { &command_devices, run_devices, true, NULL, NULL, NULL },
    { &command_tokenize, run_tokenize, false, NULL, NULL, NULL },
    { &command_new, run_new, false, NULL, NULL, NULL },
    { &command_completion, run_completion, false, NULL, NULL, NULL },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const Command *command_at(int i) { return i >= 0 && i < N_COMMANDS ? commands[i].command : NULL; }

void report_log(void *user, int level, const char *line)
{
    Progress *p = user;

    if (level == DPX_LOG_WARNING)
        progress_line(p, "dpexec: warning: %s", line);
    else if (!p->quiet && (level != DPX_LOG_DETAIL || p->verbose))
        progress_line(p, "%s", line);
}

static int print_usage(void)
{
    char line[256];

    help_usage("usage: ", "dpexec [train] MODEL.onnx --data SRC --loss KIND [options]");
    for (int i = 1; i < N_COMMANDS; i++) {
        snprintf(line, sizeof line, "dpexec %s %s", commands[i].command->name, commands[i].command->synopsis);
        help_usage("       ", line);
    }
    help_usage("       ", "dpexec --version");
    putchar('\n');
    help_words("Trains ONNX models on data-parallel replicas. 'dpexec COMMAND -h' prints the most used flags, --help "
               "all, --man a man page:",
               0, 0);
    putchar('\n');
    for (int i = 0; i < N_COMMANDS; i++) {
        printf("  %-12s", commands[i].command->name);
        help_words(commands[i].command->summary, 14, 14);
    }
    return EXIT_DONE;
}

static int print_man(void)
{
    char name[256];

    man_head("dpexec", "dpexec COMMAND [arguments]", "trains ONNX models on data-parallel replicas");
    man_section("COMMANDS");
    man_paragraph("Each has a page of its own, dpexec-COMMAND(1); without a command dpexec trains.");
    for (int i = 0; i < N_COMMANDS; i++) {
        snprintf(name, sizeof name, "%s %s", commands[i].command->name, commands[i].command->synopsis);
        man_term(name, commands[i].command->summary);
    }
    return EXIT_DONE;
}

/* The command that was probably meant by a word that is neither a command nor a file; NULL: none. */
static const char *nearest_command(const char *typed)
{
    Nearest near = { 0 };

    for (int i = 0; i < N_COMMANDS && typed[0] != '-' && access(typed, F_OK); i++)
        nearest_add(&near, commands[i].command->name, typed);
    return near.name;
}

/* Whether the text is neither a path nor a file. */
static bool is_word(const char *typed) { return !strpbrk(typed, "./-") && access(typed, F_OK) != 0; }

/* Runs the command, on rank 0 alone where the processes of a launcher cannot share it. */
static int run_command(int which, const Args *a)
{
    Status st;
    int rank;

    if (commands[which].by_all)
        return commands[which].run(a);
    if ((st = launcher_rank(&rank)))
        return args_failed(a, "dpexec", st);
    if (!rank)
        return commands[which].run(a);
    if (!args_has(a, "quiet"))
        fprintf(stderr, "dpexec: rank %d: nothing to do: rank 0 runs dpexec %s\n", rank, commands[which].command->name);
    return EXIT_DONE;
}

/* Adds missing files to what is wrong with the command line. */
static Status add_missing_files(Status st, int which, const Args *a)
{
    Findings f = { 0 };

    if (st != E_INVALID || !commands[which].find_files || (a->command->takes && !a->options))
        return st;
    findings_add(&f, st);
    commands[which].find_files(&f, a);
    return findings_fail(&f);
}

static int dispatch(int which, int argc, char **argv)
{
    ArgList whole = { 0 };
    Args a;
    Status st = args_parse(&a, commands[which].command, argc, argv);
    int code;

    st = a.help ? st : add_missing_files(st, which, &a);
    if (!st && !a.help && commands[which].expand)
        st = commands[which].expand(&whole, &a);
    if (!st && whole.n) {
        args_free(&a);
        st = args_parse(&a, commands[which].as, whole.n, whole.arg);
    }

    if (st) {
        code = args_failed(&a, "dpexec", st);
        fprintf(stderr, "try 'dpexec %s --help'\n", commands[which].command->name);
    } else if (a.help) {
        help_print(&a, "dpexec");
        code = EXIT_DONE;
    } else {
        code = run_command(which, &a);
    }
    args_free(&a);
    arg_list_free(&whole);
    return code;
}

/* The number of the command; -1: there is none of this name. */
static int find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].command->name))
            return i;
    return -1;
}

static int run(int argc, char **argv)
{
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_usage();
        return argc < 2 ? EXIT_USAGE : EXIT_DONE;
    }
    if (!strcmp(argv[1], "--man"))
        return print_man();
    if (!strcmp(argv[1], "--version")) {
        printf("dpexec %s\n", dpx_version());
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "help") && argc == 2)
        return print_usage();
    if (!strcmp(argv[1], "help") && find_command(argv[2]) >= 0)
        return dispatch(find_command(argv[2]), argc > 3 ? 2 : 1, (char *[]){ "--help", argv[3] });
    if (!strcmp(argv[1], "help")) {
        fprintf(stderr, "dpexec: there is no command %s: 'dpexec help' lists them\n", argv[2]);
        return EXIT_USAGE;
    }
    if (find_command(argv[1]) >= 0)
        return dispatch(find_command(argv[1]), argc - 2, argv + 2);
    if (nearest_command(argv[1])) {
        fprintf(stderr, "dpexec: there is no command %s, nor a file: did you mean %s?\n", argv[1],
                nearest_command(argv[1]));
        return EXIT_USAGE;
    }
    if (!is_word(argv[1]))
        return dispatch(0, argc - 1, argv + 1);
    fprintf(stderr, "dpexec: there is no command %s, nor a file of that name; commands:", argv[1]);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(stderr, " %s%s", commands[i].command->name, i + 1 < N_COMMANDS ? "," : "\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    int code;

    tool_begin("dpexec", argv);
    code = tool_end("dpexec", run(argc, argv));
    if (args_device_failed()) { /* a device that hangs (Runtime.abandon) would block its libraries at exit */
        (void)fflush(NULL);
        _exit(code);
    }
    return code;
}
