// The matrix on the page: what is pointed at, chosen and said. map.js and lines.js, in front of this file, draw it.

const PATIENCE = 10_000; // ms until an unanswered pick gives way to what the server said last
const NOWHERE = { row: null, col: null };
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const matrices = new WeakMap(); // one a mounted component

export default function ({ data, parentElement, setTriggerValue }) {
  if (!matrices.has(parentElement)) matrices.set(parentElement, new MatrixCanvas(parentElement));
  return matrices.get(parentElement).show(data, setTriggerValue);
}

function decodeMatrix(data) {
  const [header, body] = readPacket(data);
  if (header.version !== 1) throw new Error(`matrix: payload version ${header.version}, expected 1`);
  const cells = header.rows.length * header.cols.length;
  const aligned = body.byteOffset % 4 ? body.slice() : body;
  const floats = new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
  return {
    ...header,
    values: floats.subarray(0, cells),
    sideValues: floats.subarray(cells),
    rowPadding: header.row_padding,
    colPadding: header.col_padding,
  };
}

class MatrixCanvas {
  constructor(root) {
    this.root = root;
    this.host = root.host ?? root;
    this.calls = 0;
    this.painted = 0;
    this.sent = 0; // serial of the last pick
    this.mode = "map";
    this.scale = "linear";
    this.marked = NOWHERE;
    this.cross = null; // what is pointed at, by mouse or keys
    this.origin = null; // first row and column in the window
    this.dragging = false;
    this.base = document.createElement("canvas");
    this.build();
    this.listen();
  }

  build() {
    this.name = element("b", "");
    this.bar = element("div", "bar");
    this.scaleBox = element("div", "scale", this.bar);
    this.unit = element("span", "unit");
    this.head = element("div", "head", this.name, element("span", "legend", this.unit, this.scaleBox));
    this.caption = element("span", "");
    this.save = element("button", "", "Save picture");
    this.save.type = "button";
    this.foot = element("div", "caption", this.caption, this.save);
    this.canvas = element("canvas", "");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    this.live = element("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.box = element("div", "box", this.head, this.foot, this.canvas, this.tip, this.live);
    this.root.append(this.box);
  }

  listen() {
    this.abort = new AbortController();
    this.print = matchMedia("print");
    this.on(this.canvas, "pointerdown", (event) => this.onDown(event));
    this.on(this.canvas, "pointermove", (event) => this.onMove(event));
    this.on(this.canvas, "pointercancel", () => (this.dragging = false));
    this.on(this.canvas, "pointerleave", () => this.point(null));
    this.on(this.canvas, "click", (event) => this.onClick(event));
    this.on(this.canvas, "keydown", (event) => this.onKey(event));
    this.on(this.canvas, "blur", () => this.point(null));
    this.on(this.save, "click", () => this.savePicture());
    this.on(window, "canvas-announcement", () => this.readAnnouncement());
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
    this.readAnnouncement();
    if (data && data !== this.data) {
      const before = this.matrix;
      this.data = data;
      this.matrix = decodeMatrix(data);
      this.cross = null;
      this.tip.hidden = true;
      const same = before && ["rows", "cols"].every((side) => before[side].length === this.matrix[side].length);
      if (!same) this.origin = null; // the window stays where it was on a matrix of the same size
    }
    this.layout();
    return () => call === this.calls && this.dispose();
  }

  dispose() {
    clearTimeout(this.patience);
    this.abort.abort();
    this.observer.disconnect();
    this.box.remove();
    this.matrix = null;
    matrices.delete(this.root);
  }

  readAnnouncement() {
    const announcement = announced(this.host);
    if (!announcement) return;
    const { mode, scale, row, col, echo } = announcement;
    if (this.patience && echo !== this.sent) return; // older than a pick on its way
    this.stopWaiting();
    this.sent = echo;
    const moved = this.marked.row !== row;
    const changed = moved || this.marked.col !== col || this.mode !== mode || this.scale !== scale;
    [this.mode, this.scale, this.marked] = [mode, scale, { row, col }];
    if (moved && this.matrix) this.scroll(this.revealed(row, null));
    if (changed) this.layout();
  }

  // ---- drawing

  layout() {
    const { matrix, box } = this;
    if (!matrix || !box.clientWidth || !box.clientHeight) return;
    this.watchDensity();
    this.theme = readTheme(getComputedStyle(box), this.print.matches);
    this.describe();
    const width = box.clientWidth;
    const room = () => box.clientHeight - this.head.offsetHeight - this.foot.offsetHeight;
    this.caption.textContent = "";
    let height;
    do {
      height = room();
      this.measure(width, height);
      this.say();
    } while (room() < height); // the caption took a line more
    const { dpr } = this;
    for (const canvas of [this.canvas, this.base]) {
      canvas.width = Math.round(width * dpr);
      canvas.height = Math.round(height * dpr);
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    if (this.mode === "map") drawMap(this.pen(this.base), this.theme, matrix, this.geometry, this.scale);
    this.paint();
  }

  measure(width, height) {
    const { matrix, theme } = this;
    const pen = this.pen(this.canvas);
    if (this.mode === "lines") return (this.geometry = measureLines(pen, theme, matrix, this.scale, width, height));
    const from = (origin) => (this.geometry = measureMap(pen, theme, matrix, width, height, origin));
    if (!this.origin) from([0, 0]);
    this.origin ??= this.revealed(this.marked.row ?? matrix.chosen_row, null);
    this.origin = from(this.origin).shown.slice(0, 2);
  }

  pen(canvas) {
    const context = canvas.getContext("2d");
    context.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    return context;
  }

  paint() {
    const { canvas, theme } = this;
    if (!this.geometry) return;
    const context = this.pen(canvas);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.fillStyle = theme.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (this.mode === "lines") drawLines(context, theme, this.matrix, this.geometry, this.scale, this);
    else {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(this.base, 0, 0);
      this.pen(canvas);
      drawMarks(context, theme, this.matrix, this.geometry, this);
    }
    [canvas.matrix, canvas.geometry] = [this.matrix, this.geometry]; // for whoever looks at the page with tools
    canvas.dataset.painted = String(++this.painted);
    canvas.dataset.mode = this.mode;
    canvas.dataset.scale = this.scale;
  }

  watchDensity() {
    if (this.dpr === window.devicePixelRatio) return;
    this.dpr = window.devicePixelRatio;
    this.on(matchMedia(`(resolution: ${this.dpr}dppx)`), "change", () => this.layout(), { once: true });
  }

  // Title, legend and what a screen reader says.
  describe() {
    const { matrix, theme, scale } = this;
    const diverging = matrix.low < 0;
    const word = diverging ? "linear" : SCALES[scale];
    this.name.textContent = matrix.title;
    this.unit.textContent = `${matrix.unit}${word === "linear" ? "" : `, ${word} colour`}`;
    this.bar.style.background = `linear-gradient(to right, ${(diverging ? theme.diverging : theme.ramp).join(", ")})`;
    const width = this.box.clientWidth < 400 ? 110 : 180;
    this.scaleBox.style.width = `${width}px`;
    this.ticks = labelTicks(this.pen(this.canvas), theme, matrix, scale, width);
    const labels = this.ticks.map(({ place, text, align }) => {
      const tick = element("span", `tick ${align}`, text);
      tick.style.left = `${100 * place}%`;
      return tick;
    });
    this.scaleBox.replaceChildren(this.bar, ...labels);
  }

  // The rules of the picture: which names are left out, what is not drawn.
  say() {
    const { matrix, geometry } = this;
    const [n, m] = [matrix.rows.length, matrix.cols.length];
    const count = (number, noun) => `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
    const naming = (rows, cols, row, col) => {
      const every = (step, what) => (step > 1 ? [`every ${ordinal(step)} ${what}named`] : []);
      return rows === cols ? every(rows, "") : [...every(rows, `${row} `), ...every(cols, `${col} `)];
    };
    const parts = [];
    if (this.mode === "lines") {
      const real = (padding) => padding.filter((padded) => !padded).length;
      const [drawn, all] = [geometry.lines.length, real(matrix.rowPadding) * real(matrix.colPadding)];
      const steps = geometry.pitch.map((pitch) => namingStep(pitch));
      if (drawn < all) parts.push(`the strongest ${formatCount(drawn)} of ${count(all, "line")}`);
      else parts.push("lines as strong as weights");
      parts.push("point at a token for all its own");
      parts.push(...naming(...steps, "token at the left", "token at the right"));
    } else {
      const [, , rows, cols] = geometry.shown;
      parts.push(`${matrix.row_title} ↓`, `${matrix.col_title} →`);
      if (geometry.overview)
        parts.push(`${rows} × ${cols} of ${n} × ${m}: drag the frame`);
      const across = geometry.level ? 1 : namingStep(geometry.px);
      parts.push(...naming(namingStep(geometry.py, matrix.row_group), across, "row", "column"));
    }
    if ([...matrix.rowPadding, ...matrix.colPadding].some(Boolean)) parts.push("hatched: padding");
    this.caption.textContent = parts.join(" · ");
    const said = `${matrix.title}: ${count(n, "row")} by ${count(m, "column")}. ${parts.join(", ")}.`;
    this.canvas.setAttribute("aria-label", `${said} Arrow keys move, Enter chooses.`);
  }

  // ---- mouse and keyboard

  locate(event) {
    if (!this.geometry) return null;
    const inside = this.mode === "lines" ? locateInLines : locateInMap;
    return inside(this.geometry, this.matrix, event.offsetX, event.offsetY);
  }

  onDown(event) {
    this.dragging = Boolean(this.locate(event)?.overview);
    if (!this.dragging) return;
    event.preventDefault();
    this.canvas.focus({ focusVisible: false }); // a press that is prevented moves no focus
    this.canvas.setPointerCapture(event.pointerId);
    this.drag(event);
  }

  onMove(event) {
    if (this.dragging && event.buttons) return this.drag(event);
    const hit = this.locate(event);
    this.canvas.style.cursor = hit?.overview ? "move" : hit ? "crosshair" : "default";
    this.point(hit && !hit.overview ? hit : null, event);
  }

  drag(event) {
    this.scroll(originAt(this.matrix, this.geometry, event.offsetX, event.offsetY));
  }

  // Comes after every press, also where a drag of the window ends on a cell.
  onClick(event) {
    const hit = this.dragging ? null : this.locate(event);
    this.dragging = false;
    if (hit) this.pick(hit);
  }

  onKey(event) {
    if (event.altKey || event.metaKey || event.shiftKey || event.ctrlKey || !this.matrix) return;
    const { matrix, mode } = this;
    const [n, m] = [matrix.rows.length, matrix.cols.length];
    if (event.key === "Escape") return this.point(null);
    if (event.key === "Enter") {
      event.preventDefault();
      return this.cross && this.pick(this.cross);
    }
    const start = this.cross ?? { row: this.marked.row ?? 0, col: mode === "lines" ? null : this.marked.col ?? 0 };
    let next = null;
    if (STEPS[event.key] && mode === "lines") {
      const [down, across] = STEPS[event.key];
      const at = start.row ?? start.col;
      const right = across ? across > 0 : start.row === null;
      next = right ? { row: null, col: clamp(at + down, 0, m - 1) } : { row: clamp(at + down, 0, n - 1), col: null };
    } else if (STEPS[event.key]) {
      const [down, across] = this.cross ? STEPS[event.key] : [0, 0];
      next = { row: clamp((start.row ?? 0) + down, 0, n - 1), col: clamp((start.col ?? 0) + across, 0, m - 1) };
    } else if (event.key === "Home" || event.key === "End") {
      const last = event.key === "End";
      if (mode !== "lines") next = { row: start.row ?? 0, col: last ? m - 1 : 0 };
      else next = start.row === null ? { row: null, col: last ? m - 1 : 0 } : { row: last ? n - 1 : 0, col: null };
    }
    if (!next) return;
    event.preventDefault();
    this.scroll(this.revealed(next.row, next.col));
    this.point(next);
    this.live.textContent = this.sentences(next).map((parts) => parts.map(({ text }) => text).join("")).join(". ");
  }

  // Shows a cross and what it is about; beside the pointer, or beside the cell that keys led to.
  point(hit, event = null) {
    if (hit || this.cross) {
      const moved = hit?.row !== this.cross?.row || hit?.col !== this.cross?.col;
      this.cross = hit;
      if (moved) this.paint();
    }
    const lines = hit ? this.sentences(hit) : [];
    this.tip.hidden = !lines.length;
    if (!lines.length) return;
    const shown = ({ text, name }) => (name ? element("bdi", "", text) : text); // a name cannot turn the sentence around
    this.tip.replaceChildren(...lines.map((parts) => element("div", "", ...parts.map(shown))));
    const canvas = this.canvas.getBoundingClientRect();
    const spot = event ? [event.clientX, event.clientY] : this.spot(hit).map((v, i) => v + [canvas.left, canvas.top][i]);
    // Beside a name with its lines, the names and numbers at their other ends stay in sight.
    const ends = this.mode === "lines" ? this.geometry.x : [];
    placeTip(this.box, this.tip, ...spot, ...(hit.row === null ? [ends[0], undefined] : [undefined, ends[1]]));
  }

  spot({ row, col }) {
    const { geometry } = this;
    if (this.mode === "lines") {
      const side = row === null ? 1 : 0;
      return [geometry.x[side], geometry.top + ((row ?? col) + 1) * geometry.pitch[side]];
    }
    const [r0, c0] = geometry.shown;
    return [geometry.left + ((col ?? c0) - c0 + 1) * geometry.px, geometry.top + ((row ?? r0) - r0 + 1) * geometry.py];
  }

  // "query it attends to key animal: 0.677": of a cell, or the three strongest of a name. In parts: words and names.
  sentences({ row, col }) {
    const { matrix } = this;
    const m = matrix.cols.length;
    const [before, between, after] = matrix.phrase;
    const said = (r, c) => {
      const value = matrix.values[r * m + c];
      const number = Number.isNaN(value) ? "no value" : formatNumber(value);
      const name = (text) => ({ text, name: true });
      return [{ text: before }, name(matrix.rows[r]), { text: between }, name(matrix.cols[c]), { text: after + number }];
    };
    if ((row !== null && matrix.rowPadding[row]) || (col !== null && matrix.colPadding[col]))
      return [[{ text: "padding: not part of the text" }]];
    if (row !== null && col !== null) {
      const side = (title, i) => `${title} ${formatNumber(matrix.sideValues[i * matrix.rows.length + row])}`;
      return [said(row, col), ...(matrix.sides.length ? [[{ text: matrix.sides.map(side).join(", ") }]] : [])];
    }
    const pairs = [];
    for (let i = 0; i < (row === null ? matrix.rows.length : m); i++) {
      const [r, c] = row === null ? [i, col] : [row, i];
      const size = Math.abs(matrix.values[r * m + c]);
      if (!matrix.rowPadding[r] && !matrix.colPadding[c] && !Number.isNaN(size)) pairs.push([size, r, c]);
    }
    pairs.sort((a, b) => b[0] - a[0]);
    return pairs.slice(0, 3).map(([, r, c]) => said(r, c));
  }

  pick({ row, col }) {
    this.stopWaiting();
    this.sent += 1;
    this.marked = { row, col: null };
    this.setTriggerValue("pick", { row, col, serial: this.sent });
    this.patience = setTimeout(() => {
      this.stopWaiting();
      this.readAnnouncement();
    }, PATIENCE);
    this.paint();
  }

  stopWaiting() {
    clearTimeout(this.patience);
    this.patience = null;
  }

  // ---- the window on a large matrix

  scroll(origin) {
    if (String(origin) === String(this.origin)) return;
    this.origin = origin;
    this.layout();
  }

  // The window moved as little as needed to have a row and a column in it; far away, so that they are in its middle.
  revealed(row, col) {
    if (!this.geometry?.overview) return this.origin ?? [0, 0];
    const [r0, c0, n, m] = this.geometry.shown;
    const moved = (first, count, wanted) => {
      if (wanted === null || (wanted >= first && wanted < first + count)) return first;
      const step = wanted < first ? first - wanted : wanted - first - count + 1;
      return step <= 2 ? first + (wanted < first ? -step : step) : wanted - Math.floor(count / 2);
    };
    const beside = this.matrix.square && !this.cross ? row : null; // a token that was chosen elsewhere, on the diagonal
    return [moved(r0, n, row), moved(c0, m, col ?? beside)];
  }

  // ---- words and pictures

  // The canvas as a PNG below its title, legend and caption, on the background of the page. Made in the browser.
  savePicture() {
    const { canvas, theme, matrix, dpr, ticks } = this;
    const picture = element("canvas", "");
    const pen = this.pen(picture);
    const [edge, line, bar] = [8, 17, parseInt(this.scaleBox.style.width)];
    const width = canvas.width / dpr - 2 * edge;
    const write = (text, y, lit = "") => {
      pen.font = font(1, theme.family, lit);
      return wrapText(pen, text, width).map((part, i) => [part, y + i * line, lit]);
    };
    const title = write(matrix.title, 16, "bold");
    const legend = 16 + title.length * line; // bar and unit in a line, numbers in the next
    const caption = write(this.caption.textContent, legend + 2 * line);
    const space = Math.ceil((legend + (2 + caption.length) * line) * dpr);
    [picture.width, picture.height] = [canvas.width, canvas.height + space];
    pen.fillStyle = theme.surface;
    pen.fillRect(0, 0, picture.width, picture.height);
    pen.drawImage(canvas, 0, space);
    this.pen(picture);
    const colours = pen.createLinearGradient(edge, 0, edge + bar, 0);
    const ramp = matrix.low < 0 ? theme.diverging : theme.ramp;
    ramp.forEach((colour, i) => colours.addColorStop(i / (ramp.length - 1), colour));
    pen.fillStyle = colours;
    pen.fillRect(edge, legend - 10, bar, 10);
    pen.fillStyle = theme.ink;
    for (const [part, y, lit] of [...title, ...caption]) {
      pen.font = font(1, theme.family, lit);
      pen.fillText(part, edge, y);
    }
    pen.font = font(1, theme.family);
    pen.fillText(this.unit.textContent, edge + bar + 10, legend);
    for (const { text, start } of ticks) pen.fillText(text, edge + start, legend + 15);
    picture.toBlob((blob) => {
      const link = element("a", "");
      link.href = URL.createObjectURL(blob);
      link.download = `encoder-explorer-${matrix.file}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), PATIENCE); // once it is read
    });
  }
}

const formatCount = (number) => number.toLocaleString("en-US");

function ordinal(n) {
  const ending = n % 100 >= 10 && n % 100 <= 20 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[n % 10] ?? "th");
  return `${n}${ending}`;
}
