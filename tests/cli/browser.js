// Measures the text of the pages in all frames of this document: what overlaps, is cut off, leaves its box or is hard to read.
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true }), mixed = new Map();
function canvasColour(css, under) {     // [r, g, b] of a colour over another
  const key = `${css} ${under}`;
  if (!mixed.has(key)) {
    for (const style of [`rgb(${under.join(',')})`, css]) {
      canvas.fillStyle = style;
      canvas.fillRect(0, 0, 1, 1);
    }
    mixed.set(key, [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
  }
  return mixed.get(key);
}
function luminance(rgb) {       // https://www.w3.org/TR/WCAG21/#dfn-relative-luminance
  const [r, g, b] = rgb.map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + .05) / (y + .05);
}
const colours = new Map(), clips = new Map();
function ground(e, view) {
  if (!e) return matchMedia('(prefers-color-scheme: dark)').matches ? [20, 22, 29] : [255, 255, 255];
  if (!colours.has(e)) {
    const under = ground(e.parentElement, view), css = view.getComputedStyle(e).backgroundColor;
    colours.set(e, css === 'rgba(0, 0, 0, 0)' ? under : canvasColour(css, under));
  }
  return colours.get(e);
}
// The elements around `e` that hide or scroll what leaves them, from the inside.  One with an ellipsis has a tooltip with the whole text.
function clipsOf(e, view, root) {
  if (!e || e === root.documentElement) return [];
  if (!clips.has(e)) {
    const c = view.getComputedStyle(e), hides = /hidden|clip/.test(c.overflowX), scrolls = /auto|scroll/.test(c.overflowX + c.overflowY), around = clipsOf(e.parentElement, view, root);
    clips.set(e, e instanceof view.SVGElement || !hides && !scrolls ? around
      : [{ hides, ellipsis: c.textOverflow === 'ellipsis' && !!e.closest('[title]'), upright: c.writingMode.startsWith('vertical'), b: e.getBoundingClientRect() }, ...around]);
  }
  return clips.get(e);
}
function measure(frame, faults, label) {
  const view = frame.contentWindow, root = view.document, walker = root.createTreeWalker(root.body || root.documentElement, NodeFilter.SHOW_TEXT), texts = [];
  let count = 0;
  for (let n; (n = walker.nextNode());) {
    const e = n.parentElement, s = n.textContent.trim(), css = view.getComputedStyle(e);
    if (!s || ['SCRIPT', 'STYLE', 'OPTION', 'TITLE', 'title', 'style'].includes(e.tagName) || css.visibility === 'hidden' || !e.getClientRects().length) continue;
    const range = root.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) {
      let box = { left: r.left, top: r.top, right: r.right, bottom: r.bottom }, cut = false, short = false;
      if (r.width < 1 || r.height < 1) continue;
      for (const { hides, ellipsis, upright, b } of clipsOf(e, view, root)) {
        if (hides && (box.right > b.right + 1 || box.left < b.left - 1)) {
          ellipsis ? short = true : cut = true;
          if (ellipsis && Math.min(r.right, b.right) - Math.max(r.left, b.left) < 20) faults.push(`${label}: nothing left of '${s.slice(0, 60)}'`);
        }
        if (hides && (box.bottom > b.bottom + 2 || box.top < b.top - 2)) upright && ellipsis ? short = true : cut = true;
        box = { left: Math.max(box.left, b.left), top: Math.max(box.top, b.top), right: Math.min(box.right, b.right), bottom: Math.min(box.bottom, b.bottom) };
      }
      if (cut) faults.push(`${label}: cut off: '${s.slice(0, 60)}'`);
      if (box.right - box.left < 1 || box.bottom - box.top < 1) continue;
      count++;
      texts.push({ ...box, s, e, short });
    }
    if (view.innerWidth >= 1280 && !label.endsWith('searched') && e.closest('.about .soft') && e.scrollWidth > e.clientWidth + 1) faults.push(`${label}: the facts of the picture are cut off: '${s.slice(0, 90)}'`);
    const inside = e.tagName === 'text' && e.parentElement.querySelector(':scope > rect.box'), ratio = e instanceof view.SVGElement ? 21 : contrast(canvasColour(css.color, ground(e, view)), ground(e, view));
    if (ratio < 4 && !e.closest('.asked')) faults.push(`${label}: contrast ${ratio.toFixed(1)}: '${s.slice(0, 60)}'`);
    if (e.tagName === 'text') {
      const r = e.getBoundingClientRect(), svg = e.ownerSVGElement.getBoundingClientRect(), b = inside ? inside.getBoundingClientRect() : svg;
      if (r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 3 || r.bottom > b.bottom + 3) faults.push(`${label}: leaves its box: '${s.slice(0, 60)}'`);
    }
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((a, i) => {
    for (let k = i + 1; k < texts.length && texts[k].top < a.bottom - 3; k++) {
      const b = texts[k], w = Math.min(a.right, b.right) - Math.max(a.left, b.left), h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (w > 1.5 && h > 3 && a.e !== b.e) faults.push(`${label}: overlap: '${a.s.slice(0, 50)}' and '${b.s.slice(0, 50)}'`);
    }
  });
  // What stands in rows and grids of one kind has its text at the same side.
  const sides = new Map();
  for (const e of root.querySelectorAll('figcaption, td.name, blockquote')) {
    const kind = e.className + e.tagName, side = view.getComputedStyle(e).textAlign;
    if (!sides.has(kind)) sides.set(kind, side);
    if (sides.get(kind) !== side) faults.push(`${label}: aligned otherwise: '${e.textContent.slice(0, 60)}'`);
  }
  // A pale curve of single steps stays in its chart but for a few outliers.
  for (const e of root.querySelectorAll('.chart path[stroke-opacity]')) {
    const clip = root.getElementById(e.getAttribute('clip-path').slice(5, -1)).firstChild.getBBox(), ys = [...e.getAttribute('d').matchAll(/ (-?[\d.]+)/g)].map(m => +m[1]);
    if (ys.filter(y => y < clip.y || y > clip.y + clip.height).length > .05 * ys.length) faults.push(`${label}: a curve leaves its chart`);
  }
  colours.clear();
  clips.clear();
  return count;
}
addEventListener('load', () => {
  const faults = [], told = {};
  for (const frame of document.querySelectorAll('iframe')) {
    const view = frame.contentWindow, label = `${frame.title} at ${frame.width}`, run = s => view.eval(s);
    told[label] = measure(frame, faults, label);
    if (frame.dataset.kind !== 'picture' || matchMedia('(prefers-color-scheme: dark)').matches) continue;
    for (const [how, script] of [['all open', 'setAll(true)'], ['selected', 'select(B.find(b => b.kind === "layer"))'], ['larger', 'zoomTo(2)'], ['smaller', 'zoomTo(.5)'],
      ['searched', 'zoomTo(1); clear(); setAll(false); box.value = "conv"; search(); goOn(1)'], ['asked', 'clear(); if (G.parameters.length) show("x", parameter(G.parameters[0]))']]) {
      run(script);
      told[`${label}, ${how}`] = measure(frame, faults, `${label}, ${how}`);
    }
  }
  const out = document.createElement('pre');
  out.id = 'measured';
  out.textContent = JSON.stringify({ dark: matchMedia('(prefers-color-scheme: dark)').matches, faults, told });
  document.body.append(out);
});
