// The layers x heads grid: what is chosen, hovered and said. draw.js, in front of this file, draws it.
//
// The choice is drawn at once and sent after; the server answers through announce.js, and its answer
// is what stays. Answers older than the last pick are left out, so the frame never jumps back.

const TICKS = [0, 0.01, 0.1, 0.25, 0.5, 1];
const DEBOUNCE = 120; // ms after the last arrow key; a held key is one pick
const REST = 200; // ms on one tile until its exact weights are asked for
const MAX_EXACT = 64; // heads whose exact weights are kept
const PATIENCE = 10_000; // ms until an unanswered pick gives way to what the server said last

const MOVES = {
  ArrowUp: ([layer, head]) => [layer - 1, head],
  ArrowDown: ([layer, head]) => [layer + 1, head],
  ArrowLeft: ([layer, head]) => [layer, head - 1],
  ArrowRight: ([layer, head]) => [layer, head + 1],
  Home: ([layer], corner) => [corner ? 0 : layer, 0],
  End: ([layer], corner) => [corner ? Infinity : layer, Infinity],
};

const grids = new WeakMap(); // one Grid a mounted component

export default function ({ data, parentElement, setTriggerValue }) {
  if (!grids.has(parentElement)) grids.set(parentElement, new Grid(parentElement));
  return grids.get(parentElement).show(data, setTriggerValue);
}

// A byte knows weights below 0.01 to a few percent at best: one digit.
function weightText(code) {
  const weight = (code / 255) ** 2;
  if (code === 0) return "≈ 0";
  return `≈ ${weight < 0.01 ? Number(weight.toPrecision(1)) : weight.toFixed(2)}`;
}

class Grid {
  constructor(root) {
    this.root = root;
    this.host = root.host ?? root;
    this.calls = 0;
    this.painted = 0;
    this.sent = 0; // serial of the last pick
    this.choice = [0, 0];
    this.overlay = { score: null, off: [] };
    this.hovered = null;
    this.pointed = null; // what the tooltip speaks of, and where the pointer was
    this.exact = new Map(); // weights of single heads, by their number
    this.base = document.createElement("canvas");
    this.build();
    this.listen();
  }

  build() {
    const span = (text) => element("span", "", text);
    this.scoreNote = span("");
    const axes = ["layers ↓", "heads →", "in each tile: queries ↓, keys →"].map(span);
    this.caption = element("div", "caption", ...axes, this.scoreNote);
    this.canvas = element("canvas", "");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "attention grid");
    const scale = element("div", "scale", element("div", "bar"));
    for (const weight of TICKS) {
      const tick = element("span", "tick", String(weight));
      tick.style.left = `${100 * Math.sqrt(weight)}%`;
      scale.append(tick);
    }
    this.pooledNote = span("each cell shows the strongest of several tokens");
    this.paddingNote = element("span", "", element("span", "swatch"), "padding");
    this.barNote = span("");
    const words = element("div", "words", "attention weight, square-root colour scale");
    const notes = element("div", "notes", words, this.barNote, this.pooledNote, this.paddingNote);
    this.legend = element("div", "legend", scale, notes);
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    this.live = element("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.box = element("div", "box", this.caption, this.canvas, this.legend, this.tip, this.live);
    this.root.append(this.box);
  }

  listen() {
    this.abort = new AbortController();
    this.print = matchMedia("print");
    this.on(this.canvas, "click", (event) => this.onClick(event));
    this.on(this.canvas, "keydown", (event) => this.onKey(event));
    this.on(this.canvas, "blur", () => this.debounce && this.send());
    this.on(this.canvas, "pointermove", (event) => this.onPointer(event));
    this.on(this.canvas, "pointerleave", () => this.leave());
    this.on(window, "canvas-announcement", () => this.readAnnouncement());
    this.on(window, "attention-grid-exact", () => this.readExact());
    this.on(this.print, "change", () => this.layout());
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.box);
    document.fonts.ready.then(() => this.layout());
  }

  on(target, type, handler, options) {
    target.addEventListener(type, handler, { ...options, signal: this.abort.signal });
  }

  // Runs on mount, on new data and on a theme change. Streamlit may run the clean-up of an overtaken
  // call after the later call, so a clean-up acts only while its own call is the last.
  show(data, setTriggerValue) {
    const call = ++this.calls;
    this.setTriggerValue = setTriggerValue;
    if (data && data !== this.data) {
      this.data = data;
      this.payload = decode(data);
      this.exact.clear();
      this.leave();
      this.readExact();
    }
    if (this.payload) this.readOverlay();
    this.layout();
    this.readAnnouncement();
    return () => call === this.calls && this.dispose();
  }

  dispose() {
    clearTimeout(this.debounce);
    clearTimeout(this.patience);
    clearTimeout(this.rest);
    this.abort.abort();
    this.observer.disconnect();
    this.box.remove();
    this.payload = null;
    grids.delete(this.root);
  }

  // ---- the choice

  get selected() {
    const { n_layers, n_heads } = this.payload;
    return [clamp(this.choice[0], 0, n_layers - 1), clamp(this.choice[1], 0, n_heads - 1)];
  }

  choose(choice) {
    const before = String(this.selected);
    this.choice = choice;
    this.choice = this.selected;
    if (String(this.choice) === before) return;
    const [layer, head] = this.choice;
    const { score } = this.overlay;
    const said = [`Layer ${layer}, head ${head}`];
    if (score) said.push(`${score.label} ${score.short[layer][head]}`);
    if (this.isOff(layer, head)) said.push("switched off");
    this.live.textContent = said.join(", ");
    this.paint();
  }

  isOff(layer, head) {
    return this.overlay.off.some((pair) => String(pair) === String([layer, head]));
  }

  send() {
    this.stopWaiting();
    this.sent += 1;
    const [layer, head] = this.selected;
    this.setTriggerValue("pick", { layer, head, serial: this.sent });
    this.patience = setTimeout(() => {
      this.stopWaiting();
      this.readAnnouncement();
    }, PATIENCE);
  }

  stopWaiting() {
    clearTimeout(this.debounce);
    clearTimeout(this.patience);
    this.debounce = this.patience = null;
  }

  readAnnouncement() {
    if (!this.payload) return;
    const announcement = announced(this.host);
    if (!announcement) return;
    if (this.readOverlay()) this.layout();
    const { layer, head, echo } = announcement;
    if (this.debounce || (this.patience && echo !== this.sent)) return; // older than a pick on its way
    this.stopWaiting();
    this.sent = echo;
    this.choose([layer, head]);
  }

  // What is drawn over the tiles; true where it is news. A score for another size belongs to data on their way.
  readOverlay() {
    const { n_layers, n_heads } = this.payload;
    const { score = null, off = [], probes = false } = announced(this.host) ?? {};
    this.probes = probes;
    const fits = score?.bars.length === n_layers && score.bars[0].length === n_heads;
    const before = JSON.stringify(this.overlay);
    const within = ([layer, head]) => layer >= 0 && layer < n_layers && head >= 0 && head < n_heads;
    this.overlay = { score: fits ? score : null, off: off.filter(within) };
    return JSON.stringify(this.overlay) !== before;
  }

  // ---- exact weights, where the payload has none

  // Asks for the weights of a tile that the pointer rests on; after a pick, whose answer comes first.
  probe(layer, head) {
    if (!this.probes || this.exactly(layer, head)) return;
    if (this.debounce || this.patience) this.rest = setTimeout(() => this.probe(layer, head), REST);
    else this.setTriggerValue("probe", { layer, head });
  }

  readExact() {
    for (const [target, { digest, layer, head, weights }] of window.canvasExact ?? []) {
      if (digest !== this.payload?.digest || !this.host.closest(`.st-key-${target}`)) continue;
      this.exact.set(layer * this.payload.n_heads + head, weights);
      if (this.exact.size > MAX_EXACT) this.exact.delete(this.exact.keys().next().value); // the oldest
      if (this.pointed) this.tell();
    }
  }

  // The weights of one head, if the browser has them.
  exactly(layer, head) {
    const { weights, n_heads } = this.payload;
    return weights ? ofHead(weights, this.payload, layer, head) : this.exact.get(layer * n_heads + head);
  }

  // ---- drawing

  layout() {
    if (!this.payload) return;
    this.watchDensity();
    this.theme = readTheme(getComputedStyle(this.box), this.print.matches);
    this.box.style.setProperty("--ramp", `linear-gradient(to right, ${this.theme.ramp.join(", ")})`);
    this.box.style.setProperty("--hatch-back", this.theme.hatch[0]);
    this.box.style.setProperty("--hatch-line", this.theme.hatch[1]);
    const { rowPadding, colPadding, pooled, n_layers, n_heads } = this.payload;
    this.paddingNote.hidden = ![...rowPadding, ...colPadding].some(Boolean);
    this.pooledNote.hidden = !pooled;
    const { score } = this.overlay;
    this.scoreNote.textContent = score ? `numbers: ${score.label}; beside L and H: means` : "";
    this.caption.classList.toggle("long", Boolean(score));
    this.barNote.hidden = !score;
    this.barNote.textContent = score ? `bars: 0 to ${score.high}` : "";
    this.geometry = this.fit();
    if (this.geometry?.shrunk && !pooled) {
      this.pooledNote.hidden = false; // the screen joins the tokens; the note itself may take a line
      this.geometry = this.fit();
    }
    if (!this.geometry) { // not one pixel a head: nothing rather than what was there before
      this.canvas.width = this.canvas.height = 0;
      return;
    }
    const { left, top, spare, pitch, dpr } = this.geometry;
    this.canvas.width = this.base.width = left + n_heads * pitch + spare;
    this.canvas.height = this.base.height = top + n_layers * pitch + spare;
    this.canvas.style.width = `${this.canvas.width / dpr}px`;
    this.canvas.style.height = `${this.canvas.height / dpr}px`;
    drawTiles(this.base, this.payload, this.geometry, this.theme);
    this.paint();
  }

  fit() {
    const height = this.box.clientHeight - this.caption.offsetHeight - this.legend.offsetHeight;
    const context = this.canvas.getContext("2d");
    return measure(context, this.payload, this.theme, this.dpr, this.box.clientWidth, height, this.overlay.score);
  }

  watchDensity() {
    if (this.dpr === window.devicePixelRatio) return;
    this.dpr = window.devicePixelRatio;
    this.on(matchMedia(`(resolution: ${this.dpr}dppx)`), "change", () => this.layout(), { once: true });
  }

  paint() {
    if (!this.payload || !this.geometry) return;
    const { payload, geometry, theme, selected } = this;
    const { score, off } = this.overlay;
    const { dpr, gap } = geometry;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.base, 0, 0);
    drawOff(context, geometry, theme, off);
    if (this.hovered) frame(context, geometry, ...this.hovered, theme.ink, Math.max(1, Math.round(dpr)));
    frame(context, geometry, ...selected, theme.accent, Math.round((gap >= 6 * dpr && !score ? 3 : 2) * dpr));
    if (score) drawScore(context, geometry, theme, score, this.hovered);
    drawLabels(context, payload, geometry, theme, selected, score);
    const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
    const size = `Attention grid, ${count(payload.n_layers, "layer")} by ${count(payload.n_heads, "head")}.`;
    const [layer, head] = selected;
    const label = [size, `Layer ${layer}, head ${head} selected.`];
    if (score) label.push(`${score.label} ${score.full[layer][head]}.`);
    if (this.isOff(layer, head)) label.push("It is switched off.");
    this.canvas.setAttribute("aria-label", [...label, "Arrow keys choose a head."].join(" "));
    this.canvas.dataset.painted = String(++this.painted);
  }

  // ---- mouse and keyboard

  // The tile under the pointer, and the cells under it; null outside the grid.
  locate(event) {
    if (!this.payload || !this.geometry) return null;
    const { dpr, left, top, pitch, rowSpans, colSpans } = this.geometry;
    const [x, y] = [event.offsetX * dpr, event.offsetY * dpr];
    const [layer, head] = [Math.floor((y - top) / pitch), Math.floor((x - left) / pitch)];
    if (layer < 0 || head < 0 || layer >= this.payload.n_layers || head >= this.payload.n_heads) return null;
    const [x0, y0] = origin(this.geometry, layer, head);
    return { layer, head, row: rowSpans[Math.floor(y - y0)], col: colSpans[Math.floor(x - x0)] };
  }

  onClick(event) {
    const hit = this.locate(event);
    if (!hit) return;
    this.choose([hit.layer, hit.head]);
    this.send();
  }

  onKey(event) {
    if (event.key === "Escape") return this.leave();
    const move = MOVES[event.key];
    const corner = event.ctrlKey && (event.key === "Home" || event.key === "End");
    if (!this.payload || event.altKey || event.metaKey || event.shiftKey || (event.ctrlKey && !corner)) return;
    if (!move && event.key !== "Enter") return;
    event.preventDefault();
    if (!move) return this.send();
    this.choose(move(this.selected, corner));
    clearTimeout(this.debounce);
    this.debounce = setTimeout(() => this.send(), DEBOUNCE);
  }

  onPointer(event) {
    const hit = this.locate(event);
    if (!hit) return this.leave();
    if (String(this.hovered) !== String([hit.layer, hit.head])) {
      this.hovered = [hit.layer, hit.head];
      this.paint();
      clearTimeout(this.rest);
      this.rest = setTimeout(() => this.probe(hit.layer, hit.head), REST);
    }
    this.pointed = { hit, x: event.clientX, y: event.clientY };
    this.tell();
  }

  tell() {
    const { hit, x, y } = this.pointed;
    this.tip.replaceChildren(element("b", "", this.title(hit)), ...this.describe(hit));
    this.tip.hidden = false;
    placeTip(this.box, this.tip, x, y);
  }

  leave() {
    clearTimeout(this.rest);
    this.pointed = null;
    this.tip.hidden = true;
    if (!this.hovered) return;
    this.hovered = null;
    this.paint();
  }

  title({ layer, head }) {
    const { score } = this.overlay;
    const parts = [`L${layer} H${head}`];
    if (this.isOff(layer, head)) parts.push("switched off");
    if (score) parts.push(`${score.label} ${score.full[layer][head]}`);
    return parts.join(" · ");
  }

  describe({ layer, head, row, col }) {
    if (!row || !col) return []; // in the gap
    if (row.padded || col.padded) return ["padding"];
    const { tokens, row_starts, col_starts, cols, pixels } = this.payload;
    const keys = this.payload.keys ?? tokens;
    const weights = this.exactly(layer, head);
    const { value, r, c } = strongest(weights ?? ofHead(pixels, this.payload, layer, head), cols, row, col);
    const weight = weights ? formatNumber(value) : weightText(value);
    const range = (starts, i, names) => (starts ? [starts[i], (starts[i + 1] ?? names.length) - 1] : [i, i]);
    const [query, lastQuery] = range(row_starts, r, tokens);
    const [key, lastKey] = range(col_starts, c, keys);
    if (query === lastQuery && key === lastKey) {
      const name = (text) => element("bdi", "", text);
      return ["query ", name(tokens[query]), " attends to key ", name(keys[key]), `: ${weight}`];
    }
    const run = (one, many, from, to) => (from === to ? `${one} ${from}` : `${many} ${from}–${to}`);
    const where = `${run("query", "queries", query, lastQuery)}, ${run("key", "keys", key, lastKey)}`;
    return [`${where}: strongest ${weight}`];
  }

}
