// The picture of a step.  G: what picture_html.c wrote; B: its blocks, parents before children; N: its nodes.
const G = JSON.parse(document.getElementById('graph').textContent), B = G.blocks, N = G.nodes;
const SVG = 'http://www.w3.org/2000/svg', FIRST_ROWS = 36, MOST_TRACKS = 24, TRACK = 9, MOST_LISTED = 200, LEAST_FLOPS = 1000, NUMBERS = 3;

function make(tag, attributes = {}, ...inside) {
  const e = tag === 'svg' || tag === 'path' ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, v] of Object.entries(attributes)) name.startsWith('on') ? e[name] = v : e.setAttribute(name, v);
  e.append(...inside.filter(x => x !== null && x !== undefined));
  return e;
}
const fit = (tag, s, more = {}) => make(tag, { class: 'fit', title: s, ...more }, s);
// The first of a line: what follows takes the room it needs, but for that of these letters, up to a part of the line (picture.css).
const firm = (tag, s, more = {}) => fit(tag, s, { style: `--letters: ${s.length + 3}ch`, ...more });

// ---- numbers ----

function si(x) {
  let k = 0;
  for (; Math.abs(x) >= 999.5 && k < 6; k++) x /= 1000;
  return k ? `${x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0)} ${' kMGTPE'[k]}` : String(Math.round(x));
}
function bytes(x) {
  let k = 0;
  for (; x >= 1024 && k < 5; k++) x /= 1024;
  return k ? `${x.toFixed(1)} ${' KMGTP'[k]}iB` : `${Math.round(x)} B`;
}
function seconds(x) {
  const [t, unit] = x >= 1 ? [x, 's'] : x >= 1e-3 ? [x * 1e3, 'ms'] : [x * 1e6, 'µs'];
  return `${t.toFixed(t < 9.995 ? 2 : t < 99.95 ? 1 : 0)} ${unit}`;
}
const flop = x => si(x) + (x < 999.5 ? ' FLOP' : 'FLOP');
// Of a part [nodes, operators, output, parameters, FLOPs, bytes, seconds].
function numbers([, , , parameters, flops, size, t]) {
  return [parameters && `${si(parameters)} params`, flops && flop(flops), size && bytes(size), t && seconds(t)].filter(Boolean).join(' · ');
}
function collectives(b) {
  return b.bars ? `${b.bars} collective${b.bars > 1 ? 's' : ''} of ${bytes(b.sent)}${b.wire ? `, ${seconds(b.wire)} on the wire` : ''}` : '';
}

// ---- the tree ----

const open = [];
B.forEach((b, i) => {
  Object.assign(b, { i, kids: [], isOpen: b.kind === 'phase', c: b.c || [] });
  while (open.length && B[open[open.length - 1]].end <= i) open.pop();
  b.parent = open.length ? B[open[open.length - 1]] : null;
  b.depth = open.length;
  if (b.parent) { b.at = b.parent.kids.length; b.parent.kids.push(b); }
  open.push(i);
});
const ROOT = B[0], LEAVES = B.filter(b => !b.kids.length);
const path = b => b.path || b.title;
const name = b => b.kind === 'repeat' ? `${b.title}  ×${b.kids.length}` : b.title;
function contents(b) {
  const of = (b.kind === 'repeat' && b.kids[0].kids.length ? b.kids[0] : b).kids.filter(k => k.kind !== 'bar');
  const entries = [];         // three or more titles that differ in the number at their end make one: "conv.0 … 5"
  for (let i = 0, n; i < of.length && entries.length < 12; i += n) {
    const [, stem] = /^(.*\.)\d+$/.exec(of[i].title) || [];
    for (n = 1; stem && i + n < of.length && of[i + n].title.startsWith(stem) && /^\d+$/.test(of[i + n].title.slice(stem.length)); n++);
    if (n < 3) n = 1;
    entries.push({ text: n > 1 ? `${of[i].title} … ${of[i + n - 1].title.slice(stem.length)}` : of[i].title, end: i + n });
  }
  return entries.map(e => e.text).join(', ') + (entries.length && entries.at(-1).end < of.length ? ` … ${of.length} in all` : '');
}
// Opens scopes level by level, as long as they fill about a screen; repeats wait for a click.
function openFirst() {
  let rows = ROOT.kids.reduce((n, p) => n + p.kids.length, 0);
  for (let level = ROOT.kids; level.length; ) {
    level = level.flatMap(b => b.isOpen ? b.kids : []);
    for (const b of level) {
      if (b.kind !== 'scope' || rows + b.kids.length > FIRST_ROWS) continue;
      b.isOpen = true;
      rows += b.kids.length;
    }
  }
}
function visible(b = ROOT, out = []) {
  for (const k of b.kids) { out.push(k); if (k.isOpen) visible(k, out); }
  return out;
}

// ---- values between blocks ----

const maker = new Map(), readers = new Map();
N.forEach((n, i) => n.out.forEach(v => maker.set(v, i)));
N.forEach((n, i) => n.in.forEach(v => readers.has(v) ? readers.get(v).push(i) : readers.set(v, [i])));
const edges = [];          // [from, to] of layers and collectives, each once
{
  const seen = new Set();
  for (const n of N) for (const v of n.in) {
    const from = maker.has(v) ? N[maker.get(v)].block : n.block, key = from * B.length + n.block;
    if (from !== n.block && !seen.has(key)) { seen.add(key); edges.push([from, n.block]); }
  }
}
// The block that is drawn for each: itself, or a closed one that holds it.
function drawnFor() {
  const seen = new Array(B.length);
  for (const b of B) seen[b.i] = b.parent && (!b.parent.isOpen && b.parent !== ROOT || seen[b.parent.i] !== b.parent.i) ? seen[b.parent.i] : b.i;
  return seen;
}
// The first (0) or last (-1) block that is drawn in a block, collectives aside.
function outermost(b, which) {
  while (b.isOpen) {
    const inside = b.kids.filter(k => k.kind !== 'bar');
    if (!inside.length) break;
    b = inside.at(which);
  }
  return b;
}
// Arrows from a block to the next one of its frame; buses for values that pass others, in a frame, too.
function route() {
  const seen = drawnFor(), arrows = new Set(), buses = new Map(), done = new Set();
  for (const [i, k] of edges) {
    const u = B[seen[i]], v = B[seen[k]];
    if (u === v || u.phase !== v.phase || u.phase > NUMBERS || done.has(u.i * B.length + v.i)) continue;
    done.add(u.i * B.length + v.i);
    let a = u, b = v;
    while (a && b && a.parent !== b.parent) a.depth > b.depth ? a = a.parent : b = b.depth > a.depth ? b.parent : (a = a.parent, b);
    if (!a || !b || a === b || a.at >= b.at || a.kind === 'phase') continue;
    const between = a.parent.kids.slice(a.at + 1, b.at);
    const next = between.every(x => x.kind === 'bar');
    if (next) [...between, b].forEach(x => arrows.add(x));
    if (u.kind !== 'bar' && v.kind !== 'bar' && !(next && [a, outermost(a, -1)].includes(u) && [b, outermost(b, 0)].includes(v))) buses.has(u) ? buses.get(u).push(v) : buses.set(u, [v]);
  }
  return [arrows, buses];
}

// ---- drawing ----

let zoom = 1, selected = null, lit = null;      // lit: blocks of the answer to a question; null: none was asked
const picture = make('div', { id: 'picture' }), blocks = make('div', { id: 'blocks', role: 'tree' }), lines = make('svg', { class: 'lines' });
const view = make('div', { id: 'view', tabindex: 0 }, picture), panel = make('aside');
const columns = Math.max(G.columns.length, 1), grid = `grid-template-columns: repeat(${columns}, minmax(0, 1fr))`;

function classes(b, kind) {
  return ['block', kind, b.kind, `p${b.phase}`, b === selected && 'sel', lit && lit.has(b.i) && 'on'].filter(Boolean).join(' ');
}
function card(b, column) {
  const p = b.c[column], phase = phaseOf(b).c[column];
  if (!p) return make('div');
  const count = [numbers(p), b.bars && `${b.bars} collective${b.bars > 1 ? 's' : ''}`].filter(Boolean).join(' · ');
  const share = phase && (phase[6] ? p[6] / phase[6] : phase[4] >= LEAST_FLOPS ? p[4] / phase[4] : 0), title = b.unnamed ? p[1] : name(b), below = b.kids.length ? contents(b) : p[1] === title ? '' : p[1];
  const line = (a, c) => make('div', {}, a, c && fit('span', c, { class: 'fit soft' }));
  const rows = columns > 1 ? [line(firm('b', title), p[2]), line(fit('span', below, { class: 'fit soft' })), line(fit('span', count, { class: 'fit soft' }))]
    : [line(firm('b', title, { title: `${path(b)}: ${title}` }), p[2]), line(firm('span', below, { class: 'fit soft' }), count)];
  return make('div', { class: 'card' }, ...rows, share ? make('i', { class: 'heat', style: `width: ${(share * 100).toFixed(2)}%` }) : null);
}
function phaseOf(b) {
  while (b.kind !== 'phase' || b.parent && b.parent !== ROOT) b = b.parent;
  return b;
}
// The element of a block, with all that is open in it.
function element(b) {
  const click = e => { e.stopPropagation(); if (!dragged) { select(b); if (b.kids.length) toggle(b); } };
  if (b.kind === 'bar') {
    const label = `${b.title}, ${bytes(b.sent)}${b.wire ? `, ${seconds(b.wire)}` : ''}`;
    b.e = make('div', { class: classes(b, 'collective'), onclick: click, role: 'treeitem' }, fit('div', label, { class: `fit pill ${b.colour}` }));
  } else if (!b.isOpen) {
    b.e = make('div', { class: classes(b, b.kids.length ? 'group' : ''), onclick: click, role: 'treeitem' },
      make('div', { class: 'row', style: grid }, ...Array.from({ length: columns }, (_, c) => card(b, c))));
    if (b.kids.length) b.e.setAttribute('aria-expanded', 'false');
  } else {
    const first = b.c.find(Boolean), told = [first && numbers(first), collectives(b)].filter(Boolean).join(' · ');
    b.e = make('div', { class: classes(b, 'frame'), role: 'treeitem', 'aria-expanded': 'true' },
      make('div', { class: 'head', onclick: click }, firm('b', b.title, { title: path(b) }), b.kind === 'repeat' ? make('span', { class: 'times' }, `×${b.kids.length}`) : null,
        fit('span', told, { class: 'fit soft' })),
      make('div', { class: 'kids' }, ...b.kids.map(element)));
  }
  return b.e;
}
function drawLines() {
  const [arrows, buses] = route(), at = blocks.getBoundingClientRect(), places = new Map();
  const place = b => {
    if (!places.has(b)) {
      const r = (b.isOpen ? b.e.firstChild : b.e).getBoundingClientRect(), whole = b.e.getBoundingClientRect();
      places.set(b, { x: (whole.left - at.left) / zoom, right: (whole.right - at.left) / zoom, y: (r.top - at.top) / zoom, bottom: (r.bottom - at.top) / zoom,
        end: (whole.bottom - at.top) / zoom });
    }
    return places.get(b);
  };
  let arrow = '', tip = '', track = '', end = '', used = 0;
  for (const b of arrows) {
    const p = place(b), x = p.x + 40, from = place(b.parent.kids[b.at - 1]).end;
    arrow += `M${x} ${from + 1}V${p.y - 5}`;
    tip += `M${x} ${p.y}l-4 -6h8z`;
  }
  const right = at.width / zoom, taken = Array.from({ length: MOST_TRACKS }, () => []);
  const all = [...buses].map(([u, to]) => ({ u, to, top: place(u).bottom - 8, bottom: Math.max(...to.map(v => place(v).y + 9)) }));
  all.sort((a, b) => a.bottom - a.top - (b.bottom - b.top));
  for (const { u, to, top, bottom } of all) {
    let k = taken.findIndex(list => list.every(([t, b]) => b < top - 10 || t > bottom + 10));
    if (k < 0) k = MOST_TRACKS - 1;
    taken[k].push([top, bottom]);
    used = Math.max(used, k + 1);
    const x = right + 10 + TRACK * k;
    track += `M${place(u).right} ${top}H${x}V${bottom}`;
    for (const v of to) {
      const p = place(v), y = p.y + 9;
      track += `M${x} ${y}H${p.right + 5}`;
      end += `M${p.right} ${y}l6 -4v8z`;
    }
  }
  lines.replaceChildren(make('path', { class: 'arrow', d: arrow }), make('path', { class: 'tip', d: tip }), make('path', { class: 'track', d: track }), make('path', { class: 'end', d: end }));
  picture.style.paddingRight = `${24 + (used ? 12 + TRACK * used : 0)}px`;
}
function drawAll() {
  blocks.replaceChildren(...ROOT.kids.map(element), lines);
  drawLines();
}
function redraw(b) {
  const old = b.e;
  if (!old || !old.isConnected) return drawAll();
  old.replaceWith(element(b));
  drawLines();
}
function toggle(b, on = !b.isOpen) {
  if (!b.kids.length || b.isOpen === on) return;
  b.isOpen = on;
  if (on && b.kind === 'repeat' && b.kids[0].kids.length && b.kids[0].kids.length <= 60) b.kids[0].isOpen = true;
  redraw(b);
}
function setAll(on) {
  for (const b of B) if (b.kids.length && b !== ROOT && b.kind !== 'phase') b.isOpen = on;
  drawAll();
}
function reveal(b) {
  let outer = null;
  for (let up = b.parent; up && up !== ROOT; up = up.parent) if (!up.isOpen) { up.isOpen = true; outer = up; }
  if (outer) redraw(outer);
  select(b);
}
function select(b) {
  if (selected && selected.e) selected.e.classList.remove('sel');
  document.querySelectorAll('.near').forEach(e => e.classList.remove('near'));
  selected = b;
  if (!b) return help();
  b.e.classList.add('sel');
  (b.isOpen ? b.e.firstChild : b.e).scrollIntoView({ block: 'nearest', inline: 'nearest' });
  details(b);
}

// ---- the panel ----

const full = b => b.unnamed ? `${path(b)}: ${b.title}` : path(b) || b.title;
// A block that another, `beside`, reads or is read by: with its phase, where that is another.
function item(b, beside) {
  const phase = b.phase !== beside.phase && ROOT.kids.find(k => k.kind === 'phase' && k.phase === b.phase);
  return make('li', { class: 'go', onclick: () => reveal(b) }, `${phase ? `${phase.title}: ` : ''}${full(b)}`);
}
function list(title, items) {
  return items.length ? [make('h3', {}, `${title} (${items.length})`), make('ul', {}, ...items.slice(0, MOST_LISTED), items.length > MOST_LISTED ? make('li', {}, '…') : null)] : [];
}
// Lines for nodes; those of replicas that are alike share one.  `tell` begins a line.
function nodeItems(nodes, tell = () => '') {
  const lines = new Map();
  for (const n of nodes) {
    const text = `${tell(n)}${n.name} (${n.op}${n.bytes ? `, ${bytes(n.bytes)}` : ''}) ${n.shape}`;
    lines.has(text) ? lines.get(text).push(n) : lines.set(text, [n]);
  }
  return [...lines].map(([text, [n, ...others]]) => {
    const where = others.length ? `×${others.length + 1}` : [n.replica >= 0 && `replica ${n.replica}`, n.device >= 0 && `device ${n.device}`].filter(Boolean).join(', ');
    return make('li', tell(n) ? { class: 'go', onclick: () => reveal(B[n.block]) } : {}, `${text}${where && (others.length ? ' ' : ' on ')}${where}`);
  });
}
function details(b) {
  const within = i => i >= b.i && i < b.end, seen = drawnFor(), near = (pick, other) => [...new Set(edges.filter(e => within(e[pick]) && !within(e[other])).map(e => e[other]))].map(i => B[i]);
  const from = near(1, 0), to = near(0, 1), row = (k, v) => v ? make('tr', {}, make('th', {}, k), make('td', {}, v)) : null;
  for (const x of [...from, ...to]) if (B[seen[x.i]].e && B[seen[x.i]] !== b) B[seen[x.i]].e.classList.add('near');
  const tables = b.c.flatMap((p, c) => p ? [columns > 1 ? make('h3', {}, G.columns[c].title) : null, make('table', {}, make('tbody', {},
    ...[row('operators', b.kids.length ? '' : p[1]), row('output', p[2]), row('nodes', String(p[0])), row('parameters', p[3] ? p[3].toLocaleString('en') : ''),
      row('FLOPs', p[4] ? flop(p[4]) : ''), row('bytes', p[5] ? bytes(p[5]) : ''), row('time', p[6] ? seconds(p[6]) : '')].filter(Boolean)))] : []);
  const nodes = N.filter(n => within(n.block));
  panel.replaceChildren(make('h2', {}, name(b)), b.path && b.path !== b.title ? make('p', { class: 'soft' }, b.path) : '', make('p', {}, collectives(b)),
    ...tables.filter(Boolean), ...list('reads', from.map(x => item(x, b))), ...list('is read by', to.map(x => item(x, b))), ...list('nodes', nodeItems(nodes)));
}
function help() {
  const key = (k, s) => make('li', {}, ...k.split(' ').flatMap(x => [make('kbd', {}, x), ' ']), s), mark = (kind, s) => make('li', {}, make('span', { class: `mark ${kind}` }), ' ' + s);
  const timed = (ROOT.c || []).some(p => p && p[6]);
  panel.replaceChildren(make('h2', {}, 'Reading this picture'), make('p', {}, 'Time goes down. Click a block to open or close it and to see what is in it.'),
    make('ul', {}, mark('', 'layer: operators, output; parameters, FLOPs, bytes read and written' + (timed ? ', predicted time' : '')), mark('two', 'folded layers: click to open'),
      mark('dashed', '×N: N equal blocks in a row'), mark('thin', `share of the phase’s ${timed ? 'time' : 'FLOPs'}`), mark('through', 'skip connection: a value that a layer further down reads'),
      ...(ROOT.bars ? [mark('given', 'scatter, broadcast'), mark('joined', 'gather, all-gather'), mark('sum', 'all-reduce, reduce-scatter')] : [])),
    make('h3', {}, 'keys'), make('ul', {}, key('↑ ↓', 'select the block above or below'), key('→ ←', 'open; close, or go to the block around it'), key('/', 'search; Enter: the next one'),
      key('+ - 0', 'zoom (or Ctrl and the wheel)'), key('e c', 'open all; close all'), key('Esc', 'show all again')));
}

// ---- questions: a set of nodes ----

function show(title, set) {
  lit = set.size ? new Set() : null;
  for (const i of set) for (let b = B[N[i].block]; b; b = b.parent) lit.add(b.i);
  blocks.classList.toggle('asked', set.size > 0);
  for (const b of visible()) if (b.e) b.e.classList.toggle('on', !!lit && lit.has(b.i));
  if (title) panel.replaceChildren(make('h2', {}, title), ...list('nodes', nodeItems([...set].sort((a, b) => a - b).map(i => N[i]), n => `${n.phase}: `)));
}
const isParameter = (v, p) => G.states[v] === p, collective = n => n.tensors > 0;
const about = (n, p) => n.name === 'gradient of ' + p || n.name.endsWith(' of gradient of ' + p);
// Of a collective of several tensors the outputs that belong to the inputs of this gradient.
function give(n, p) {
  if (!collective(n)) return n.out;
  const parts = n.in.length / n.tensors, copies = n.out.length / n.tensors;
  return n.out.filter((v, o) => n.in.slice(Math.floor(o / copies) * parts, (Math.floor(o / copies) + 1) * parts).some(x => maker.has(x) && about(N[maker.get(x)], p)));
}
// From the nodes that make the gradient on to those that update: sums, collectives, clipping.
function onward(set, p) {
  for (const todo = [...set]; todo.length; )
    for (const v of give(N[todo.pop()], p)) for (const k of readers.get(v) || []) {
      if (set.has(k) || !(about(N[k], p) || collective(N[k]) || N[k].phase === 'update')) continue;
      set.add(k);
      if (N[k].op !== 'Update') todo.push(k);
    }
  return set;
}
// What makes the value; of a collective of several tensors what goes into the value's own.
function made(v) {
  const n = N[maker.get(v)];
  if (!n || !collective(n)) return n ? [maker.get(v)] : [];
  const parts = n.in.length / n.tensors, t = Math.floor(n.out.indexOf(v) * n.tensors / n.out.length);
  return n.in.slice(t * parts, (t + 1) * parts).flatMap(made);
}
function gradient(p) {
  const set = new Set(N.map((n, i) => about(n, p) && !collective(n) ? i : -1).filter(i => i >= 0));
  N.forEach(n => (n.pairs || []).forEach(([s, g]) => { if (isParameter(s, p)) made(g).forEach(i => set.add(i)); }));
  return set;
}
function parameter(p) {
  const set = onward(gradient(p), p);
  // A sum over all replicas may come before the gradient is made, as in batch-norm.
  if (![...set].some(i => collective(N[i]))) gradient(p).forEach(i => N[i].in.forEach(v => {
    const k = maker.get(v);
    if (k !== undefined && collective(N[k]) && N[k].phase === 'backward') set.add(k);
  }));
  N.forEach((n, i) => { if (n.in.some(v => isParameter(v, p))) set.add(i); });
  return set;
}
// All that a gradient is made from within the backward pass and the criterion, and what becomes of it.
function wayOfGradient(p) {
  const set = gradient(p);
  for (const todo = [...set]; todo.length; ) for (const v of N[todo.pop()].in) {
    const k = maker.get(v);
    if (k === undefined || set.has(k) || N[k].phase === 'forward') continue;
    set.add(k);
    todo.push(k);
  }
  onward(gradient(p), p).forEach(i => set.add(i));
  return set;
}
function sample(s) {
  let r = 0, left = s;
  while (r + 1 < G.samples.length && left >= G.samples[r]) left -= G.samples[r++];
  const set = new Set();
  N.forEach((n, i) => {
    if (n.replica !== r || collective(n)) return;
    set.add(i);
    for (const v of n.in) if (maker.has(v) && collective(N[maker.get(v)])) set.add(maker.get(v));
    for (const v of n.out) for (const k of readers.get(v) || []) if (collective(N[k])) set.add(k);
  });
  return [r, set];
}

// ---- search ----

let found = [], at = -1;
const texts = [];          // by block, in small letters
function searchTexts() {
  if (texts.length) return;
  for (const b of B) texts[b.i] = (b.kids.length ? '' : `${path(b)} ${b.title} `) + b.c.map(p => p && !b.kids.length ? p[1] : '').join(' ');
  for (const n of N) texts[n.block] += ` ${n.name}`;
  texts.forEach((t, i) => { texts[i] = t.toLowerCase(); });
}
const box = make('input', { type: 'search', placeholder: 'search', 'aria-label': 'search' }), told = make('span', { class: 'found' });
function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  searchTexts();
  found = words.length ? LEAVES.filter(b => words.every(w => texts[b.i].includes(w))) : [];
  at = -1;
  told.textContent = words.length ? `${found.length} found` : '';
  const leaves = new Set(found.map(b => b.i));
  show('', new Set(N.flatMap((n, i) => leaves.has(n.block) ? [i] : [])));
}
function goOn(step) {
  if (!found.length) return;
  at = (at + step + found.length) % found.length;
  told.textContent = `${at + 1} of ${found.length}`;
  reveal(found[at]);
}

// ---- controls ----

const selects = [];
function choose(label, names, ask) {
  const s = make('select', { 'aria-label': label, onchange: () => { selects.forEach(o => { if (o !== s) o.value = ''; }); s.value === '' ? clear() : ask(s.value); } }, new Option(label, ''), ...names.map(x => new Option(x, x)));
  selects.push(s);
  return names.length ? s : null;
}
function clear() {
  box.value = told.textContent = '';
  found = [];
  selects.forEach(s => { s.value = ''; });
  show('', new Set());
  select(null);
}
// Keeps the point (x, y) of the window where it is.
function zoomTo(z, x = view.getBoundingClientRect().left, y = view.getBoundingClientRect().top) {
  const r = view.getBoundingClientRect(), px = (x - r.left + view.scrollLeft) / zoom, py = (y - r.top + view.scrollTop) / zoom;
  zoom = Math.min(4, Math.max(.1, z));
  picture.style.transform = `scale(${zoom})`;
  // a transform leaves the room that an element takes as it was
  picture.style.marginRight = `${(zoom - 1) * picture.offsetWidth}px`;
  picture.style.marginBottom = `${(zoom - 1) * picture.offsetHeight}px`;
  view.scrollTo(px * zoom - (x - r.left), py * zoom - (y - r.top));
  scale.textContent = `${Math.round(zoom * 100)}%`;
}
const scale = make('button', { title: 'as it was (0)', onclick: () => zoomTo(1) }, '100%');
const total = G.samples.reduce((a, b) => a + b, 0);
const button = (text, title, f) => make('button', { title, 'aria-label': title, onclick: f }, text);

let dragged = false, held = null;
view.onpointerdown = e => { if (e.pointerType === 'mouse' && e.button === 0) held = [e.clientX, e.clientY, view.scrollLeft, view.scrollTop]; dragged = false; };
view.onpointermove = e => {
  if (!held || !(e.buttons & 1)) { held = null; return; }
  if (!dragged && Math.hypot(e.clientX - held[0], e.clientY - held[1]) < 5) return;
  dragged = true;
  view.classList.add('drags');
  view.scrollTo(held[2] - (e.clientX - held[0]), held[3] - (e.clientY - held[1]));
};
window.onpointerup = () => { held = null; view.classList.remove('drags'); };
view.addEventListener('wheel', e => {
  if (!e.ctrlKey && !e.metaKey) return;
  e.preventDefault();
  zoomTo(zoom * Math.exp(-e.deltaY * .002), e.clientX, e.clientY);
}, { passive: false });

const move = step => {
  const all = visible(), i = all.indexOf(selected);
  if (all.length) select(all[Math.min(all.length - 1, Math.max(0, i < 0 ? 0 : i + step))]);
};
const keys = {
  ArrowDown: () => move(1), ArrowUp: () => move(-1), '/': () => box.focus(), '+': () => zoomTo(zoom * 1.25), '=': () => zoomTo(zoom * 1.25), '-': () => zoomTo(zoom / 1.25), 0: () => zoomTo(1),
  e: () => setAll(true), c: () => setAll(false), '?': () => select(null), Enter: () => selected && toggle(selected), ' ': () => selected && toggle(selected),
  ArrowRight: () => { if (selected && selected.kids.length) selected.isOpen ? select(selected.kids[0]) : (toggle(selected), select(selected)); },
  ArrowLeft: () => { if (selected) selected.isOpen ? (toggle(selected), select(selected)) : selected.parent !== ROOT && select(selected.parent); },
};
document.onkeydown = e => {
  if (e.key === 'Escape') { clear(); view.focus(); return; }
  if (e.target === box) { if (e.key === 'Enter') goOn(e.shiftKey ? -1 : 1); return; }
  if (e.ctrlKey || e.metaKey || e.altKey || ['INPUT', 'SELECT', 'BUTTON'].includes(e.target.tagName) || !keys[e.key]) return;
  e.preventDefault();
  keys[e.key]();
};
box.oninput = search;

// ---- the page ----

document.body.append(
  make('header', {}, make('div', { class: 'about' }, fit('h1', G.title), fit('div', G.facts, { class: 'fit soft' })),
    make('div', { class: 'tools' }, box, told, choose('a sample', Array.from({ length: Math.min(total, 4096) }, (_, i) => String(i)), s => { const [r, set] = sample(+s); show(`sample ${s} goes to replica ${r}`, set); }),
      choose('a parameter', G.parameters, p => show(`parameter ${p}: uses, gradient, collective, update`, parameter(p))),
      choose('a gradient', G.parameters, p => show(`gradient of ${p}: from the loss to the update`, wayOfGradient(p))),
      button('open all', 'open all (e)', () => setAll(true)), button('close all', 'close all (c)', () => setAll(false)), button('−', 'smaller (-)', () => zoomTo(zoom / 1.25)), scale, button('+', 'larger (+)', () => zoomTo(zoom * 1.25)),
      button('?', 'help', () => select(null)))),
  make('main', {}, view, panel));
if (G.lanes > 1) picture.append(make('div', { class: 'heads', style: grid }, ...G.columns.map((c, i) => make('div', { style: 'min-width: 0' }, fit('b', c.title + (i === columns - 1 && G.more_columns ? `, and ${G.more_columns} more columns` : '')), fit('span', c.note)))));
// As much as the window has room for beside the lines, within what is legible.
const room = view.clientWidth - 90;
blocks.style.width = `${columns === 1 ? Math.max(320, Math.min(700, room)) : Math.max(250, Math.min(420, room / columns)) * columns}px`;
if (columns > 1) blocks.classList.add('narrow');
picture.append(blocks);
openFirst();
drawAll();
help();
view.focus({ preventScroll: true });
