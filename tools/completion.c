/* dpexec completion: prints completions of commands, flags and choices for a shell, from the table that --help shows.
 */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"

static const Flag flags[] = { { NULL, NULL, NULL } };

const Command command_completion = {
    "completion", "bash|zsh|fish", "Prints completions for a shell.", flags, NO_OPTIONS, 1, 1, NULL
};

/* Calls `each` for the flags that --help of the command shows; takes: a value follows. */
static void each_shown(const Command *c, void (*each)(const Command *c, const char *name, bool takes, const char *help))
{
    for (const Flag *f = c->flags; f->name; f++)
        each(c, f->name, f->metavar && *f->metavar != '[', f->help);
    for (int i = 0; i < dpx_option_count(); i++)
        if (args_shows(c, i))
            each(c, dpx_option_at(i).name, dpx_option_at(i).metavar != NULL, dpx_option_at(i).help);
    each(c, "help", false, "print what the command takes");
}

/* ---- bash, and zsh by its bashcompinit ---- */

static void print_word(const Command *c, const char *name, bool takes, const char *help)
{
    (void)c, (void)takes, (void)help;
    printf(" %s%s", strlen(name) > 1 ? "--" : "-", name);
}

/* "    --loss) words='bce mse' ;;": the choices of an option. */
static void print_choices(const char *option)
{
    if (!dpx_choice_at(option, 0).name)
        return;
    printf("    --%s) words='", option);
    for (int i = 0; dpx_choice_at(option, i).name; i++)
        printf("%s%s", i ? " " : "", dpx_choice_at(option, i).name);
    printf("' ;;\n");
}

/* The names of a command's first argument, in place of files. */
static void print_first_arguments(void)
{
    char help[512];

    for (int i = 0; command_at(i); i++) {
        const FirstArgument *first = command_at(i)->first;

        if (!first)
            continue;
        printf(
            "        if [ \"$command\" = %s ] && [ \"$COMP_CWORD\" = 2 ]; then\n            COMPREPLY=($(compgen -W \"",
            command_at(i)->name);
        for (int k = 0; first->at(k, help); k++)
            printf("%s%s", k ? " " : "", first->at(k, help));
        printf("\" -- \"$cur\"))\n            return\n        fi\n");
    }
}

static void print_bash(void)
{
    printf(
        "# Completions of dpexec for bash, as `dpexec completion bash` prints them.\n_dpexec() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=\n"
        "    case $prev in\n");
    for (int i = 0; i < dpx_option_count(); i++)
        print_choices(dpx_option_at(i).name);
    printf("    esac\n    if [ -n \"$words\" ]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "        return\n    fi\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"help");
    for (int i = 0; command_at(i); i++)
        printf(" %s", command_at(i)->name);
    printf("\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n        return\n    fi\n"
           "    case $cur in\n    -*) ;;\n    *)\n");
    print_first_arguments();
    printf("        COMPREPLY=($(compgen -f -- \"$cur\"))\n        return ;;\n    esac\n    case $command in\n");
    for (int i = 1; command_at(i); i++) {
        printf("    %s) words='", command_at(i)->name);
        each_shown(command_at(i), print_word);
        printf("' ;;\n");
    }
    printf("    *) words='");
    each_shown(command_at(0), print_word); /* a model's file in place of a command trains */
    printf("' ;;\n    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
           "complete -o filenames -F _dpexec dpexec\n");
}

/* ---- fish ---- */

/* Prints the text in single quotes, as fish reads it. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('\'');
}

static void print_fish_flag(const Command *c, const char *name, bool takes, const char *help)
{
    printf("complete -c dpexec -n '__fish_seen_subcommand_from %s' -%c %s%s -d ", c->name, strlen(name) > 1 ? 'l' : 's',
           name, takes ? " -r" : "");
    print_quoted(help);
    if (takes && dpx_choice_at(name, 0).name) {
        printf(" -a '");
        for (int i = 0; dpx_choice_at(name, i).name; i++)
            printf("%s%s", i ? " " : "", dpx_choice_at(name, i).name);
        putchar('\'');
    }
    putchar('\n');
}

static void print_fish_first(const Command *c)
{
    char help[512];

    for (int i = 0; c->first && c->first->at(i, help); i++) {
        printf("complete -c dpexec -n '__fish_seen_subcommand_from %s' -a %s -d ", c->name, c->first->at(i, help));
        print_quoted(help);
        putchar('\n');
    }
}

static void print_fish(void)
{
    printf("# Completions of dpexec for fish, as `dpexec completion fish` prints them.\n");
    for (int i = 0; command_at(i); i++) {
        printf("complete -c dpexec -n __fish_use_subcommand -a %s -d ", command_at(i)->name);
        print_quoted(command_at(i)->summary);
        putchar('\n');
        each_shown(command_at(i), print_fish_flag);
        print_fish_first(command_at(i));
    }
}

int run_completion(const Args *a)
{
    const char *shell = a->positional[0];

    if (!strcmp(shell, "fish")) {
        print_fish();
    } else if (!strcmp(shell, "bash")) {
        print_bash();
    } else if (!strcmp(shell, "zsh")) {
        printf("#compdef dpexec\nautoload -U +X bashcompinit && bashcompinit\n");
        print_bash();
    } else {
        return args_failed(a, "dpexec", FAIL(E_INVALID, "completion: expected bash, zsh or fish, found '%s'", shell));
    }
    return EXIT_DONE;
}
