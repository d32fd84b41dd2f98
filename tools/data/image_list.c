/* Lists of image files with their classes or numbers (see the header). */
#include "tools/data/image_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/arena.h"
#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"
#include "graph/base/mapped.h"
#include "graph/base/numtext.h"
#include "tools/table/csv_reader.h"

enum { MOST_DEPTH = 32, MOST_SHOWN = 10 };

void image_list_free(ImageList *l)
{
    for (int64_t i = 0; i < l->n; i++)
        free(l->path[i]);
    for (int64_t i = 0; i < l->n && l->mask; i++)
        free(l->mask[i]);
    for (int64_t i = 0; i < l->classes && l->class_name; i++)
        free(l->class_name[i]);
    free(l->path);
    free(l->member);
    free(l->mask);
    free(l->mask_member);
    free(l->label);
    free(l->number);
    free(l->class_name);
    *l = (ImageList){ 0 };
}

void image_list_select(ImageList *l, const bool *keep)
{
    int64_t n = 0;

    for (int64_t i = 0; i < l->n; i++) {
        if (!keep[i]) {
            free(l->path[i]);
            if (l->mask)
                free(l->mask[i]);
            continue;
        }
        l->path[n] = l->path[i];
        if (l->member)
            l->member[n] = l->member[i];
        if (l->mask)
            l->mask[n] = l->mask[i];
        if (l->mask_member)
            l->mask_member[n] = l->mask_member[i];
        if (l->label)
            l->label[n] = l->label[i];
        if (l->number)
            memmove(l->number + n * l->columns, l->number + i * l->columns, (size_t)l->columns * sizeof *l->number);
        n++;
    }
    l->n = n;
}

bool image_list_takes(const char *name)
{
    static const char *const suffix[] = { ".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif" };
    const size_t n = strlen(name);

    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        const size_t m = strlen(suffix[i]);

        if (n > m && !ascii_casecmp(name + n - m, suffix[i], m))
            return true;
    }
    return false;
}

/* Adds "folder/name". */
static Status add_path(ImageList *l, const char *folder, const char *name)
{
    const size_t n = strlen(folder) + strlen(name) + 2;
    char **grown = heap_reserve(l->path, sizeof *grown, (size_t)l->n + 1, &l->room);

    if (grown)
        l->path = grown;
    if (!grown || !(grown[l->n] = malloc(n)))
        return FAIL_NOMEM();
    snprintf(grown[l->n++], n, "%s/%s", folder, name);
    return ST_OK;
}

/* ---- classes ---- */

static int compare_texts(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static Status add_class(ImageList *l, size_t *room, const char *name, size_t n)
{
    char **grown = heap_reserve(l->class_name, sizeof *grown, (size_t)l->classes + 1, room);

    if (grown)
        l->class_name = grown;
    if (!grown || !(grown[l->classes] = strndup(name, n)))
        return FAIL_NOMEM();
    l->classes++;
    return ST_OK;
}

/* Takes the known classes, or reads those of a file, one a line; none without both. */
static Status given_classes(ImageList *l, const char *path, const char *const *known, int64_t n)
{
    size_t room = 0;
    Mapped m;
    Status st = ST_OK;

    for (int64_t i = 0; i < n && known; i++)
        TRY(add_class(l, &room, known[i], strlen(known[i])));
    if (known || !path)
        return ST_OK;
    TRY(mapped_open(&m, path));
    for (const char *at = (const char *)m.data, *end = at + m.size; at < end && !st;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line ? line : end) - at);
        const size_t whole = length + 1;

        length -= length && at[length - 1] == '\r';
        if (length && memchr(at, 0, length))
            st = FAIL(E_IO, "%s: expected a text with the name of a class in each line", path);
        else if (length)
            st = add_class(l, &room, at, length);
        at += whole;
    }
    mapped_close(&m);
    return st;
}

/* Finds names of classes: a bisection in `sorted`, which is class_name in the order of bytes. */
typedef struct {
    char **name;
    int64_t *number;
} ClassIndex;

static int64_t class_of(const ImageList *l, const ClassIndex *index, const char *name)
{
    char **at = bsearch(&name, index->name, (size_t)l->classes, sizeof *at, compare_texts);

    return at ? index->number[at - index->name] : -1;
}

static Status index_classes(ClassIndex *out, const ImageList *l)
{
    const size_t n = (size_t)l->classes;

    *out = (ClassIndex){ malloc(n * sizeof *out->name + 1), malloc(n * sizeof *out->number + 1) };
    if (!out->name || !out->number)
        return FAIL_NOMEM();
    if (n)
        memcpy(out->name, l->class_name, n * sizeof *out->name);
    qsort(out->name, n, sizeof *out->name, compare_texts);
    for (size_t i = 0; i < n; i++) {
        char **at = bsearch(&l->class_name[i], out->name, n, sizeof *at, compare_texts);

        if ((at > out->name && !strcmp(at[-1], *at)) || (at + 1 < out->name + n && !strcmp(at[1], *at)))
            return FAIL(E_INVALID, "the class '%s' is listed twice", l->class_name[i]);
        out->number[at - out->name] = (int64_t)i;
    }
    return ST_OK;
}

static void free_index(ClassIndex *index)
{
    free(index->name);
    free(index->number);
}

/* Makes classes of the names that images have, unless they are given, and looks up the number of each image.
 * `where` names the source. */
static Status number_classes(ImageList *l, char *const *name, const char *where)
{
    ClassIndex index = { 0 };
    PROBLEMS(unknown);
    char **sorted = NULL;
    size_t room = 0;
    Status st = ST_OK;

    if (!l->classes && (sorted = malloc((size_t)l->n * sizeof *sorted + 1))) {
        memcpy(sorted, name, (size_t)l->n * sizeof *sorted);
        qsort(sorted, (size_t)l->n, sizeof *sorted, compare_texts);
        for (int64_t i = 0; i < l->n && !st; i++)
            if (!i || strcmp(sorted[i], sorted[i - 1]) != 0)
                st = add_class(l, &room, sorted[i], strlen(sorted[i]));
    } else if (!l->classes) {
        st = FAIL_NOMEM();
    }
    free(sorted);
    if (!st)
        st = index_classes(&index, l);
    if (!st && !(l->label = malloc((size_t)l->n * sizeof *l->label + 1)))
        st = FAIL_NOMEM();
    for (int64_t i = 0; i < l->n && !st; i++)
        if ((l->label[i] = class_of(l, &index, name[i])) < 0 && (!i || strcmp(name[i], name[i - 1]) != 0) &&
            unknown.n < MOST_SHOWN)
            problems_add(&unknown, "'%s'", name[i]);
    free_index(&index);
    return st ? st : problems_fail(&unknown, E_INVALID, "%s: classes that --data or classes= does not have", where);
}

/* ---- folders ---- */

static int keep_name(const struct dirent *d) { return d->d_name[0] != '.'; }
static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Adds the images of a folder and its folders in the order of their names' bytes. */
static Status add_folder(ImageList *l, const char *folder, int depth)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, keep_name, compare_names);
    Status st = ST_OK;

    if (n < 0)
        return FAIL(E_IO, "%s: cannot read the folder: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        struct stat about;

        if (!st && !(st = add_path(l, folder, entry[i]->d_name))) {
            char *path = l->path[l->n - 1];

            if (!stat(path, &about) && S_ISDIR(about.st_mode)) {
                l->n--;
                st = depth < MOST_DEPTH ? add_folder(l, path, depth + 1)
                                        : FAIL(E_IO, "%s: folders in more than %d folders", path, MOST_DEPTH);
                free(path);
            } else if (!image_list_takes(path)) {
                l->n--;
                free(path);
            }
        }
        free(entry[i]);
    }
    free(entry);
    return st;
}

/* The classes of images in folders: the first folder of their path. */
static Status classes_of_folders(ImageList *l, const char *folder)
{
    char **name = calloc((size_t)l->n + 1, sizeof *name);
    Status st = name ? ST_OK : FAIL_NOMEM();
    int64_t loose = 0;

    for (int64_t i = 0; i < l->n && !st; i++) {
        const char *at = l->path[i] + l->root, *end = strchr(at, '/');

        loose += !end;
        if (!(name[i] = strndup(at, end ? (size_t)(end - at) : 0)))
            st = FAIL_NOMEM();
    }
    if (!st && (loose || !l->n))
        st = FAIL(E_INVALID, "%s: expected a folder for each class, as in %s/cat/1.jpg; found %lld images %s", folder,
                  folder, (long long)loose, loose ? "outside of folders: move them, or give list=FILE.csv" : "in it");
    if (!st)
        st = number_classes(l, name, folder);
    for (int64_t i = 0; i < l->n && name; i++)
        free(name[i]);
    free(name);
    return st;
}

/* ---- CSV ---- */

/* The rows of a list: the cells behind the path, `columns` of each. */
typedef struct {
    Arena *arena;
    char **cell;
    size_t n, room;
    Problems wrong;
} ListRows;

/* Adds the row that was read: its path to the list, the other cells to the rows. */
static Status add_row(ImageList *l, ListRows *r, const Csv *c, const char *folder)
{
    const int columns = c->n - 1;
    char **grown;

    if (!columns || (l->n && columns != l->columns)) {
        if (r->wrong.n < MOST_SHOWN)
            problems_add(&r->wrong, "line %lld: expected a path and %d more cells, found %d", (long long)c->row_line,
                         l->n ? l->columns : 1, columns);
        return ST_OK;
    }
    l->columns = columns;
    TRY(add_path(l, folder, c->cell[0]));
    if (!(grown = heap_reserve(r->cell, sizeof *grown, r->n + (size_t)columns, &r->room)))
        return FAIL_NOMEM();
    r->cell = grown;
    for (int i = 0; i < columns; i++)
        if (!(grown[r->n++] = arena_strdup(r->arena, c->cell[1 + i])))
            return FAIL_NOMEM();
    return ST_OK;
}

static Status read_rows(ImageList *l, ListRows *r, Csv *c, const char *folder)
{
    bool more, first = true;

    for (;; first = false) {
        TRY(csv_next(&more, c));
        if (!more)
            break;
        if (!first || image_list_takes(c->cell[0])) /* else a heading */
            TRY(add_row(l, r, c, folder));
    }
    return l->n || r->wrong.n ? ST_OK : FAIL(E_INVALID, "%s: expected rows of a path and a class, found none", c->path);
}

/* Reads the columns behind the path as numbers; false: one is none. */
static Status read_numbers(double **out, bool *numbers, bool *whole, char *const *field, int64_t n)
{
    double *v = malloc((size_t)n * sizeof *v + 1);

    if (!v)
        return FAIL_NOMEM();
    *numbers = *whole = true;
    for (int64_t i = 0; i < n && *numbers; i++) {
        *numbers = text_to_float64(&v[i], field[i], strlen(field[i])) && v[i] - v[i] == 0;
        *whole &= *numbers && v[i] >= 0 && v[i] < 1 << 24 && v[i] == (double)(int64_t)v[i];
    }
    *out = v;
    return ST_OK;
}

/* One column of class names or numbers, or several columns of numbers. */
static Status labels_of_fields(ImageList *l, char *const *field, const char *path)
{
    bool numbers, whole;
    double *v;

    TRY(read_numbers(&v, &numbers, &whole, field, l->n * l->columns));
    if (l->columns > 1 && numbers) {
        l->number = v;
        return ST_OK;
    }
    if (l->columns > 1) {
        free(v);
        return FAIL(E_INVALID, "%s: expected a path and a class, or a path and several numbers; a field is no number",
                    path);
    }
    if (whole && (!l->classes || l->member) && (l->label = malloc((size_t)l->n * sizeof *l->label)))
        for (int64_t i = 0; i < l->n; i++)
            l->label[i] = (int64_t)v[i];
    free(v);
    return l->label ? ST_OK : number_classes(l, field, path);
}

static Status read_list(ImageList *l, const char *folder, const char *path)
{
    ListRows r = { .arena = arena_create() };
    Csv c = { 0 };
    Status st = r.arena ? csv_open(&c, path, ',') : FAIL_NOMEM();

    if (!st && (st = read_rows(l, &r, &c, folder)))
        problems_free(&r.wrong);
    else if (!st && !(st = problems_fail(&r.wrong, E_INVALID, "%s", path)))
        st = labels_of_fields(l, r.cell, path);
    csv_close(&c);
    free(r.cell);
    arena_free(r.arena);
    return st;
}

Status image_list_read(ImageList *out, const char *folder, const char *list, const char *classes,
                       const char *const *known, int64_t n)
{
    size_t length = strlen(folder);
    ImageList l = { 0 };
    char *root;
    Status st;

    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (!(root = strndup(folder, length)))
        return FAIL_NOMEM();
    l.root = length + 1;
    st = given_classes(&l, classes, known, n);
    if (!st && list)
        st = read_list(&l, root, list);
    else if (!st && !(st = add_folder(&l, root, 0)))
        st = classes_of_folders(&l, root);
    free(root);
    if (st) {
        image_list_free(&l);
        return st;
    }
    *out = l;
    return ST_OK;
}

Status image_list_find(ImageList *out, const char *path, const char *classes, const char *const *known, int64_t n)
{
    size_t length = strlen(path);
    ImageList l = { 0 };
    struct stat about;
    char *root;
    Status st;

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (!(root = strndup(path, length)))
        return FAIL_NOMEM();
    st = given_classes(&l, classes, known, n);
    if (!st && !stat(root, &about) && !S_ISDIR(about.st_mode)) {
        if (!(l.path = malloc(sizeof *l.path)) || !(l.path[0] = strdup(root)))
            st = FAIL_NOMEM();
        l.n = !st;
    } else if (!st && !(st = add_folder(&l, root, 0))) {
        l.root = length + 1;
        st = l.n ? ST_OK : FAIL(E_INVALID, "%s: expected images in the folder, found none", root);
    }
    free(root);
    if (st) {
        image_list_free(&l);
        return st;
    }
    *out = l;
    return ST_OK;
}

Status image_list_add_masks(ImageList *l, const char *masks)
{
    const char *star = strchr(masks, '*'), *behind = star ? star + 1 : ".png";
    const size_t before = star ? (size_t)(star - masks) : strlen(masks);

    if (!(l->mask = calloc((size_t)l->n + 1, sizeof *l->mask)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < l->n; i++) {
        const char *name = l->path[i] + l->root;
        const size_t n = (size_t)(strrchr(name, '.') - name), room = before + n + strlen(behind) + 2;

        if (!(l->mask[i] = malloc(room)))
            return FAIL_NOMEM();
        snprintf(l->mask[i], room, "%.*s%s%.*s%s", (int)before, masks, star ? "" : "/", (int)n, name, behind);
    }
    return ST_OK;
}

/* ---- members of archives ---- */

Status image_list_begin(ImageList *out, int64_t n, const char *classes, const char *const *known, int64_t n_known)
{
    ImageList l = { .n = n, .path = calloc((size_t)n + 1, sizeof *l.path) };
    Status st = (l.member = calloc((size_t)n + 1, sizeof *l.member)) && l.path ? ST_OK : FAIL_NOMEM();

    st = st ? st : given_classes(&l, classes, known, n_known);
    if (st) {
        image_list_free(&l);
        return st;
    }
    *out = l;
    return ST_OK;
}

Status image_list_label(ImageList *l, char *const *field, int columns, const char *where)
{
    l->columns = columns;
    TRY(labels_of_fields(l, field, where));
    for (int64_t i = 0; i < l->n && l->label && l->classes; i++)
        if (l->label[i] >= l->classes)
            return FAIL(E_INVALID, "%s: class %lld, but only %lld classes have names", l->path[i],
                        (long long)l->label[i], (long long)l->classes);
    return ST_OK;
}

/* Maps the file, or lends the bytes of the member, unless that is NULL. */
static Status open_file(Mapped *out, const char *path, const ImageMember *m, bool whole)
{
    if (!m)
        return mapped_open(out, path);
    *out = (Mapped){ m->data, m->size };
    if (whole) { /* the archive is read at random, so the kernel reads nothing ahead by itself */
        const size_t lead = (uintptr_t)out->data % (size_t)sysconf(_SC_PAGESIZE);

        (void)!madvise((void *)(uintptr_t)(out->data - lead), out->size + lead, MADV_WILLNEED);
    }
    return ST_OK;
}

Status image_list_open(Mapped *out, const ImageList *l, int64_t i, bool whole)
{
    return open_file(out, l->path[i], l->member ? &l->member[i] : NULL, whole);
}

Status image_list_open_mask(Mapped *out, const ImageList *l, int64_t i, bool whole)
{
    return open_file(out, l->mask[i], l->mask_member ? &l->mask_member[i] : NULL, whole);
}

void image_list_close(Mapped *m, const ImageList *l)
{
    if (!l->member)
        mapped_close(m);
}

void image_list_close_mask(Mapped *m, const ImageList *l)
{
    if (!l->mask_member)
        mapped_close(m);
}

static int64_t file_size(const char *path, const ImageMember *m)
{
    struct stat about;

    if (m)
        return (int64_t)m->size;
    return stat(path, &about) ? -1 : about.st_size;
}

int64_t image_list_size(const ImageList *l, int64_t i)
{
    return file_size(l->path[i], l->member ? &l->member[i] : NULL);
}

int64_t image_list_mask_size(const ImageList *l, int64_t i)
{
    return file_size(l->mask[i], l->mask_member ? &l->mask_member[i] : NULL);
}
