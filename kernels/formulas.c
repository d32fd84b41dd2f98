/* The attributes that formulas read. */
#include "kernels/formulas.h"

#include <string.h>

void formula_numbers(double number[FORMULA_ATTRS], const FormulaAttr attr[FORMULA_ATTRS], const Node *n)
{
    for (int i = 0; i < FORMULA_ATTRS; i++) {
        const char *name = attr[i].name;

        if (!name)
            number[i] = 0;
        else if (attr[i].word)
            number[i] = !strcmp(node_string(n, name), attr[i].word);
        else
            number[i] = node_attr(n, name)->type == A_INT ? node_int(n, name) != 0 : node_float(n, name);
    }
}
