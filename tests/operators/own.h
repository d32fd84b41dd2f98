/* What tests of an embedder's operators begin with: options as text, a trainer of a model of this folder, a port. */
#ifndef DPX_TESTS_OPERATORS_OWN_H
#define DPX_TESTS_OPERATORS_OWN_H

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "include/dpexec.h"
#include "tests/harness/test.h"

#define CHECK_DPX(e) CHECK_OK((Status)(e))
#define CHECK_DPX_FAILS(code, text, e) CHECK_FAILS((Status)(code), (text), (Status)(e))
#define FOLDER SOURCE_DIR "/tests/operators/"

/* Options as "name=value", NULL ends them. */
static inline dpx_options *own_options(const char *const *settings, dpx_operators *set)
{
    dpx_options *o = dpx_options_create();
    char name[64];

    for (int i = 0; settings[i]; i++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(settings[i], "="), settings[i]);
        CHECK_DPX(dpx_options_set(o, name, strchr(settings[i], '=') + 1));
    }
    if (set)
        CHECK_DPX(dpx_options_set_operators(o, set));
    return o;
}

/* Who is told of copies as a trainer is made. */
typedef struct {
    const char *pattern;
    dpx_replicate_fn *replicate;
    void (*release)(void *context);
    void *user;
} OwnReplication;

/* Sets are let go as soon as the model is there: it holds them.  `how` may be NULL. */
static inline dpx_status own_trainer_telling(dpx_trainer **t, const char *model, const char *const *settings,
                                             dpx_operators *set, const OwnReplication *how)
{
    dpx_options *o = own_options(settings, set);
    dpx_model *m = NULL;
    char path[512], pattern[64];
    dpx_status st;

    snprintf(path, sizeof path, "%s%s.onnx", FOLDER, model);
    st = dpx_model_load_within(&m, path, o);
    if (!st && how) {
        snprintf(pattern, sizeof pattern, "%s", how->pattern ? how->pattern : "");
        st = dpx_options_on_replicate(o, how->pattern ? pattern : NULL, how->replicate, how->release, how->user);
        memset(pattern, 'x', sizeof pattern); /* it was copied */
    }
    if (!st)
        st = dpx_trainer_create(t, m, o, NULL, NULL);
    dpx_options_free(o);
    dpx_model_free(m);
    dpx_operators_free(set);
    return st;
}

static inline dpx_status own_trainer(dpx_trainer **t, const char *model, const char *const *settings,
                                     dpx_operators *set)
{
    return own_trainer_telling(t, model, settings, set, NULL);
}

/* For a world of threads. */
static inline int own_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CU_ASSERT(!bind(fd, (struct sockaddr *)&at, size) && !getsockname(fd, (struct sockaddr *)&at, &size));
    close(fd);
    return ntohs(at.sin_port);
}

#endif
