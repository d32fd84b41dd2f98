// The page of a run, or of several side by side.  R: what page.c wrote.
const R = JSON.parse(document.getElementById('runs').textContent).runs;
const COLOURS = ['a', 'b', 'c', 'd', 'e', 'f'].map(c => `var(--${c})`);
const NAMES = { lr: 'learning rate', grad_norm: 'gradient norm', samples_per_second: 'samples per second', loss_scale: 'loss scale' };
const FIRST = ['loss', 'accuracy', 'f1', 'r2'], LAST = ['lr', 'grad_norm', 'samples_per_second', 'loss_scale'];
const NOISY = ['loss', 'grad_norm', 'samples_per_second'];      // of each step
const BY_CLASS = 'Precision and recall by class';
const HOW = ['out', 'quiet', 'verbose', 'resume'];      // flags that change no number
// Classes of pixels in masks, as thumbnail.c draws them.
const MASKS = ['#2b2f3a', '#6ea0ff', '#ff9a5c', '#69d17f', '#d68cf0', '#e8c04a', '#4cc4d8', '#ff85b1'];
const SVG = 'http://www.w3.org/2000/svg';

function make(tag, attributes = {}, ...inside) {
  const e = ['svg', 'path', 'line', 'text', 'circle', 'clipPath', 'rect'].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, v] of Object.entries(attributes)) name.startsWith('on') ? e[name] = v : e.setAttribute(name, v);
  e.append(...inside);
  return e;
}
const put = (...what) => document.body.append(...what.filter(Boolean));
function short(x, digits = 4) {
  if (x === null || x === undefined || !isFinite(x)) return '–';
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return x.toLocaleString('en');
  const a = Math.abs(x);
  return a && (a < 1e-3 || a >= 1e6) ? x.toExponential(2).replace(/\.?0*e\+?/, 'e') : a >= 1000 ? Math.round(x).toLocaleString('en') : String(+x.toPrecision(digits));
}
function time(s) {
  if (!(s >= 0)) return '–';
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h ? `${h} h ${m} min` : m ? `${m} min ${Math.floor(s % 60)} s` : `${s.toFixed(1)} s`;
}
function bytes(n) {
  const unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'], k = Math.min(4, Math.floor(Math.log2(Math.max(1, n)) / 10));
  return `${short(n / 1024 ** k, 3)} ${unit[k]}`;
}

// ---- curves ----

// The name under which a series is drawn, and whose it is: train_accuracy and eval_accuracy share a chart.
function part(name) {
  const m = /^(train|eval)_(.*)$/.exec(name);
  return m ? { of: m[1], chart: m[2] } : { of: '', chart: name };
}
// A series is bins [step of the least, the least, step of the greatest, the greatest]: a line through both, in the order of steps.
function points(bins) {
  return bins.flatMap(([s, x, t, y]) => s === t ? [[s, x]] : s < t ? [[s, x], [t, y]] : [[t, y], [s, x]]);
}
function ticks(low, high, n) {
  const raw = (high - low) / n || 1, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(k => k * unit >= raw) * unit;
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(+(k * step).toPrecision(12));
  return out;
}
function logTicks(low, high) {
  const out = [];
  for (let e = Math.floor(low); e <= Math.ceil(high); e++) out.push(e);
  return out.filter(e => e >= low - 1e-9 && e <= high + 1e-9).length >= 2 ? out.filter(e => e >= low && e <= high) : ticks(low, high, 4);
}
// A moving mean over a fiftieth of the run: losses of single steps are noise, drawn pale behind it.
function smooth(p) {
  if (p.length < 60) return null;
  let mean = p[0][1];
  const keep = 1 - 1 / Math.max(3, p.length / 50);
  return p.map(([s, x]) => [s, mean = keep * mean + (1 - keep) * x]);
}
let charted = 0;
// axis: its name; at: what a place along it is called; tick: how it stands below.
function chart(name, lines, axis = 'step', at_step = s => `step ${short(s)}`, tick = t => short(t)) {
  const W = 400, H = 232, left = 60, right = 12, top = 10, bottom = 38, clip = `clip${++charted}`;
  const all = lines.flatMap(l => l.points);
  let log = false;
  const positive = all.every(p => p[1] > 0), svg = make('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': name });
  const said = make('div', { class: 'said' });
  const lowest = Math.min(...all.map(p => p[0])), highest = Math.max(...all.map(p => p[0]), lowest + 1);
  const x = s => left + (s - lowest) / (highest - lowest) * (W - left - right);
  function draw() {
    const f = v => log ? Math.log10(v) : v;
    let low = Infinity, high = -Infinity;
    for (const p of lines.flatMap(l => l.raw && smooth(l.points) || l.points)) { low = Math.min(low, f(p[1])); high = Math.max(high, f(p[1])); }
    const more = (high - low) / 3, raw = all.map(p => f(p[1]));         // outliers among single steps may leave the chart
    low = Math.max(low - more, raw.reduce((a, b) => Math.min(a, b), low));
    high = Math.min(high + more, raw.reduce((a, b) => Math.max(a, b), high));
    if (high - low < 1e-12 * Math.max(1, Math.abs(high))) { low -= Math.abs(low) * .05 || .5; high += Math.abs(high) * .05 || .5; }
    const y = v => H - bottom - (f(v) - low) / (high - low) * (H - top - bottom);
    svg.replaceChildren(make('clipPath', { id: clip }, make('rect', { x: left, y: 0, width: W - left - right, height: H - bottom + 2 })));
    for (const t of log ? logTicks(low, high) : ticks(low, high, 5)) {
      const v = log ? 10 ** t : t;
      svg.append(make('line', { x1: left, x2: W - right, y1: y(v), y2: y(v), stroke: 'var(--line)' }),
        make('text', { x: left - 6, y: y(v) + 4, 'text-anchor': 'end' }, short(v, 3)));
    }
    const across = ticks(lowest, highest, 5).filter(Number.isInteger);
    for (const t of across)
      svg.append(make('text', { x: Math.min(x(t), W - right), y: H - 22, 'text-anchor': x(t) > W - 40 ? 'end' : 'middle' }, tick(t)));
    svg.append(make('text', { x: (left + W - right) / 2, y: H - 5, 'text-anchor': 'middle' }, axis));
    for (const l of lines) {
      const path = p => p.map(([s, v], i) => (i ? 'L' : 'M') + x(s).toFixed(1) + ' ' + y(v).toFixed(1)).join('');
      const even = l.raw ? smooth(l.points) : null;
      if (even) svg.append(make('path', { d: path(l.points), fill: 'none', stroke: l.colour, 'stroke-opacity': .25, 'clip-path': `url(#${clip})` }));
      svg.append(make('path', { d: path(even || l.points), fill: 'none', stroke: l.colour, 'stroke-width': 1.8,
        'stroke-dasharray': l.dashed ? '5 3' : 'none', 'stroke-linejoin': 'round' }));
      if (l.points.length === 1) svg.append(make('circle', { cx: x(l.points[0][0]), cy: y(l.points[0][1]), r: 3, fill: l.colour }));
      const best = l.best === undefined ? null : l.points.find(p => p[0] === l.best);
      if (best) svg.append(make('circle', { cx: x(best[0]), cy: y(best[1]), r: 4.5, fill: 'none', stroke: 'var(--mark)', 'stroke-width': 2 }));
    }
  }
  function tell(event) {
    const box = svg.getBoundingClientRect(), at = lowest + ((event.clientX - box.left) / box.width * W - left) / (W - left - right) * (highest - lowest);
    const nearest = l => l.points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    said.textContent = lines.map(l => { const p = nearest(l); return `${l.label} ${short(p[1], 5)} at ${at_step(p[0])}`; }).join(' · ');
  }
  svg.onmousemove = tell;
  svg.onmouseleave = () => { said.textContent = ''; };
  draw();
  const box = make('input', { type: 'checkbox', onchange: e => { log = e.target.checked; draw(); } });
  return make('div', { class: 'chart' },
    make('h3', {}, NAMES[name] || name, positive && name !== 'samples_per_second' ? make('label', {}, box, ' log') : ''), svg,
    make('div', { class: 'legend' }, ...lines.map(l => make('span', {}, make('i', { style: `background:${l.colour}` }), l.label + (l.raw && smooth(l.points) ? ' (smoothed)' : ''))),
      lines.some(l => l.best !== undefined && l.points.some(p => p[0] === l.best)) ? make('span', {}, '○ ' + (lines.find(l => l.mark) || { mark: 'best' }).mark) : ''), said);
}
// The loss over the rate of --lr-find, both smoothed and raw; raw losses above all smoothed ones are left out.
function found(find) {
  const top = Math.max(...find.mean);
  const along = k => find.lr.map((r, i) => [Math.log10(r), find[k][i]]).filter(p => p[1] !== null && p[1] <= top), best = find.suggestion ? Math.log10(find.suggestion) : undefined;
  return make('div', { class: 'charts' }, chart('loss over learning rate', [
    { points: along('mean'), label: 'smoothed loss', colour: COLOURS[0], best, mark: `falls fastest: ${short(find.suggestion, 3)}` },
    { points: along('loss'), label: 'loss of each step', colour: COLOURS[2] }], 'learning rate', s => `rate ${short(10 ** s, 3)}`, t => short(10 ** t)));
}
function charts() {
  const of = new Map();
  R.forEach((run, k) => Object.entries(run.series).forEach(([name, bins]) => {
    const p = part(name), lines = of.get(p.chart) || of.set(p.chart, []).get(p.chart), several = R.length > 1;
    const label = { train: 'training', eval: 'validation', '': p.chart === 'loss' ? 'training, each step' : NAMES[name] || 'training' }[p.of];
    lines.push({ points: points(bins), label: several ? `${run.name}: ${label}` : label, raw: NOISY.includes(name), dashed: several && p.of === 'train',
      colour: several ? COLOURS[k % COLOURS.length] : p.of === 'eval' ? COLOURS[1] : p.of === 'train' ? COLOURS[2] : COLOURS[0],
      best: p.of === 'eval' ? run.best : undefined });
  }));
  const rank = n => FIRST.includes(n) ? FIRST.indexOf(n) : LAST.includes(n) ? 100 + LAST.indexOf(n) : 50;
  const names = [...of.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  return make('div', { class: 'charts' }, ...names.map(n => chart(n, of.get(n))));
}

// ---- tables ----

function rows(run) {
  const columns = [...new Set(run.rows.flatMap(r => Object.keys(r)))];
  const head = make('tr', {}, ...columns.map(c => make('th', {}, (NAMES[c] || c).replaceAll('_', ' '))));
  const body = run.rows.map(r => make('tr', r.step === run.best ? { class: 'best' } : {}, ...columns.map(c =>
    make('td', {}, c in r ? c === 'seconds' ? time(r[c]) : short(r[c]) : ''))));
  return make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)));
}
function className(run, c) {
  const names = run.classes.length || !run.evaluation ? run.classes : run.evaluation.classes || [];
  return c < names.length ? names[c] : String(c);
}
// Precision and recall follow from the counts; rows are the right classes.
// ", step 40": of the newest figures of training or validation.
function measuredAt(run, of) {
  const row = run.rows.filter(r => Object.keys(r).some(k => k.startsWith(`${of}_`))).pop();
  return row ? `, step ${short(row.step)}` : '';
}
function matrix(run, counts) {
  const n = counts.length, sum = counts.map(r => r.reduce((a, b) => a + b, 0)), told = counts.map((_, c) => counts.reduce((a, r) => a + r[c], 0));
  const cell = (v, r, c) => make('td', { title: `${className(run, r)} predicted as ${className(run, c)}: ${v}`,
    style: v ? `background:rgba(var(--heat), ${(.08 + .8 * v / sum[r]).toFixed(3)});color:${v / sum[r] > .88 ? '#fff' : 'var(--on)'}` : '' }, v ? short(v) : '');
  const head = make('tr', {}, make('th', { class: 'name' }, 'true \\ predicted'), ...counts.map((_, c) => make('th', { class: 'up', title: className(run, c) }, make('div', {}, className(run, c)))));
  const body = counts.map((row, r) => make('tr', {}, make('td', { class: 'name', title: className(run, r) }, className(run, r)), ...row.map((v, c) => cell(v, r, c))));
  const classes = counts.map((row, r) => {
    const p = told[r] ? row[r] / told[r] : NaN, q = sum[r] ? row[r] / sum[r] : NaN;
    return make('tr', {}, make('td', { class: 'name' }, className(run, r)), ...[p, q, 2 * p * q / (p + q)].map(v => make('td', {}, short(v))), make('td', {}, short(sum[r])));
  });
  return [n <= 60 ? make('div', { class: 'scroll' }, make('table', { class: 'matrix' }, make('thead', {}, head), make('tbody', {}, ...body))) : '',
    make('h2', {}, BY_CLASS),
    make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { class: 'name' }, 'class'),
      ...['precision', 'recall', 'F1', 'support'].map(t => make('th', {}, t)))), make('tbody', {}, ...classes)))];
}
function perClass(list) {
  return make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { class: 'name' }, 'class'),
    ...['precision', 'recall', 'F1', 'support'].map(t => make('th', {}, t)))), make('tbody', {}, ...list.map(r => make('tr', {},
    make('td', { class: 'name' }, r.class), ...[r.precision, r.recall, r.f1, r.support].map(v => make('td', {}, short(v))))))));
}

// ---- samples ----

// What a class is beside the one that was found; of values there is no right and wrong.
const judgement = s => s.wrong === undefined ? {} : { class: s.wrong ? 'wrong' : 'right' };
function counted(list) {
  const wrong = list.filter(s => s.wrong).length, right = list.filter(s => s.wrong === false).length;
  return wrong + right ? `: ${[wrong ? `${wrong} wrong` : '', right ? `${right} right` : ''].filter(Boolean).join(', ')}` : '';
}
const place = s => `${s.from}, loss ${short(s.loss)}`;
// Pictures, texts, or rows with a column for each value.
function worst(run, list) {
  const columns = [...new Set(list.flatMap(s => (s.values || []).map(v => v[0])))];
  if (columns.length > 1 && !list.some(s => s.png)) return worstRows(list, columns);
  const image = (png, alt = '') => make('img', { src: 'data:image/png;base64,' + png, alt });
  const pictures = s => !s.png ? '' : !s.target ? image(s.png) : make('div', { class: 'masks' }, ...[['image', s.png], ['target', s.target], ['prediction', s.prediction]]
    .map(([of, png]) => make('div', {}, image(png, of), of)));
  return make('div', { class: columns.length ? 'worst texts' : list.some(s => s.target) ? 'worst masked' : 'worst' }, ...list.map(s => make('figure', judgement(s), pictures(s), ...(s.values || []).map(v => make('blockquote', {}, v[1])),
    make('figcaption', {}, s.text, make('br'), make('span', { class: 'soft' }, place(s))))));
}
// The colours of the classes in masks: at most a class for each.
function maskLegend(run, judged) {
  const n = (judged.confusion || []).length;
  return judged.worst.some(s => s.target) && n <= MASKS.length ? MASKS.slice(0, n).flatMap((c, k) => [make('i', { class: 'swatch', style: `background:${c}` }), `class ${className(run, k)}`]) : [];
}
function worstRows(list, columns) {
  const head = make('tr', {}, ...['loss', 'verdict', 'from'].map((t, i) => make('th', i ? { class: 'name' } : {}, t)), ...columns.map(c => make('th', {}, c)));
  const body = list.map(s => {
    const of = Object.fromEntries(s.values || []);
    return make('tr', {}, make('td', {}, short(s.loss)), make('td', { class: `name ${judgement(s).class || ''}` }, s.text), make('td', { class: 'name' }, s.from),
      ...columns.map(c => make('td', { class: 'value', title: of[c] === undefined ? '' : of[c] }, of[c] === undefined ? '' : of[c])));
  });
  return make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, head), make('tbody', {}, ...body)));
}
// Predictions over targets, with the line on which they would be equal.
function residuals(pairs) {
  const W = 400, H = 312, left = 68, bottom = 42, all = pairs.flat(), low = Math.min(...all), high = Math.max(...all, low + 1e-9);
  const x = v => left + (v - low) / (high - low) * (W - left - 12), y = v => H - bottom - (v - low) / (high - low) * (H - bottom - 12);
  const svg = make('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'predictions over targets' });
  for (const t of ticks(low, high, 4)) {
    svg.append(make('line', { x1: left, x2: W - 12, y1: y(t), y2: y(t), stroke: 'var(--line)' }),
      make('text', { x: left - 6, y: y(t) + 4, 'text-anchor': 'end' }, short(t, 3)), make('text', { x: Math.min(x(t), W - 20), y: H - 24, 'text-anchor': 'middle' }, short(t, 3)));
  }
  svg.append(make('text', { x: (left + W - 12) / 2, y: H - 6, 'text-anchor': 'middle' }, 'target'),
    make('text', { transform: `translate(14 ${(H - bottom + 12) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, 'prediction'));
  svg.append(make('line', { x1: x(low), y1: y(low), x2: x(high), y2: y(high), stroke: 'var(--b)', 'stroke-dasharray': '5 3' }),
    ...pairs.map(([t, p]) => make('circle', { cx: x(t).toFixed(1), cy: y(p).toFixed(1), r: 2.2, fill: 'var(--a)', 'fill-opacity': .5 })));
  return make('div', { class: 'chart', style: 'max-width:460px' }, make('h3', {}, 'prediction over target'), svg,
    make('div', { class: 'legend' }, make('span', {}, make('i', { style: `background:${COLOURS[1]}` }), 'a prediction that equals its target')));
}

// ---- the page ----

function fact(name, value) { return make('div', { class: 'fact' }, make('span', { class: 'soft' }, name), make('b', {}, value)); }
function facts(run) {
  const last = run.rows[run.rows.length - 1] || {}, at = run.rows.find(r => r.step === run.best);
  const metric = run.monitor === 'loss' ? 'eval_loss' : `eval_${run.monitor}`;
  return make('div', { class: 'facts' }, fact('steps', short(run.step)), fact('epochs', short(run.epoch)), fact('time', time(run.seconds)),
    at ? fact(`best ${run.monitor === 'loss' ? 'validation loss' : run.monitor}`, `${short(at[metric], 5)} at step ${short(run.best)}`) : '',
    last.eval_loss !== undefined ? fact('last validation loss', short(last.eval_loss, 5)) : last.loss !== undefined ? fact('last loss', short(last.loss, 5)) : '',
    last.samples_per_second ? fact('samples per second', short(last.samples_per_second)) : '',
    run.memory && run.memory.step ? fact('memory of a step', bytes(run.memory.step)) : '',
    run.memory && run.memory.process ? fact('peak memory of the process', bytes(run.memory.process)) : '');
}
function compare() {
  const keys = [...new Set(R.flatMap(r => Object.keys(r.arguments)))].filter(k => !HOW.includes(k) && new Set(R.map(r => JSON.stringify(r.arguments[k]))).size > 1);
  const line = (name, of) => make('tr', {}, make('td', { class: 'name' }, name), ...R.map(r => make('td', {}, of(r))));
  const best = r => r.rows.find(x => x.step === r.best) || r.rows[r.rows.length - 1] || {};
  const figures = [...new Set(R.flatMap(r => Object.keys(best(r))))].filter(k => /^eval_/.test(k) || k === 'loss');
  return make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, make('th', { class: 'name' }, ''), ...R.map(r => make('th', {}, r.name)))),
    make('tbody', {}, ...keys.map(k => line('--' + k, r => r.arguments[k] === undefined ? '' : String(r.arguments[k]))),
      ...figures.map(k => line(k.replaceAll('_', ' ') + ', at the best', r => short(best(r)[k], 5))), line('time', r => time(r.seconds)),
      line('memory of a step', r => r.memory && r.memory.step ? bytes(r.memory.step) : '–'))));
}
const text = list => make('pre', {}, list.join('\n'));
function whole(run) {
  put(make('h1', {}, run.name), make('div', { class: 'soft' }, run.said || ''), facts(run));
  if (run.warnings.length) { const p = text(run.warnings); p.className = 'warning'; put(make('h2', {}, 'Warnings'), p); }
  if (run.find) put(make('h2', {}, 'Learning rates'), found(run.find));
  put(make('h2', {}, 'Curves'), charts());
  if (run.rows.length) put(make('h2', {}, 'Epochs and evaluations'), rows(run));
  for (const of of ['eval', 'train']) {
    const counts = run.tables[`${of}_confusion-matrix`] || of === 'eval' && run.evaluation && run.evaluation.confusion, list = run.tables[`${of}_per-class`];
    const at = run.tables[`${of}_confusion-matrix`] || list ? measuredAt(run, of) : counts && `, step ${short(run.evaluation.step)}`;
    if (counts) { put(make('h2', {}, `Confusion matrix${at}`), ...matrix(run, counts)); break; }
    if (list) { put(make('h2', {}, BY_CLASS + at), perClass(list)); break; }
  }
  if (run.texts.length) put(make('h2', {}, 'Texts that the model wrote'), make('div', { class: 'worst texts' }, ...run.texts.slice().reverse().map(t => make('figure', {},
    make('blockquote', {}, t.sample), make('figcaption', { class: 'soft' }, `after step ${short(t.step)}`)))));
  const judged = run.evaluation;
  if (judged && judged.residuals) put(make('h2', {}, 'Predictions beside targets'), residuals(judged.residuals));
  if (judged && judged.worst.length)
    put(make('h2', {}, 'Samples with the highest loss'), make('p', { class: 'soft' }, `${short(judged.worst.length)} of ${short(judged.samples)} ` +
      `validation samples at step ${short(judged.step)}${judged.samples < judged.of ? ` (of ${short(judged.of)} in the validation set)` : ''}` +
      `${counted(judged.worst)}.`, ...maskLegend(run, judged)), worst(run, judged.worst));
  put(make('h2', {}, 'The run'), text(run.summary));
  const given = Object.entries(run.arguments).map(([k, v]) => `--${k}${v === true ? '' : ' ' + [].concat(v).join(' --' + k + ' ')}`);
  put(make('h2', {}, 'Arguments'), text([...run.positional, ...given]));
  put(make('h2', {}, 'Environment'), text(Object.entries(run.environment).map(([k, v]) => `${k.padEnd(12)} ${v}`)));
}
if (R.length === 1) whole(R[0]);
else put(make('h1', {}, `${R.length} runs`), make('h2', {}, 'What differs'), compare(), make('h2', {}, 'Curves'), charts());
