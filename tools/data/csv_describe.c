/* Cells of a row: numbers by their shortest form, categories and texts as they are. */
#include "tools/data/csv_describe.h"

#include <math.h>
#include <stdlib.h>

#include "graph/base/numtext.h"
#include "tools/data/csv_inputs.h"
#include "tools/text/decode.h"

/* The text of a cell; "": it is missing. */
static const char *cell_text(char number[NUMBER_TEXT], const Table *t, int column, int64_t row)
{
    const double v = t->cell[row * (t->n + 1) + 1 + column];
    const Column *col = &t->column[column];

    if (isnan(v))
        return "";
    if (col->kind == COLUMN_CATEGORY)
        return v >= 0 && v < col->n_seen ? col->seen[(int)v]->text : "";
    return text_float64(number, v);
}

static Status describe_text(const Dataset *d, const TextColumn *x, int64_t row, size_t bytes, SampleFact *take,
                            void *user)
{
    const Array *a = dataset_find(d, x->array);
    const Rows at = a->row[row];
    TextBuffer text = { 0 };
    Status st = decode_tokens(&text, x->t, (const uint32_t *)(const void *)a->data + at.from,
                              (size_t)at.n < bytes ? (size_t)at.n : bytes);

    st = st ? st : text_add(&text, "", 1);
    st = st ? st : take(user, x->column, text.text);
    free(text.text);
    return st;
}

Status csv_describe(Dataset *d, int64_t row, size_t bytes, SampleFact *take, void *user)
{
    const TableSource *s = d->maker;
    char number[NUMBER_TEXT];

    for (int i = 0; i < s->t->n; i++)
        if (s->t->column[i].kind == COLUMN_NUMERIC || s->t->column[i].kind == COLUMN_CATEGORY)
            TRY(take(user, s->t->column[i].name, cell_text(number, s->t, i, row)));
    return s->text.column ? describe_text(d, &s->text, row, bytes, take, user) : ST_OK;
}
