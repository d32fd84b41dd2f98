/* Groups of parameters: the first pattern that matches a name decides. */
#include "passes/update_groups.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "passes/options/update.h"

int update_group_of(const BuildOptions *opt, const char *name)
{
    const UpdateOptions *updates = update_options(opt);

    for (int k = 0; k < updates->n_group; k++)
        if (!fnmatch(updates->group[k].pattern, name, 0))
            return k + 1;
    return 0;
}

int update_group_loss(const BuildOptions *opt, int k)
{
    const UpdateOptions *updates = update_options(opt);
    const char *loss = k ? updates->group[k - 1].loss : NULL;
    int first = 1;

    while (loss && (!updates->group[first - 1].loss || strcmp(updates->group[first - 1].loss, loss)))
        first++;
    return loss ? first : 0;
}

int update_group_player(const BuildOptions *opt, int k)
{
    return update_options(opt)->turns ? update_group_loss(opt, k) : 0;
}

int update_group_norm(const BuildOptions *opt, int k)
{
    const UpdateOptions *updates = update_options(opt);
    const int player = update_group_player(opt, k);
    int first = player;

    if (k && updates->group[k - 1].clip)
        return k;
    while (first && (updates->group[first - 1].clip || update_group_player(opt, first) != player))
        first++;
    return first;
}

const char *group_name(char text[GROUP_NAME], const char *name, int k)
{
    snprintf(text, GROUP_NAME, k ? "%s.%d" : "%s", name, k);
    return text;
}

bool is_group_name(const char *text, const char *name)
{
    const size_t n = strlen(name);

    return !strncmp(text, name, n) && (!text[n] || text[n] == '.');
}

static int same_beginning(const char *a, const char *b)
{
    int n = 0;

    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

/* Adds the problem that the pattern matches nothing, with up to four names that share its longest beginning. */
static void add_no_match(Problems *wrong, const char *pattern, const char *const *name, int n)
{
    enum { MOST = 4 };
    int best = 0, listed = 0;
    char near[MOST * 80 + 8] = "";
    size_t used = 0;

    for (int i = 0; i < n; i++)
        best = same_beginning(pattern, name[i]) > best ? same_beginning(pattern, name[i]) : best;
    for (int i = 0; i < n && listed < MOST; i++)
        if (same_beginning(pattern, name[i]) == best) {
            used += (size_t)snprintf(near + used, sizeof near - used, "%s'%.70s'", listed++ ? ", " : "", name[i]);
        }
    problems_add(wrong, "--group '%s' matches no parameter that is trained (near it: %s)", pattern, near);
}

Status update_groups_check(const BuildOptions *opt, const char *const *name, int n)
{
    const UpdateOptions *updates = update_options(opt);
    PROBLEMS(wrong);

    for (int k = 0; k < updates->n_group; k++) {
        const char *taken = NULL;
        bool has = false;

        for (int i = 0; i < n; i++) {
            has = has || update_group_of(opt, name[i]) == k + 1;
            if (!fnmatch(updates->group[k].pattern, name[i], 0))
                taken = name[i];
        }
        if (!has && taken)
            problems_add(&wrong, "--group '%s' matches only parameters of groups before it, such as '%s'",
                         updates->group[k].pattern, taken);
        else if (!has)
            add_no_match(&wrong, updates->group[k].pattern, name, n);
    }
    return problems_fail(&wrong, E_INVALID, "parameter groups");
}
