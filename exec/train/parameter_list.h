/* The file of --parameters: names one a line, or a .safetensors whose keys count. */
#ifndef DPX_PARAMETER_LIST_H
#define DPX_PARAMETER_LIST_H

#include "passes/model/parameters.h"

/* Names and digests of the numbers, in `arena`; the numbers themselves are not kept. */
Status parameter_list_read(const ParameterList **out, Arena *arena, const char *path) CHECKED;
/* The line without the space around it; NULL: it is empty, or a comment after '#'. */
char *list_line(char *line);

#endif
