/* The folder of a run.  metrics.jsonl is appended line by line; on resume, lines of steps after the checkpoint are cut
 * off, so that each step is there once.  Other files appear whole or not at all.  The folder is locked by flock on a
 * file that stays; the lock ends with the process, however that ends. */
#include "tools/training/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/folders.h"
#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"
#include "graph/base/json_writer.h"
#include "graph/base/jsontext.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/environment.h"

const char *run_dir_file(const RunDir *r, const char *name, char buf[4096])
{
    snprintf(buf, 4096, "%s/%s", r->path, name);
    return buf;
}

/* ---- the folder ---- */

/* Locks the folder; E_IO names the process that has it.  A file system without locks, as some network file systems are,
 * is no error. */
static Status lock_folder(RunDir *r)
{
    char file[4096], holder[128];
    ssize_t n;

    if ((r->lock = open(run_dir_file(r, ".lock", file), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        return FAIL(E_IO, "%s: cannot write: %s", file, strerror(errno));
    if (!flock(r->lock, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return ST_OK;
    n = pread(r->lock, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = '\0';
    close(r->lock);
    r->lock = -1;
    return FAIL(E_IO, "%s: %s is training in this folder: wait for its end, or choose another --out", r->path,
                *holder ? holder : "another process");
}

static int is_checkpoint(const struct dirent *e)
{
    return !strncmp(e->d_name, "step-", 5) || !strncmp(e->d_name, ".old-step-", 10);
}

/* *out: the folder has a checkpoint.  It has none only if its folder of checkpoints is readable and empty, or neither
 * that nor a link of its name exists. */
static Status find_checkpoint(bool *out, const char *path)
{
    struct dirent **entry;
    char folder[4096];
    struct stat s;
    int n;

    *out = false;
    snprintf(folder, sizeof folder, "%s/checkpoints", path);
    if (lstat(folder, &s) && errno == ENOENT)
        return ST_OK;
    if ((n = scandir(folder, &entry, is_checkpoint, NULL)) < 0)
        return errno == ENOMEM ? FAIL_NOMEM() : FAIL(E_IO, "%s: cannot read: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
    *out = n > 0;
    return ST_OK;
}

static bool has_file(const char *path, const char *name)
{
    char file[4096];

    snprintf(file, sizeof file, "%s/%s", path, name);
    return !access(file, F_OK);
}

static bool is_begun(const char *path) { return has_file(path, "args.json") || has_file(path, "metrics.jsonl"); }

Status run_dir_check_resume(bool *kept, const char *path, bool owns)
{
    TRY(status_prefix(find_checkpoint(kept, path), "--resume"));
    if (*kept)
        return ST_OK;
    if (access(path, F_OK))
        return FAIL(E_IO, "--resume %s: %s", path, strerror(errno));
    return owns && !is_begun(path)
               ? FAIL(E_IO, "--resume %s: there is no run in this folder: begin one with --out", path)
               : ST_OK;
}

/* Renames the file of an earlier attempt; there may be none. */
static Status rename_old(const RunDir *r, const char *name, const char *to)
{
    char from[4096], new[4096];

    return rename(run_dir_file(r, name, from), run_dir_file(r, to, new)) && errno != ENOENT
               ? FAIL(E_IO, "%s: cannot rename to %s: %s", from, new, strerror(errno))
               : ST_OK;
}

/* Renames metrics.jsonl, args.json and best.onnx of an earlier attempt to metrics.K.jsonl, args.K.json and best.K.onnx,
 * K being the first number that is free. */
static Status rename_old_files(RunDir *r)
{
    char path[4096], args[32], best[32];
    struct stat s;
    int k = 0;

    if (stat(run_dir_file(r, "metrics.jsonl", path), &s) || !s.st_size)
        return ST_OK;
    do {
        snprintf(r->aside, sizeof r->aside, "metrics.%d.jsonl", ++k);
        snprintf(args, sizeof args, "args.%d.json", k);
        snprintf(best, sizeof best, "best.%d.onnx", k);
    } while (has_file(r->path, r->aside) || has_file(r->path, args) || has_file(r->path, best));
    TRY(rename_old(r, "metrics.jsonl", r->aside));
    TRY(rename_old(r, "args.json", args));
    TRY(rename_old(r, "best.onnx", best));
    return unlink(run_dir_file(r, "checkpoints/best", path)) && errno != ENOENT && errno != ENOTDIR
               ? FAIL(E_IO, "%s: cannot remove: %s", path, strerror(errno))
               : ST_OK;
}

Status run_dir_check_folder(const char *path)
{
    struct stat s;

    return stat(path, &s) || S_ISDIR(s.st_mode)
               ? ST_OK
               : FAIL(E_IO, "--out %s: is a file, expected a folder or a new name", path);
}

/* E_IO when the folder holds a run: a checkpoint or a trained model. */
static Status check_unused(const char *path)
{
    bool kept;

    TRY(find_checkpoint(&kept, path));
    return kept || has_file(path, "model.onnx")
               ? FAIL(E_IO, "%s already holds a run: continue it with --resume, or choose another --out", path)
               : ST_OK;
}

Status run_dir_check_new(const char *path)
{
    RunDir r = { .lock = -1 };
    struct stat s;

    TRY(run_dir_check_folder(path));
    if (stat(path, &s) || snprintf(r.path, sizeof r.path, "%s", path) >= (int)sizeof r.path)
        return ST_OK; /* run_dir_open makes the folder, or says what is wrong */
    if (has_file(path, ".lock"))
        TRY(lock_folder(&r));
    if (r.lock >= 0)
        close(r.lock);
    return check_unused(path);
}

/* Makes room for one more saved step. */
static Status reserve_saved(RunDir *r)
{
    int64_t *saved = heap_reserve(r->saved, sizeof *saved, r->n_saved + 1, &r->saved_room);

    if (!saved)
        return FAIL_NOMEM();
    r->saved = saved;
    return ST_OK;
}

/* Reads the small files beside the checkpoints.  What they lack is taken as if there were no such file. */
static Status read_bookkeeping(RunDir *r)
{
    char file[4096];
    json_t *best = json_load_file(run_dir_file(r, "checkpoints/best", file), 0, NULL),
           *saved = json_load_file(run_dir_file(r, "checkpoints/.saved", file), 0, NULL), *at;
    size_t i;
    Status st = ST_OK;

    r->best = json_is_integer(json_object_get(best, "step")) ? json_integer_value(json_object_get(best, "step")) : -1;
    json_array_foreach(saved, i, at) {
        if (!st && json_is_integer(at) && json_integer_value(at) > (r->n_saved ? r->saved[r->n_saved - 1] : -1) &&
            !(st = reserve_saved(r)))
            r->saved[r->n_saved++] = json_integer_value(at);
    }
    json_decref(best);
    json_decref(saved);
    return st;
}

Status run_dir_open(RunDir *out, const char *path, bool resume)
{
    char file[4096], host[64] = "", text[128];
    int n;

    *out = (RunDir){ .lock = -1, .repeated_at = -1, .best = -1 };
    if (snprintf(out->path, sizeof out->path, "%s", path) >= (int)sizeof out->path)
        return FAIL(E_IO, "--out: the path is too long");
    TRY(run_dir_check_folder(path));
    TRY(make_folders(path));
    TRY(lock_folder(out));
    if (!resume)
        TRY(check_unused(path));
    gethostname(host, sizeof host - 1);
    n = snprintf(text, sizeof text, "process %ld on %s", (long)getpid(), host);
    if (ftruncate(out->lock, 0) || pwrite(out->lock, text, (size_t)n, 0) != n) /* for those who find the lock */
        return FAIL(E_IO, "%s/.lock: cannot write: %s", path, strerror(errno));
    if (!resume)
        TRY(rename_old_files(out));
    if (!(out->metrics = fopen(run_dir_file(out, "metrics.jsonl", file), "a")))
        return FAIL(E_IO, "%s: cannot write: %s", file, strerror(errno));
    return resume ? read_bookkeeping(out) : ST_OK;
}

Status run_dir_open_new(RunDir *out, const char *folder, const char *model)
{
    const char *slash = strrchr(model, '/'), *name = slash ? slash + 1 : model, *end = strrchr(name, '.');
    char path[sizeof out->path];
    int n = 0;

    *out = (RunDir){ .lock = -1, .repeated_at = -1, .best = -1 };
    if (make_folders(folder))
        return FAIL(E_IO, "%s; give --out DIR, or --out none to write nothing", dpx_error());
    do {
        if (snprintf(path, sizeof path, "%s/%.*s-%d", folder, end && end > name ? (int)(end - name) : (int)strlen(name),
                     name, ++n) >= (int)sizeof path)
            return FAIL(E_IO, "--out: the path is too long");
    } while (mkdir(path, 0777) && errno == EEXIST);
    if (access(path, F_OK))
        return FAIL(E_IO, "%s: cannot create: %s; give --out DIR, or --out none to write nothing", path,
                    strerror(errno));
    return run_dir_open(out, path, false);
}

Status run_dir_check_names(const dpx_model *m)
{
    PROBLEMS(wrong);
    dpx_info info;

    for (int i = 0; i < dpx_model_count(m, DPX_STATE); i++) {
        TRY((Status)dpx_model_info(m, DPX_STATE, i, &info));
        if (!utf8_valid(info.name))
            problems_add(&wrong, "'%s'", info.name);
    }
    return problems_fail(&wrong, E_MODEL, "--out: a checkpoint cannot hold tensors whose names are not UTF-8");
}

void run_dir_close(RunDir *r)
{
    if (r->metrics)
        fclose(r->metrics);
    if (r->metrics && ftruncate(r->lock, 0))
        errno = 0; /* the text serves those who find the lock; the lock ends all the same */
    if (r->lock >= 0)
        close(r->lock);
    free(r->saved);
    *r = (RunDir){ .lock = -1, .repeated_at = -1, .best = -1 };
}

/* Adds flag i as NAME: value, true where it takes none; a repeated one becomes a list. */
static bool add_flag(json_t *flags, const Args *a, int i)
{
    const char *name = a->given[i].name;
    bool takes_value = true;
    json_t *value, *before = json_object_get(flags, name), *list;

    (void)args_known(a->command, name, &takes_value);
    value = takes_value || *a->given[i].value ? json_of_text(a->given[i].value) : json_true();
    if (!value || !before)
        return value && !json_object_set_new(flags, name, value);
    if (json_is_array(before))
        return !json_array_append_new(before, value);
    list = json_pack("[O, o]", before, value);
    return list && !json_object_set_new(flags, name, list);
}

/* The text of args.json, which the caller frees; NULL: out of memory. */
static char *describe_args(const Args *a)
{
    const char *isa = dpx_options_get(a->options, "isa"), *fastest = dpx_isa_at(0);
    json_t *options = json_object(), *given = json_array(), *positional = json_array(), *flags = json_object(), *root;
    bool good = options && given && positional && flags;
    char *text;

    for (int i = 0; i < a->n_positional; i++)
        good &= !json_array_append_new(positional, json_of_text(a->positional[i]));
    for (int i = 0; i < a->n_given; i++)
        good &= !json_array_append_new(
            given, json_pack("[o, o]", json_of_text(a->given[i].name), json_of_text(a->given[i].value)));
    for (int i = 0; i < a->n_given && good; i++)
        good = !*a->given[i].name || add_flag(flags, a, i);
    for (int i = 0; i < dpx_option_count(); i++) {
        const char *name = dpx_option_at(i).name;

        good &= !json_object_set_new(options, name, json_of_text(dpx_options_get(a->options, name)));
    }
    root = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "version", dpx_version(), "arguments", positional, "flags",
                     flags, "given", given, "options", options, "environment",
                     environment_json(strcmp(isa, "auto") || !fastest ? isa : fastest));
    text = good && root ? json_text(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return text;
}

Status run_dir_write_args(const RunDir *r, const Args *a)
{
    char path[4096];
    char *text = describe_args(a);
    OutFile *file;
    Status st;

    if (!text)
        return FAIL_NOMEM();
    if (!(st = outfile_open(&file, run_dir_file(r, "args.json", path)))) {
        fputs(text, outfile_stream(file));
        st = outfile_close(file, ST_OK);
    }
    free(text);
    return st;
}

/* ---- checkpoints that are kept ---- */

Status run_dir_write_best(RunDir *r, int64_t step)
{
    char path[4096];
    OutFile *file;

    if (mkdir(run_dir_file(r, "checkpoints", path), 0777) && errno != EEXIST)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    run_dir_file(r, "checkpoints/best", path);
    if (step < 0) {
        if ((unlink(path) && errno != ENOENT) || (unlink(run_dir_file(r, "best.onnx", path)) && errno != ENOENT))
            return FAIL(E_IO, "%s: cannot remove: %s", path, strerror(errno));
        r->best = step;
        return ST_OK;
    }
    TRY(outfile_open(&file, path));
    fprintf(outfile_stream(file), "{\"step\":%lld}\n", (long long)step);
    TRY(outfile_close(file, ST_OK));
    r->best = step;
    return ST_OK;
}

/* Writes checkpoints/.saved, the list of the checkpoints that this run wrote.  It is not synced: a list that is lost
 * leaves checkpoints that are never removed. */
static Status write_saved(const RunDir *r)
{
    char path[4096], temporary[4096];
    FILE *f = fopen(run_dir_file(r, "checkpoints/.saved.new", temporary), "w");

    run_dir_file(r, "checkpoints/.saved", path);
    if (f) {
        fputc('[', f);
        for (size_t i = 0; i < r->n_saved; i++)
            fprintf(f, "%s%lld", i ? "," : "", (long long)r->saved[i]);
        fputs("]\n", f);
    }
    if (!f || ferror(f) | fclose(f) || rename(temporary, path))
        return FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
    return ST_OK;
}

Status run_dir_keep(RunDir *r, int64_t step, int64_t keep, int64_t best, char **damage)
{
    char folder[4096];
    size_t at = 0, n = 0;
    int64_t newer = 0; /* checkpoints up to `step` that are newer than the one at hand */
    bool many;

    *damage = NULL;
    while (at < r->n_saved && r->saved[at] < step)
        at++;
    if (at == r->n_saved || r->saved[at] != step) {
        TRY(reserve_saved(r));
        memmove(r->saved + at + 1, r->saved + at, (r->n_saved - at) * sizeof *r->saved);
        r->saved[at] = step;
        r->n_saved++;
    }
    many = keep && (int64_t)at + 1 > keep;
    if (many && dpx_checkpoint_verify(run_dir_file(r, "checkpoints", folder), step)) {
        *damage = strdup(dpx_error());
        many = false;
    }
    for (size_t i = at + 1; many && i-- > 0;)
        if (newer++ >= keep && r->saved[i] != best && r->saved[i] != r->best) {
            TRY((Status)dpx_checkpoint_remove(run_dir_file(r, "checkpoints", folder), r->saved[i]));
            r->saved[i] = -1;
        }
    for (size_t i = 0; i < r->n_saved; i++)
        if (r->saved[i] >= 0)
            r->saved[n++] = r->saved[i];
    r->n_saved = n;
    return write_saved(r);
}

/* ---- metrics ---- */

/* The bytes of the lines up to the first of a step after `step`, or to a damaged line, which a crash may leave.  With
 * `evaluates` an evaluation at `step` ends them, too; *repeated_at is where its line begins, or -1. */
static long bytes_up_to(FILE *f, int64_t step, bool evaluates, long *repeated_at)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    long keep = 0;

    *repeated_at = -1;
    while (*repeated_at < 0 && (n = getline(&line, &cap, f)) > 0) {
        json_t *j = line[n - 1] == '\n' ? json_loads(line, 0, NULL) : NULL, *at = json_object_get(j, "step");
        bool earlier = json_is_integer(at) && json_integer_value(at) <= step;

        if (earlier && evaluates && json_integer_value(at) == step && json_object_get(j, "eval_loss"))
            *repeated_at = keep;
        json_decref(j);
        if (!earlier)
            break;
        keep += n;
    }
    free(line);
    return keep;
}

Status run_dir_rewind(RunDir *r, int64_t step, bool evaluates, bool *evaluated)
{
    char file[4096];
    FILE *f = fopen(run_dir_file(r, "metrics.jsonl", file), "r");
    long keep;

    *evaluated = false;
    if (!f)
        return FAIL(E_IO, "%s: cannot read: %s", file, strerror(errno));
    keep = bytes_up_to(f, step, evaluates, &r->repeated_at);
    fclose(f);
    if (truncate(file, keep))
        return FAIL(E_IO, "%s: cannot rewind: %s", file, strerror(errno));
    *evaluated = r->repeated_at >= 0;
    return ST_OK;
}

static Status flush(RunDir *r)
{
    if (fflush(r->metrics) || ferror(r->metrics))
        return FAIL(E_IO, "%s/metrics.jsonl: cannot write: %s", r->path, strerror(errno));
    return ST_OK;
}

/* Counts the groups that have a learning rate of their own, players that take turns among them; they are numbered
 * from 1. */
static int groups_of(const dpx_trainer *t, int64_t step)
{
    int n = 0;

    while (!isnan(dpx_trainer_group_lr(t, n + 1, step)))
        n++;
    return n;
}

/* Writes the learning rate of each group, and its gradient norm: null where a group has none, nothing where all lack
 * it. */
static void write_groups(JsonWriter *w, const dpx_trainer *t, int groups, int64_t step, double grad_norm)
{
    bool any = false;

    if (groups)
        json_open(w, "group_lr", '[');
    for (int k = 1; k <= groups; k++) {
        json_write_float(w, NULL, dpx_trainer_group_lr(t, k, step));
        any |= !isnan(dpx_trainer_group_norm(t, k));
    }
    if (groups)
        json_close(w);
    if (!isnan(grad_norm))
        json_write_float(w, "grad_norm", grad_norm);
    if (!any)
        return;
    json_open(w, "group_norm", '[');
    for (int k = 1; k <= groups; k++)
        json_write_float(w, NULL, dpx_trainer_group_norm(t, k));
    json_close(w);
}

/* The loss scale of players that take turns, and whether each skipped the step; at a fixed scale only when one did. */
static void write_players(JsonWriter *w, const dpx_trainer *t, int groups, const dpx_result *result)
{
    const bool dynamic = !isnan(result->loss_scale);

    if ((!dynamic && !result->skipped) || strcmp(dpx_trainer_option(t, "turns"), "true") != 0)
        return;
    if (dynamic) {
        json_open(w, "group_scale", '[');
        for (int k = 1; k <= groups; k++)
            json_write_float(w, NULL, dpx_trainer_group_scale(t, k));
        json_close(w);
    }
    json_open(w, "group_skipped", '[');
    for (int k = 1; k <= groups; k++)
        json_write_bool(w, NULL, dpx_trainer_group_skipped(t, k));
    json_close(w);
}

static void write_read(JsonWriter *w, const RunRead *read)
{
    json_open(w, "read", '{');
    json_write_int(w, "bytes", read->all.bytes);
    json_write_int(w, "most_bytes", read->most.bytes);
    json_write_int(w, "file_bytes", read->all.file_bytes);
    json_write_int(w, "most_file_bytes", read->most.file_bytes);
    if (read->resumed) {
        json_write_int(w, "state_bytes", read->state);
        json_write_int(w, "most_state_bytes", read->most_state);
    }
    json_close(w);
    if (!read->computed)
        return;
    json_open(w, "padding", '{');
    json_write_int(w, "positions", read->positions);
    json_write_int(w, "computed", read->computed);
    json_close(w);
}

Status run_dir_log_step(RunDir *r, const dpx_trainer *t, const dpx_result *result, int64_t epoch, double ms,
                        const RunRead *read, const Metrics *trained, const Dataset *data)
{
    JsonWriter w = { .to = r->metrics, .compact = true };
    const int groups = r->metrics ? groups_of(t, result->step) : 0;

    if (!r->metrics)
        return ST_OK;
    json_open(&w, NULL, '{');
    json_write_int(&w, "step", result->step);
    json_write_int(&w, "epoch", epoch);
    json_write_float(&w, "loss", result->loss);
    json_write_float(&w, "lr", result->lr);
    json_write_int(&w, "samples", result->samples);
    json_write_float(&w, "ms", round(ms * 1e3) / 1e3);
    if (read)
        write_read(&w, read);
    if (trained) {
        json_write_float(&w, "train_loss", trained->loss);
        metrics_write(&w, "train", trained, data);
        json_write_int(&w, "train_samples", trained->samples);
    }
    write_groups(&w, t, groups, result->step, result->grad_norm);
    if (!isnan(result->loss_scale))
        json_write_float(&w, "loss_scale", result->loss_scale);
    if (!isnan(result->loss_scale) || result->skipped) /* at a fixed scale only where it was */
        json_write_bool(&w, "skipped", result->skipped);
    write_players(&w, t, groups, result);
    json_write_log(&w, "log", result->log, result->n_log);
    json_close(&w);
    return flush(r);
}

/* Replaces the last line, which begins at r->repeated_at.  The file appears whole: it is the old one or the new one. */
static Status replace_last(RunDir *r, const char *line, size_t n)
{
    char path[4096], block[1 << 16];
    FILE *from;
    OutFile *to;
    size_t got = 1;
    long left = r->repeated_at;
    Status st;

    TRY(outfile_open(&to, run_dir_file(r, "metrics.jsonl", path)));
    from = fopen(path, "r");
    for (; from && left && got; left -= (long)got) {
        got = fread(block, 1, left < (long)sizeof block ? (size_t)left : sizeof block, from);
        fwrite(block, 1, got, outfile_stream(to));
    }
    st = left ? FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno)) : ST_OK;
    if (from)
        fclose(from);
    if (!st)
        fwrite(line, 1, n, outfile_stream(to));
    TRY(outfile_close(to, st));
    r->repeated_at = -1;
    fclose(r->metrics);
    return (r->metrics = fopen(path, "a")) ? ST_OK : FAIL(E_IO, "%s: cannot write: %s", path, strerror(errno));
}

Status run_dir_log_eval(RunDir *r, int64_t step, double loss, const Metrics *measured, const Dataset *data)
{
    JsonWriter w = { .compact = true };
    char *line = NULL;
    size_t n = 0;
    Status st = ST_OK;

    if (!r->metrics)
        return ST_OK;
    if (!(w.to = open_memstream(&line, &n)))
        return FAIL_NOMEM();
    json_open(&w, NULL, '{');
    json_write_int(&w, "step", step);
    json_write_float(&w, "eval_loss", loss);
    metrics_write(&w, "eval", measured, data);
    json_write_log(&w, "eval_log", measured->log, measured->n_log);
    json_close(&w);
    if (fclose(w.to)) {
        st = FAIL_NOMEM();
    } else if (r->repeated_at >= 0) {
        st = replace_last(r, line, n);
    } else {
        fwrite(line, 1, n, r->metrics);
        st = flush(r);
    }
    free(line);
    return st;
}

Status run_dir_log_text(RunDir *r, int64_t step, const char *text)
{
    JsonWriter w = { .to = r->metrics, .compact = true };

    if (!r->metrics)
        return ST_OK;
    json_open(&w, NULL, '{');
    json_write_int(&w, "step", step);
    json_write_string(&w, "sample", text);
    json_close(&w);
    return flush(r);
}
