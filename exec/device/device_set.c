/* Opening and closing in an order that each part needs: devices, then what they share; what they share, then the
 * devices. */
#include "exec/device/device_set.h"
#include "exec/device/machine.h"

#include "exec/device/group.h"
#include "exec/world/world.h"

Status device_list_equal_teams(DeviceList *list, int asked)
{
    World *w = list->world;
    const double cores = (double)machine_cores() / (list->n * world_neighbours(w));
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

static Status device_set_check(const DeviceList *list, int of_all)
{
    if (of_all > MAX_DEVICES)
        return FAIL(E_INVALID, "%d processes of %d devices each, at most %d devices are supported",
                    world_size(list->world), list->n, MAX_DEVICES);
    for (int i = 0; i < list->n; i++)
        if (*list->device[i].described)
            return FAIL(E_INVALID,
                        "cuda:%d is only described (%s): a run can be planned for it with --dry-run, not done",
                        list->device[i].index, list->device[i].described);
    return ST_OK;
}

static bool has_core_for_each(const DeviceList *list)
{
    int threads = 0;

    for (int i = 0; i < list->n; i++)
        threads += list->device[i].threads;
    return threads * world_neighbours(list->world) <= machine_cores();
}

Status device_set_open(DeviceSet *s, const DeviceList *list)
{
    int of_all = list->n * world_size(list->world);

    TRY(device_set_check(list, of_all));
    s->spin = has_core_for_each(list);
    s->world = list->world;
    s->n_local = list->n;
    s->n = of_all;
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
