/* Collectives between CPU devices: every device calls collective_run at the same place of its program. */
#ifndef DPX_COLLECTIVE_H
#define DPX_COLLECTIVE_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/run/collective_span.h"
#include "kernels/backend.h"

/* Shared by the collectives of a program: where threads sleep, and the flag that releases them all when a device fails.
 */
typedef struct {
    atomic_bool cancelled;
    atomic_int sleepers;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool spin;
} Rendezvous;

void rendezvous_init(Rendezvous *r, bool spin);
void rendezvous_destroy(Rendezvous *r);
/* Releases every thread that waits in a collective, now or later, until the next reset. */
void rendezvous_cancel(Rendezvous *r);

typedef struct Collective Collective;

/* At least one device of this process takes part: those of site->member, or all when it spans processes. */
Status collective_create(Collective **out, Rendezvous *r, const Graph *g, const Node *n, const Site *site) CHECKED;
void collective_free(Collective *c); /* NULL is legal */
/* Memory of SpanBytes.staging, which all collectives of a program may share. */
void collective_set_staging(Collective *c, void *staging);
/* Before a step, while no thread is inside: forgets an interrupted meeting. */
void collective_reset(Collective *c);
/* Does this device of the process take part? */
bool collective_has(const Collective *c, int device);
/* Called by every member's thread with the tensors of all devices (data NULL where another process holds them). Returns
 * when all of its own outputs are written and nobody reads its inputs any more.  E_INTERRUPTED when the rendezvous was
 * cancelled. */
Status collective_run(Collective *c, int device, const Tensor *in, Tensor *out) CHECKED;

#endif
