/* RE2 (https://github.com/google/re2/wiki/Syntax), without exceptions that leave and without its log. */
#include "kernels/ref/regex.h"

#include <cstdio>
#include <new>

#include <re2/re2.h>

struct Regex {
    RE2 compiled;
};

namespace
{

RE2::Options silent()
{
    RE2::Options options;

    options.set_log_errors(false);
    return options;
}

} // namespace

Regex *regex_create(const char *pattern, char why[REGEX_WHY])
{
    *why = '\0';
    try {
        Regex *r = new Regex{ RE2(pattern, silent()) };

        if (r->compiled.ok())
            return r;
        std::snprintf(why, REGEX_WHY, "%s", r->compiled.error().c_str());
        delete r;
    } catch (const std::bad_alloc &) {
    }
    return nullptr;
}

void regex_free(Regex *r) { delete r; }

int regex_matches(const Regex *r, const char *text, size_t n)
{
    try {
        return RE2::FullMatch(re2::StringPiece(text, n), r->compiled);
    } catch (const std::bad_alloc &) {
        return -1;
    }
}
