/* Random networks with an open batch, in the text form: chains of the shape arithmetic that exporters write around the
 * batch. */
#ifndef DPX_TESTS_RANDOM_NETWORKS_H
#define DPX_TESTS_RANDOM_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

/* What the file of a network says of the batch, once its size is in constants.  Some networks cannot be repaired from
 * less than the second or the third: from a file with an open batch, which may mean the rows that it takes, or from a
 * batch of one. */
typedef enum { FILE_OPEN, FILE_ONE, FILE_SEVERAL } FileBatch;

/* Output "y" of a network that can be repaired from such a file, with input x [batch, length, width], perhaps an input
 * `mask` [batch, length], and perhaps an input `table` [length, width], which all samples share.  The caller frees the
 * text; NULL: no memory. */
char *random_network(uint32_t seed, FileBatch file);

/* The network of part number `part` alone; NULL: there are fewer parts. */
char *part_network(int part, FileBatch file);

#endif
