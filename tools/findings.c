/* What is wrong with the flags and files of a command, found before work begins. */
#include "tools/findings.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void findings_add(Findings *f, Status st)
{
    if (!st)
        return;
    problems_add(&f->wrong, "%s", status_message());
    f->invalid |= st != E_IO;
}

void findings_add_file(Findings *f, const char *flag, const char *path)
{
    if (!path || !*path || !access(path, R_OK))
        return;
    findings_add(f, *flag ? FAIL(E_IO, "--%s %s: cannot read: %s", flag, path, strerror(errno))
                          : FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno)));
}

Status findings_fail(Findings *f) { return problems_fail(&f->wrong, f->invalid ? E_INVALID : E_IO, "%s", ""); }
