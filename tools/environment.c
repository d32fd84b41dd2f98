/* Asks the system what it is. */
#include "tools/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "graph/base/jsontext.h"
#include "graph/base/numtext.h"

/* The processor's name, as Linux has it on x86. */
static void name_processor(char out[256], const char *machine)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char *line = NULL;
    size_t room = 0;
    bool found = false;

    snprintf(out, 256, "%s", machine);
    while (f && !found && getline(&line, &room, f) > 0) {
        const char *colon = strchr(line, ':');

        found = colon && !strncmp(line, "model name", strlen("model name"));
        if (found)
            snprintf(out, 256, "%.*s", (int)strcspn(colon + 1, "\n") - 1, colon + 2);
    }
    free(line);
    if (f)
        fclose(f);
}

json_t *environment_json(const char *isa)
{
    const double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const time_t now = time(NULL);
    struct utsname u = { .sysname = "" };
    struct tm local;
    char started[64], system[sizeof u.sysname + sizeof u.release + 2], processor[256], memory[32];

    uname(&u);
    if (!localtime_r(&now, &local) || !strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S %z", &local))
        *started = '\0';
    snprintf(system, sizeof system, "%s %s", u.sysname, u.release);
    name_processor(processor, u.machine);
    text_format(memory, sizeof memory, "%.1f GiB", bytes / (1 << 30));
    return json_pack("{s:s, s:o, s:s, s:o, s:I, s:s, s:s}", "started", started, "host", json_of_text(u.nodename),
                     "system", system, "processor", json_of_text(processor), "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory", memory, "isa", isa);
}
