/* Reads the sources of feeds: with which flags, for which inputs, and with what training fitted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/jsontext.h"
#include "graph/base/machine.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/data/shard_paths.h"
#include "tools/feed/feed.h"
#include "tools/feed/model_metadata.h"
#include "tools/image/image_augment.h"

#define FITTED_FILE "data.json"
enum { FITTED_FORM = 1, MOST_FITTED = 256 << 20 /* bytes */ };

/* ---- facts that are fitted ---- */

static bool is_training(const Args *a) { return !strcmp(a->command->name, "train"); }

Status feed_read_fitted(json_t **out, const char *folder, bool guessed)
{
    char path[4096];
    json_error_t why = { 0 };
    json_t *j, *fitted;

    if (snprintf(path, sizeof path, "%s/" FITTED_FILE, folder) >= (int)sizeof path || access(path, F_OK))
        return (*out = json_object()) ? ST_OK : FAIL_NOMEM();
    j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    fitted = json_object_get(j, "fitted");
    if (json_integer_value(json_object_get(j, "form")) == FITTED_FORM && json_is_object(fitted))
        *out = json_incref(fitted);
    else if (guessed)
        *out = json_object();
    else
        *out = NULL;
    json_decref(j);
    return *out ? ST_OK
                : FAIL(E_IO, "%s: expected the preprocessing that a run fitted on its data: %s", path,
                       *why.text ? why.text : "another JSON file");
}

/* The class weights that --class-weights balanced asks for are in data.json only: no prediction needs them, so a
 * model's file has none.  `beside`: the facts of data.json, which are lent. */
static Status take_class_weights(json_t *facts, const Args *a, json_t *beside)
{
    const char *given = args_value(a, "class-weights");
    json_t *weights = json_object_get(beside, "class weights");

    return given && !strcmp(given, "balanced") && weights && json_object_set(facts, "class weights", weights)
               ? FAIL_NOMEM()
               : ST_OK;
}

/* Finds the facts: those of the run that --resume names, or for other commands than train those in the model's file
 * (`m` NULL: it is not read yet), else those beside it. */
static Status load_fitted(json_t **out, const Args *a, const dpx_model *m)
{
    const int at = strcmp(a->command->name, "data") ? 0 : 1; /* of the model; dpexec data has its source first */
    const bool any = a->n_positional > at;
    const char *model = any ? a->positional[at] : "", *slash = strrchr(model, '/');
    json_t *facts = NULL, *beside;
    char folder[4096] = ".";

    if (args_has(a, "resume"))
        return feed_read_fitted(out, args_value(a, "resume"), false);
    if (is_training(a) || !any)
        return (*out = json_object()) ? ST_OK : FAIL_NOMEM();
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - model > 4000 ? 4000 : slash - model + 1), model);
    TRY(feed_read_fitted(&beside, folder, true));
    Status st = m ? metadata_fitted(&facts, m, model) : ST_OK;
    if (!st && !facts && m && metadata_is_joined(m)) /* what lies beside it is applied in the file already */
        st = (facts = json_object()) ? ST_OK : FAIL_NOMEM();
    if (!st && !facts)
        facts = json_incref(beside);
    else if (!st)
        st = take_class_weights(facts, a, beside);
    json_decref(beside);
    if (st)
        json_decref(facts);
    else
        *out = facts;
    return st;
}

Status feed_load_fitted(Feed *f, const Args *a, const dpx_model *m)
{
    return f->fitted ? ST_OK : load_fitted(&f->fitted, a, m);
}

Status feed_write_fitted(const Feed *f, const char *folder)
{
    char path[4096], *text;
    json_t *j;
    OutFile *file;

    if (f->data->source.format && f->data->source.format->write)
        TRY(f->data->source.format->write(f->data, folder));
    if (!json_object_size(f->fitted))
        return ST_OK;
    j = json_pack("{s:i, s:O}", "form", FITTED_FORM, "fitted", f->fitted);
    text = j ? json_text(j, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(j);
    if (!text)
        return FAIL_NOMEM();
    snprintf(path, sizeof path, "%s/" FITTED_FILE, folder);
    Status st = outfile_open(&file, path);
    if (!st) {
        fprintf(outfile_stream(file), "%s\n", text);
        st = outfile_close(file, ST_OK);
    }
    free(text);
    return st;
}

Status feed_fitted_digest(const Feed *f, char digest[DIGEST_TEXT])
{
    char *text = json_object_size(f->fitted) ? json_text(f->fitted, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    *digest = '\0';
    if (!text)
        return json_object_size(f->fitted) ? FAIL_NOMEM() : ST_OK;
    digest_bytes(digest, text, strlen(text));
    free(text);
    return ST_OK;
}

/* ---- --mean and --std ---- */

/* Reads "0.5", "0.5,0.4,0.3" or "imagenet"; *n numbers. */
static Status read_list(double out[MAX_CHANNELS], int *n, const char *flag, const char *text, const double imagenet[3])
{
    const char *end;

    *n = 0;
    if (!strcmp(text, "imagenet")) {
        memcpy(out, imagenet, 3 * sizeof *out);
        *n = 3;
        return ST_OK;
    }
    for (const char *at = text;; at = end + 1) {
        end = at + strcspn(at, ",");
        if (*n == MAX_CHANNELS || !text_to_float64(&out[*n], at, (size_t)(end - at)) || out[*n] - out[*n] != 0)
            return FAIL(
                E_INVALID,
                "--%s: expected a number, a list of up to %d with one for each channel, or imagenet, found '%s'", flag,
                MAX_CHANNELS, text);
        ++*n;
        if (!*end)
            return ST_OK;
    }
}

/* Stores the numbers in the facts, or takes those that are stored. */
static Status keep_normalisation(Normalisation *n, bool given, json_t *fitted)
{
    json_t *kept = json_object_get(fitted, "normalisation"), *mean = json_object_get(kept, "mean"),
           *std = json_object_get(kept, "std");
    bool good = true;

    if (given) {
        kept = json_object();
        mean = json_array();
        std = json_array();
        for (int i = 0; i < n->channels; i++)
            good &= !json_array_append_new(mean, json_real(n->mean[i])) &&
                    !json_array_append_new(std, json_real(n->std[i]));
        good &= !json_object_set_new(kept, "mean", mean);
        good &= !json_object_set_new(kept, "std", std);
        good &= !json_object_set_new(fitted, "normalisation", kept);
        return good ? ST_OK : FAIL_NOMEM();
    }
    if (!kept)
        return ST_OK;
    n->channels = (int)json_array_size(mean);
    if (n->channels < 1 || n->channels > MAX_CHANNELS || json_array_size(std) != json_array_size(mean))
        return FAIL(E_IO, FITTED_FILE ": normalisation: expected mean and std of 1 to %d channels", MAX_CHANNELS);
    for (int i = 0; i < n->channels; i++) {
        n->mean[i] = json_number_value(json_array_get(mean, (size_t)i));
        n->std[i] = json_number_value(json_array_get(std, (size_t)i));
        if (n->std[i] == 0)
            return FAIL(E_IO, FITTED_FILE ": normalisation: std is 0 in channel %d", i);
    }
    return ST_OK;
}

static Status read_normalisation(Normalisation *out, const Args *a, const char *flag, const Source *s, json_t *fitted)
{
    static const double means[] = { 0.485, 0.456, 0.406 }, stds[] = { 0.229, 0.224, 0.225 };
    const char *mean = args_value(a, "mean"), *std = args_value(a, "std"), *augment = args_value(a, "augment");
    Normalisation n = { .channels = 1, .scale = 1, .std = { 1 } };
    int n_mean = 1, n_std = 1;

    if (augment && augment_of_images(augment) && !strcmp(flag, "data") && !s->format->augmented)
        return FAIL(E_INVALID,
                    "--augment is for images:DIR and tar:SHARDS: --%s %s holds arrays, which are taken as they are",
                    flag, s->text);
    if ((mean || std) && !s->format->scaled)
        return FAIL(E_INVALID, "--mean and --std are for images: --%s %s holds arrays, which are taken as they are",
                    flag, s->text);
    if (mean && !strcmp(mean, "imagenet"))
        std = std ? std : mean;
    if (mean)
        TRY(read_list(n.mean, &n_mean, "mean", mean, means));
    if (std)
        TRY(read_list(n.std, &n_std, "std", std, stds));
    if (n_mean > 1 && n_std > 1 && n_mean != n_std)
        return FAIL(E_INVALID, "--mean has %d numbers, --std has %d", n_mean, n_std);
    n.channels = n_mean > n_std ? n_mean : n_std;
    for (int i = 0; i < n.channels; i++) {
        n.mean[i] = n.mean[i < n_mean ? i : 0];
        n.std[i] = n.std[i < n_std ? i : 0];
        if (n.std[i] == 0)
            return FAIL(E_INVALID, "--std: expected numbers other than 0");
    }
    if (s->format->scaled)
        TRY(keep_normalisation(&n, mean || std, fitted));
    *out = n;
    return ST_OK;
}

void feed_check_channels(const Feed *f, Problems *wrong)
{
    for (int i = 0; i < f->n; i++) {
        const Array *a = f->field[i].array;

        if (a->norm.channels > 1 && (a->rank < 3 || a->dim[1] != a->norm.channels))
            problems_add(wrong, "--mean and --std have %d numbers, but the images of '%s' have %lld channel%s",
                         a->norm.channels, f->field[i].name, (long long)(a->rank > 3 ? a->dim[1] : 1),
                         a->rank > 3 && a->dim[1] != 1 ? "s" : "");
    }
}

/* ---- sources ---- */

/* What a context points to. */
typedef struct {
    dpx_info input[MAX_FIELDS], output;
    const char *mapped[MAX_FIELDS];
    bool extent[MAX_FIELDS];
} ContextInputs;

/* The array that --map names for an input; NULL: none. */
static const char *mapped_array(const Args *a, const char *input)
{
    const size_t n = strlen(input);
    const char *text;

    for (int i = 0; (text = args_nth(a, "map", i)); i++)
        if (!strncmp(text, input, n) && text[n] == '=')
            return text + n + 1;
    return NULL;
}

/* The output that the loss reads, and the class that it leaves out. */
static void find_output(SourceContext *c, dpx_info *output, const Args *a, const dpx_model *model)
{
    const char *logits = dpx_options_get(a->options, "logits"), *ignored = dpx_options_get(a->options, "ignore-index");

    if (!text_to_int64(&c->ignored, ignored))
        c->ignored = -1;
    for (int i = 0; model && i < dpx_model_count(model, DPX_OUTPUT) && !c->output; i++)
        if (!dpx_model_info(model, DPX_OUTPUT, i, output) && (!*logits || !strcmp(output->name, logits)))
            c->output = output;
}

/* The cores of the machine that are this process's share. */
static int own_cores(const dpx_world *world) { return machine_cores() / dpx_world_neighbours(world); }

/* Describes the feed to a format. */
static Status make_context(SourceContext *out, Feed *f, const Args *a, const char *flag, const Source *s,
                           const dpx_model *model, ContextInputs *in)
{
    const int cores = own_cores(f->world);
    int64_t threads;

    TRY(args_int(&threads, a, "workers", cores > 1 ? cores : 1, 1, 256));
    *out = (SourceContext){ .input = in->input,
                            .mapped = in->mapped,
                            .extent = in->extent,
                            .training = is_training(a) && !strcmp(flag, "data"),
                            .augment = args_value(a, "augment"),
                            .group = strcmp(flag, "data") ? NULL : feed_split_group(a),
                            .predicts = model && dpx_target(a->options) == DPX_TARGET_NONE &&
                                        (!strcmp(a->command->name, "run") || !strcmp(a->command->name, "eval")),
                            .threads = (int)threads,
                            .skip_broken = args_has(a, "skip-broken"),
                            .target = dpx_target(a->options),
                            .scores = model ? feed_scores(&(Feed){ .model = model }, a, NULL) : 0,
                            .block = model ? metadata_block(model) : 0,
                            .joined = model && metadata_is_joined(model),
                            .fitted = f->fitted };
    for (int i = 0; model && i < dpx_model_count(model, DPX_INPUT) && out->inputs < MAX_FIELDS; i++)
        out->inputs += !dpx_model_info(model, DPX_INPUT, i, &in->input[out->inputs]);
    for (int i = 0; i < out->inputs; i++) {
        in->mapped[i] = mapped_array(a, in->input[i].name);
        in->extent[i] = feed_names_extent(a, in->input[i].name);
    }
    find_output(out, &in->output, a, model);
    return read_normalisation(&out->norm, a, flag, s, f->fitted);
}

const Array *feed_array(const Feed *f, const Args *a, const char *input)
{
    const char *mapped = mapped_array(a, input);

    return dataset_find(f->data, mapped ? mapped : input);
}

/* Adds what is wrong with --map INPUT=ARRAY. */
void feed_check_map(const Feed *f, const Args *a, Problems *wrong)
{
    const char *text;
    dpx_info in;

    for (int i = 0; (text = args_nth(a, "map", i)); i++) {
        const size_t n = strcspn(text, "=");
        char input[512];

        snprintf(input, sizeof input, "%.*s", (int)n, text);
        if (!n || !text[n] || !text[n + 1])
            problems_add(wrong, "--map: expected INPUT=ARRAY, found '%s'", text);
        else if (!feed_input(&in, f->model, input))
            problems_add(wrong, "--map %s: the model has no input '%s'", text, input);
        else if (!dataset_find(f->data, text + n + 1))
            problems_add(wrong, "--map %s: the data has no array '%s'", text, text + n + 1);
        for (int k = 0; k < i && text[n]; k++)
            if (!strncmp(args_nth(a, "map", k), text, n + 1))
                problems_add(wrong, "--map: input '%s' is given twice", input);
    }
}

static Status check_path(const char *path)
{
    return access(path, F_OK) ? FAIL(E_IO, "%s: cannot open: %s", path, strerror(errno)) : ST_OK;
}

static Status check_shards(const char *pattern)
{
    ShardPaths shards = { 0 };
    Status st = shard_paths_find(&shards, pattern);

    for (size_t i = 0; !st && i < shards.n; i++)
        st = check_path(shards.path[i]);
    shard_paths_free(&shards);
    return st;
}

/* E_IO when one of the files that the source names does not exist. */
static Status check_paths(const Source *s)
{
    const bool several = strchr(s->format->form, ',') && access(s->path, F_OK); /* idx:IMAGES,LABELS */
    const char *end = s->path;
    Status st = s->format->sharded ? check_shards(s->path) : ST_OK;

    for (const char *at = s->path; !s->format->sharded && !st && *s->path && (at == s->path || *end); at = end + 1) {
        char *path;

        end = several ? at + strcspn(at, ",") : at + strlen(at);
        if (!(path = strndup(at, (size_t)(end - at))))
            return FAIL_NOMEM();
        st = check_path(path);
        free(path);
    }
    for (const DataOption *o = s->format->options; o && o->name && !st; o++)
        if (!strncmp(o->metavar, "FILE", strlen("FILE")) && source_value(s, o->name) &&
            access(source_value(s, o->name), R_OK))
            st = FAIL(E_IO, "%s: %s %s: cannot open: %s", s->text, o->name, source_value(s, o->name), strerror(errno));
    return st;
}

Status feed_check_source(const Args *a, const char *flag)
{
    const char *text = args_value(a, flag);
    char forms[DATA_FORMS];
    Normalisation unused;
    json_t *fitted;
    Source s;
    Status st;

    if (!text)
        return FAIL(E_INVALID, "--%s is missing: %s", flag, data_forms(forms));
    TRY(source_parse(&s, text));
    fitted = json_object();
    st = fitted ? read_normalisation(&unused, a, flag, &s, fitted) : FAIL_NOMEM();
    json_decref(fitted);
    if (!st)
        st = check_paths(&s);
    source_free(&s);
    return st;
}

Status feed_read(Feed *f, const Args *a, const char *flag, const dpx_model *model)
{
    const char *text = args_value(a, flag);
    char forms[DATA_FORMS];

    if (f->data)
        return ST_OK;
    return text ? feed_read_source(f, a, flag, text, model)
                : FAIL(E_INVALID, "--%s is missing: %s", flag, data_forms(forms));
}

Status feed_read_source(Feed *f, const Args *a, const char *flag, const char *text, const dpx_model *model)
{
    ContextInputs inputs;
    SourceContext c;
    Source s;
    Status st;

    TRY(source_parse(&s, text));
    st = feed_load_fitted(f, a, model);
    if (!st)
        st = make_context(&c, f, a, flag, &s, model, &inputs);
    source_free(&s);
    return st ? st : dataset_read(&f->data, text, &c);
}

/* Compares the rows that the processes read, before one of them is fitted for all. */
static Status agree_on_rows(const Feed *f, const char *flag)
{
    char name[64];

    for (const DataFact *fact = f->data->fact; fact < f->data->fact + f->data->facts; fact++) {
        snprintf(name, sizeof name, "--%s %s", flag, fact->name);
        TRY((Status)dpx_world_note(f->world, name, fact->text));
    }
    return (Status)dpx_world_agree(f->world);
}

/* Gives the facts of rank 0 to all processes. */
static Status share_fitted(Feed *f)
{
    const bool first = !dpx_world_rank(f->world);
    char *text = first ? json_text(f->fitted, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    int64_t size = text ? (int64_t)strlen(text) : 0;
    json_error_t why;
    Status st = first && !text ? FAIL_NOMEM() : (Status)dpx_world_share(f->world, 0, &size, sizeof size);

    if (!st && (size < 0 || size > MOST_FITTED))
        st = FAIL(E_INVALID, "rank 0 fitted %lld bytes, expected at most %d", (long long)size, MOST_FITTED);
    if (!st && !first && !(text = malloc((size_t)size + 1)))
        st = FAIL_NOMEM();
    st = st ? st : (Status)dpx_world_share(f->world, 0, text, (size_t)size);
    if (!st && !first) {
        json_decref(f->fitted);
        f->fitted = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, &why);
        st = f->fitted ? ST_OK : FAIL(E_IO, "the preprocessing that rank 0 fitted is not JSON: %s", why.text);
    }
    free(text);
    return st;
}

Status feed_fit(Feed *f, const Args *a, const char *flag)
{
    ContextInputs inputs;
    SourceContext c;

    if (!f->data->source.format->fit)
        return ST_OK;
    if (f->world)
        TRY(agree_on_rows(f, flag));
    TRY(make_context(&c, f, a, flag, &f->data->source, f->model, &inputs));
    if (!f->world || !dpx_world_rank(f->world))
        TRY(dataset_fit(f->data, &c, f->data->index, f->data->samples));
    if (!f->world)
        return ST_OK;
    dpx_world_set_purpose(f->world, "what rank 0 fits");
    TRY(share_fitted(f));
    c.fitted = f->fitted;
    return dpx_world_rank(f->world) ? dataset_fit(f->data, &c, f->data->index, f->data->samples) : ST_OK;
}

enum { FEW_CORES = 4, CORES_OF_WORKER = 8 };

/* The workers by default, where samples are made. */
static int default_workers(int cores) { return cores >= CORES_OF_WORKER ? cores / CORES_OF_WORKER : 1; }

/* Leaves the workers cores of their own.  Where there are few cores, the devices' threads share them with a worker,
 * which needs less than a core and would idle beside a smaller team. */
static Status leave_cores(const Args *a, int workers, int cores)
{
    return args_count(a, "loader-threads", cores > FEW_CORES ? workers : 0);
}

Status feed_workers(int *out, const Args *a, const Feed *f, const dpx_world *world)
{
    const int cores = own_cores(world);
    bool makes = false;
    int64_t n;

    for (int i = 0; i < f->n; i++)
        makes |= f->field[i].array->fetch != NULL;
    TRY(args_int(&n, a, "workers", makes ? default_workers(cores) : 1, 1, 256));
    *out = (int)n;
    return f->data->source.format->laborious ? leave_cores(a, *out, cores) : ST_OK;
}

Status feed_plan_workers(const Args *a)
{
    const int cores = own_cores(NULL);
    bool laborious;
    int64_t n;
    Source s;

    TRY(args_int(&n, a, "workers", default_workers(cores), 1, 256));
    if (!args_has(a, "data"))
        return ST_OK;
    TRY(source_parse(&s, args_value(a, "data")));
    laborious = s.format && s.format->laborious;
    source_free(&s);
    return laborious ? leave_cores(a, (int)n, cores) : ST_OK;
}

void feed_close(Feed *f)
{
    dataset_free(f->data);
    dataset_free(f->held);
    json_decref(f->fitted);
    *f = (Feed){ 0 };
}
