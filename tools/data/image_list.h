/* Lists of image files with their classes or numbers: from folders, one for each class, or from a CSV file. */
#ifndef DPX_TOOLS_IMAGE_LIST_H
#define DPX_TOOLS_IMAGE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "graph/base/mapped.h"

/* A file that lies in an archive. */
typedef struct {
    const uint8_t *data; /* lent */
    size_t size;
    int64_t sample; /* the archive's number of it */
} ImageMember;

typedef struct {
    char **path;              /* [n] of members, the archive's path and the member's name in it */
    ImageMember *member;      /* [n] where the files lie in archives; NULL: they are files of their own */
    char **mask;              /* [n] the file of each image's mask, which may be missing; NULL: there are no masks */
    ImageMember *mask_member; /* [n] where the masks lie in archives; NULL: they are files of their own */
    size_t room;
    int64_t n;
    size_t root;       /* length of the folder's name, with its slash, that paths begin with */
    int64_t *label;    /* [n] the class; NULL: there are numbers, or no labels */
    double *number;    /* [n][columns] of a CSV file with several columns behind the path; NULL: there are none */
    int columns;       /* numbers of an image */
    char **class_name; /* [classes] in their order; NULL: labels are numbers of classes */
    int64_t classes;
} ImageList;

/* Lists the files *.jpg, *.jpeg and *.png below `folder`, whose folders are the classes; with `list`, the files that a
 * CSV file names: their paths below `folder`, then one class name or class number, or several numbers.  A first row
 * that names no image is a heading.  Files in other image formats are listed too, so that the check of headers names
 * them.
 *
 * Classes have the order of known[0..n), or of the lines of the file `classes`; without both (known NULL, classes NULL)
 * names are sorted by their bytes.  E_IO, E_INVALID: an unreadable folder or file; the rows and classes that are wrong.
 */
Status image_list_read(ImageList *out, const char *folder, const char *list, const char *classes,
                       const char *const *known, int64_t n) CHECKED;
/* Lists an image file, or all images below a folder, without labels.  Classes are those of known[0..n), or those that
 * the file `classes` names; NULL: none. */
Status image_list_find(ImageList *out, const char *path, const char *classes, const char *const *known,
                       int64_t n) CHECKED;
/* Names the mask of each image: below the folder `masks` the PNG file with the image's name; or `masks` with the name
 * in place of its `*`. */
Status image_list_add_masks(ImageList *l, const char *masks) CHECKED;
/* Begins a list of n members of archives, whose paths the caller adds, with the classes of `known`, or those that the
 * file `classes` names. */
Status image_list_begin(ImageList *out, int64_t n, const char *classes, const char *const *known,
                        int64_t n_known) CHECKED;
/* Makes labels of texts, field[n][columns]: of one column class names, of several numbers.  Whole numbers in one column
 * are classes, also where these have names.  `where` names the source. */
Status image_list_label(ImageList *l, char *const *field, int columns, const char *where) CHECKED;
/* Map a file, or lend the bytes of a member.  `whole`: all of it will be read. */
Status image_list_open(Mapped *out, const ImageList *l, int64_t i, bool whole) CHECKED;
Status image_list_open_mask(Mapped *out, const ImageList *l, int64_t i, bool whole) CHECKED;
void image_list_close(Mapped *m, const ImageList *l);
void image_list_close_mask(Mapped *m, const ImageList *l);
int64_t image_list_size(const ImageList *l, int64_t i); /* of the file in bytes; -1: it cannot be read */
int64_t image_list_mask_size(const ImageList *l, int64_t i);
/* Does the name end as those of image files do? */
bool image_list_takes(const char *name);
void image_list_free(ImageList *l);
/* Keeps the images with keep[i]. */
void image_list_select(ImageList *l, const bool *keep);

#endif
