/* A model of a few bytes can ask for any amount: shapes are numbers, and constants are made of them.  So what is planned is charged. */
#include "exec/plan_budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/device.h"
#include "graph/base/arena.h"

static uint64_t read_limit(const char *path, uint64_t otherwise)
{
    FILE *f = fopen(path, "r");
    uint64_t limit;
    bool found = f && fscanf(f, "%" SCNu64, &limit) == 1;      /* "max" is no number */

    if (f)
        fclose(f);
    return found && limit < otherwise ? limit : otherwise;
}

/* The least limit of the group and those above it; with version 1 of cgroups that of the group at the root of what is seen. */
static uint64_t group_memory(uint64_t least)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[1024], path[1200], *slash;

    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::/", 4))
            continue;
        line[strcspn(line, "\n")] = '\0';
        for (char *group = line + 3; (slash = strrchr(group, '/')); *slash = '\0') {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
            least = read_limit(path, least);
        }
    }
    if (f)
        fclose(f);
    least = read_limit("/sys/fs/cgroup/memory.max", least);
    return read_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes", least);
}

MemoryBudget *plan_budget(int64_t bytes)
{
    if (bytes > 0)
        return memory_budget_create((size_t)bytes, "--plan-memory");
    return memory_budget_create((size_t)(group_memory(cpu_memory()) / 2), "--plan-memory (half of the memory there is, unless given)");
}

Status plan_copy(Graph **out, const Graph *model, int64_t bytes)
{
    MemoryBudget *b = plan_budget(bytes);
    Status st = b ? graph_clone_within(out, model, b) : FAIL_NOMEM();

    st = memory_budget_explain(b, st);
    memory_budget_free(b);         /* the graph holds it */
    return st;
}

Status plan_explain(const Graph *g, Status st) { return memory_budget_explain(arena_budget(g->arena), st); }
