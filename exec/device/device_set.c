/* Opens and closes the devices of a run with what they share: devices are opened first and closed last. */
#include "exec/device/device_set.h"

#include <math.h>

#include "exec/device/group.h"
#include "exec/world/world.h"
#include "graph/base/machine.h"

/* The cores for the devices of this process: its share of the machine's, without those taken, but no less than one. */
static double cores_of_devices(const DeviceList *list)
{
    const double share = (double)machine_cores() / world_neighbours(list->world);

    return share - list->taken >= 1 ? share - list->taken : fmin(share, 1);
}

Status device_list_equal_teams(DeviceList *list, int asked)
{
    World *w = list->world;
    const double cores = cores_of_devices(list) / list->n;
    const int64_t share = (int64_t)cores;
    int64_t least;

    world_set_purpose(w, "the threads of devices");
    TRY(world_max(w, asked ? -asked : share > 1 ? -share : -1, &least));
    for (int i = 0; i < list->n; i++) {
        list->device[i].threads = (int)-least;
        list->device[i].cores = asked ? asked : cores;
    }
    return ST_OK;
}

Status device_set_open(DeviceSet *s, const DeviceList *list)
{
    int n = list->n * world_size(list->world), threads = 0;

    if (n > MAX_DEVICES)
        return FAIL(E_INVALID, "%d processes of %d devices each, at most %d devices are supported",
                    world_size(list->world), list->n, MAX_DEVICES);
    for (int i = 0; i < list->n; i++) {
        if (*list->device[i].described)
            return FAIL(E_INVALID, "cuda:%d is only described (%s): nothing can run on it, only --dry-run plans for it",
                        list->device[i].index, list->device[i].described);
        threads += list->device[i].threads;
    }
    s->spin = threads * world_neighbours(list->world) <= machine_cores();
    s->world = list->world;
    s->n_local = list->n;
    s->n = n;
    s->first = list->n * world_rank(s->world);
    for (int i = 0; i < list->n; i++)
        TRY(device_open(&s->device[s->first + i], &list->device[i], s->spin));
    s->arenas.n_device = s->n;
    s->arenas.device = s->device;
    return device_runtime(s->device[s->first]) ? gpu_group_create(&s->group, s->device, s->n, s->world) : ST_OK;
}

void device_set_close(DeviceSet *s)
{
    arenas_close(&s->arenas);
    gpu_group_free(s->group);
    for (int i = 0; i < s->n; i++)
        device_close(s->device[i]); /* NULL is legal */
}
