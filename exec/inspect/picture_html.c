/* The picture of a step as a page that shows the path of a sample, a parameter or a gradient.  The page holds the whole
 * graph as JSON; its script follows names and edges, and loads nothing. */
#include <string.h>

#include "exec/inspect/picture.h"
#include "graph/base/json_writer.h"
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/ir/phase.h"
#include "graph/ops/update.h"

static const char head[] =
    "<style>\n"
    "body { font-family: Helvetica, Arial, sans-serif; font-size: 13px; color: #223; margin: 12px }\n"
    "#bar { position: sticky; top: 0; background: #fff; padding: 6px 0; border-bottom: 1px solid #ccd }\n"
    "#bar label { margin-right: 16px } select { max-width: 260px }\n"
    "#said { white-space: pre-wrap; font-family: monospace; font-size: 12px; max-height: 180px; overflow: auto }\n"
    "svg { max-width: 100%; height: auto; display: block }\n"
    ".e { cursor: pointer } svg.asked .e { opacity: .22 } svg.asked .e.on { opacity: 1 }\n"
    ".e.on rect { stroke: #c00; stroke-width: 2.5 }\n"
    "</style>\n"
    "<div id=\"bar\"><label>sample <select id=\"sample\"></select></label>\n"
    "<label>parameter <select id=\"parameter\"></select></label>\n"
    "<label>gradient <select id=\"gradient\"></select></label>\n"
    "<button id=\"none\">show all</button><div id=\"said\">Choose one, or click a box.</div></div>\n";

static const char script[] =
    "<script>\n"
    "const G = JSON.parse(document.getElementById('graph').textContent), N = G.nodes;\n"
    "const svg = document.querySelector('svg'), said = document.getElementById('said');\n"
    "const maker = new Map(), readers = new Map();\n"
    "N.forEach((n, i) => n.out.forEach(v => maker.set(v, i)));\n"
    "N.forEach((n, i) => n.in.forEach(v => readers.set(v, (readers.get(v) || []).concat(i))));\n"
    "const pick = id => document.getElementById(id);\n"
    "function line(n) { return n.phase.padEnd(10) + (n.replica < 0 ? '' : 'r' + n.replica + ' ') +\n"
    "  (n.device < 0 ? '' : 'd' + n.device + ' ') + n.name + '  (' + n.op + (n.bytes ? ', ' + n.bytes + "
    "' bytes' : '') +\n"
    "  ')  ' + n.shapes; }\n"
    "function show(what, set) {\n"
    "  document.querySelectorAll('.e.on').forEach(e => e.classList.remove('on'));\n"
    "  svg.classList.toggle('asked', set.size > 0);\n"
    "  set.forEach(i => { const e = pick(N[i].box); if (e) e.classList.add('on'); });\n"
    "  said.textContent = what + '\\n' + [...set].sort((a, b) => a - b).map(i => line(N[i])).join('\\n'); }\n"
    "const isParameter = (v, p) => G.states[v] === p;\n"
    "const about = (n, p) => n.name === 'gradient of ' + p || n.name.endsWith(' of gradient of ' + p);\n"
    "/* From the nodes that make the gradient on to those that update: sums, collectives, clipping. */\n"
    "function onward(set, p) {\n"
    "  const todo = [...set];\n"
    "  while (todo.length) { const i = todo.pop();\n"
    "    N[i].give(p).forEach(v => (readers.get(v) || []).forEach(k => { const n = N[k];\n"
    "      if (set.has(k) || !(about(n, p) || n.collective || n.phase === 'update')) return;\n"
    "      set.add(k); if (n.op !== 'Update') todo.push(k); })); }\n"
    "  return set; }\n"
    "/* Of a collective of several tensors the outputs that belong to the inputs of this gradient. */\n"
    "N.forEach((n, i) => { n.give = p => { if (!n.collective) return n.out;\n"
    "  const parts = n.in.length / n.tensors, copies = n.out.length / n.tensors;\n"
    "  return n.out.filter((v, o) => n.in.slice(Math.floor(o / copies) * parts,\n"
    "    (Math.floor(o / copies) + 1) * parts).some(x => maker.has(x) && about(N[maker.get(x)], p))); }; });\n"
    "/* What makes the value; of a collective of several tensors what goes into the value's own. */\n"
    "function made(v) {\n"
    "  const n = N[maker.get(v)]; if (!n || !n.collective) return n ? [maker.get(v)] : [];\n"
    "  const parts = n.in.length / n.tensors, t = Math.floor(n.out.indexOf(v) * n.tensors / n.out.length);\n"
    "  return n.in.slice(t * parts, (t + 1) * parts).flatMap(made); }\n"
    "function gradient(p) {\n"
    "  const set = new Set(N.map((n, i) => about(n, p) && !n.collective ? i : -1).filter(i => i >= 0));\n"
    "  N.forEach(n => n.pairs.forEach(([s, g]) => { if (isParameter(s, p)) made(g).forEach(i => set.add(i)); }));\n"
    "  return set; }\n"
    "function parameter(p) {\n"
    "  const set = onward(gradient(p), p);\n"
    "  /* A sum over all replicas may come before the gradient is made, as in batch-norm. */\n"
    "  if (![...set].some(i => N[i].collective)) gradient(p).forEach(i => N[i].in.forEach(v => {\n"
    "    const k = maker.get(v); if (k !== undefined && N[k].collective && N[k].phase === 'backward') set.add(k); "
    "}));\n"
    "  N.forEach((n, i) => { if (n.in.some(v => isParameter(v, p))) set.add(i); });\n"
    "  return set; }\n"
    "/* All that a gradient is made from within the backward pass and the criterion, and what becomes of it. */\n"
    "function wayOfGradient(p) {\n"
    "  const set = gradient(p), todo = [...set];\n"
    "  while (todo.length) N[todo.pop()].in.forEach(v => { const k = maker.get(v);\n"
    "    if (k === undefined || set.has(k) || N[k].phase === 'forward') return; set.add(k); todo.push(k); });\n"
    "  onward(gradient(p), p).forEach(i => set.add(i));\n"
    "  return set; }\n";

static const char questions[] =
    "function sample(s) {\n"
    "  let r = 0, left = s; while (r + 1 < G.samples.length && left >= G.samples[r]) left -= G.samples[r++];\n"
    "  const set = new Set();\n"
    "  N.forEach((n, i) => { if (n.replica === r && !n.collective) { set.add(i);\n"
    "    n.in.concat(n.out).forEach(v => { const k = maker.get(v); if (k !== undefined && "
    "N[k].collective) set.add(k);\n"
    "      (n.out.includes(v) ? readers.get(v) || [] : []).forEach(x => { if (N[x].collective) "
    "set.add(x); }); }); } });\n"
    "  return [r, set]; }\n"
    "function fill(id, list, ask) { const s = pick(id); s.add(new Option('-', ''));\n"
    "  list.forEach(x => s.add(new Option(x, x)));\n"
    "  s.onchange = () => { ['sample', 'parameter', 'gradient'].forEach(o => { if (o !== id) pick(o).value = ''; });\n"
    "    s.value === '' ? clear() : ask(s.value); }; }\n"
    "function clear() { show('', new Set()); said.textContent = 'Choose one, or click a box.';\n"
    "  ['sample', 'parameter', 'gradient'].forEach(o => pick(o).value = ''); }\n"
    "const total = G.samples.reduce((a, b) => a + b, 0);\n"
    "fill('sample', Array.from({ length: Math.min(total, 4096) }, (_, i) => String(i)), s => {\n"
    "  const [r, set] = sample(+s); show('sample ' + s + ' goes to replica ' + r, set); });\n"
    "fill('parameter', G.parameters, p => show('parameter ' + p + ': uses, gradient, collective, "
    "update', parameter(p)));\n"
    "fill('gradient', G.parameters, p => show('gradient of ' + p + ': from the loss to the update', "
    "wayOfGradient(p)));\n"
    "pick('none').onclick = clear;\n"
    "document.querySelectorAll('.e').forEach(e => e.onclick = () =>\n"
    "  show('', new Set(N.map((n, i) => n.box === e.id ? i : -1).filter(i => i >= 0))));\n"
    "</script>\n";

/* Writes the ids of the values, without constants. */
static void write_values(JsonWriter *w, const Graph *g, const char *key, const ValueId *v, int n)
{
    json_open(w, key, '[');
    for (int i = 0; i < n; i++)
        if (has_value(v[i]) && value(g, v[i])->kind != V_CONST)
            json_write_int(w, NULL, v[i].i);
    json_close(w);
}

static void write_picture_node(JsonWriter *w, const Picture *p, const Node *n)
{
    const Exchange e = exchange_of(n);
    const UpdateForm form = update_is(n) ? update_form(n) : (UpdateForm){ 0 };
    const Value *out = n->n_out && has_value(n->out[0]) ? value(p->g, n->out[0]) : NULL;
    char shape[SHAPE_TEXT] = "", box[32];

    snprintf(box, sizeof box, "b%d_%d", p->row_of[n->index], p->lane_of[n->index]);
    json_open(w, NULL, '{');
    json_write_string(w, "name", n->name);
    json_write_string(w, "op", n->op->name);
    json_write_string(w, "phase", phase_name(p->phase[n->index]));
    json_write_int(w, "replica", n->replica);
    json_write_int(w, "device", n->device);
    json_write_string(w, "box", box);
    json_write_bool(w, "collective", e.tensors != 0);
    json_write_int(w, "tensors", e.tensors);
    json_write_int(w, "bytes", e.tensors ? picture_bytes(p->g, n) : 0);
    json_write_string(w, "shapes", out ? shape_text(out->shape, shape) : "");
    write_values(w, p->g, "in", n->in, n->n_in);
    write_values(w, p->g, "out", n->out, n->n_out);
    json_open(w, "pairs", '['); /* of an update: each parameter with its gradient */
    for (int i = 0; i < form.count; i++) {
        json_open(w, NULL, '[');
        json_write_int(w, NULL, n->in[update_state(&form, i, 0)].i);
        json_write_int(w, NULL, n->in[update_grad(&form, i)].i);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

/* The names of the parameters, each once, and the name of every state by its id. */
static void write_states(JsonWriter *w, const Graph *g)
{
    char id[16];

    json_open(w, "parameters", '[');
    for (uint32_t i = 1; i < g->n_value; i++) {
        bool first = g->value[i]->kind == V_STATE && g->value[i]->trainable;

        for (uint32_t k = 1; k < i && first; k++)
            first = g->value[k]->kind != V_STATE || !g->value[k]->trainable ||
                    strcmp(value_logical_name(g->value[k]), value_logical_name(g->value[i])) != 0;
        if (first)
            json_write_string(w, NULL, value_logical_name(g->value[i]));
    }
    json_close(w);
    json_open(w, "states", '{');
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE) {
            snprintf(id, sizeof id, "%u", i);
            json_write_string(w, id, value_logical_name(g->value[i]));
        }
    json_close(w);
}

static void write_graph(FILE *f, const Picture *p)
{
    JsonWriter w = { .to = f, .html = true, .lines = 2 };

    fputs("<script type=\"application/json\" id=\"graph\">\n", f);
    json_open(&w, NULL, '{');
    json_open(&w, "samples", '['); /* how many each replica has */
    for (int r = 0; p->scatter && r < p->scatter->n_out; r++) {
        int64_t from, n;

        picture_samples(p, r, &from, &n);
        json_write_int(&w, NULL, n);
    }
    json_close(&w);
    write_states(&w, p->g);
    json_open(&w, "nodes", '[');
    FOR_NODES(p->g, n)
        write_picture_node(&w, p, n);
    json_close(&w);
    json_close(&w);
    fputs("</script>\n", f);
}

Status picture_html(FILE *f, const Graph *g, const Graph *model)
{
    Arena *a = arena_create_beside(g->arena);
    Picture p;
    Status st = a ? picture_fold(&p, g, a) : FAIL_NOMEM();

    if (!st) {
        fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>", f);
        picture_text(f, g->name, 120);
        fprintf(f, "</title>\n%s", head);
        st = picture_draw(f, &p, model, a);
        write_graph(f, &p);
        fprintf(f, "%s%s</html>\n", script, questions);
    }
    if (!st && ferror(f))
        st = FAIL(E_IO, "writing the picture of graph '%s' failed", g->name);
    arena_free(a);
    return st;
}
