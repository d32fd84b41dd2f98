/* Arrays of a .npz archive that lies in memory, such as a member of a tar archive. */
#ifndef DPX_TOOLS_NPZ_MEMBER_H
#define DPX_TOOLS_NPZ_MEMBER_H

#include "graph/base/mapped.h"

/* Receives the name of an array, without ".npy". */
typedef Status NpzName(void *user, const char *name);

/* Gives the names of all arrays in the archive's order.  E_IO names `label`: it is no .npz archive. */
Status npz_member_names(const Mapped *npz, const char *label, NpzName *take, void *user) CHECKED;
/* Finds the bytes of an array's .npy file in the archive.  E_IO: there is no such array, or it is compressed. */
Status npz_member_find(Mapped *out, const Mapped *npz, const char *name, const char *label) CHECKED;

#endif
