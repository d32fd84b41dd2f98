/* Writes man pages (roff) to standard output. */
#ifndef DPX_TOOLS_MAN_H
#define DPX_TOOLS_MAN_H

#include "include/dpexec.h"

/* page: "dpexec-train"; synopsis: the whole command line. */
void man_head(const char *page, const char *synopsis, const char *summary);
void man_section(const char *title);
void man_subsection(const char *title);
void man_paragraph(const char *text);
void man_term(const char *name, const char *help);
/* One of what an option chooses among. */
void man_choice(const char *form, const char *help);
/* An option; metavar, fallback: may be NULL. */
void man_item(const char *name, const char *metavar, const char *help, const char *fallback);

#endif
