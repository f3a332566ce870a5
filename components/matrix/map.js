// A matrix as a map of colours: geometry and drawing. Lengths are CSS pixels; the context is scaled to the device.

const LABEL = 13; // a line of 12 px text
const LEGIBLE = 15; // pitch of cells in the window on a large matrix
const LARGEST = 96; // pitch of cells of a small matrix
const SMALLEST = { square: 5, free: 4 }; // pitch below which a matrix is seen through a window
const SCALES = { linear: "linear", sqrt: "square-root", log: "logarithmic" };

// Where a value stands between the ends of the colours, from 0 to 1.
function placeOf(value, { low, high, floor }, scale) {
  if (low < 0) return clamp((value - low) / (high - low), 0, 1);
  const share = clamp(value / high, 0, 1);
  if (scale === "sqrt") return Math.sqrt(share);
  if (scale === "log") return share <= floor ? 0 : 1 - Math.log(share) / Math.log(floor);
  return share;
}

function ticksOf({ low, high, floor }, scale) {
  if (low < 0) return [low, 0, high];
  return {
    linear: [0, 0.25, 0.5, 0.75, 1],
    sqrt: [0, 0.01, 0.1, 0.25, 0.5, 1],
    log: [1, 0.75, 0.5, 0.25, 0].map((place) => floor ** place),
  }[scale].map((share) => share * high);
}

// The ends of a bar of colours, and from its middle out all numbers between that touch no other. The ends stay within.
function labelTicks(context, theme, matrix, scale, width) {
  context.font = font(1, theme.family);
  const ticks = ticksOf(matrix, scale).map((value) => {
    const place = placeOf(value, matrix, scale);
    const [below, above] = [matrix.beyond[0] || (scale === "log" && matrix.low >= 0), matrix.beyond[1]];
    const text = `${{ 0: below ? "≤ " : "", 1: above ? "≥ " : "" }[place] ?? ""}${formatNumber(value)}`;
    const align = { 0: "left", 1: "right" }[place] ?? "center";
    const size = context.measureText(text).width;
    return { place, text, align, size, start: place * width - { left: 0, right: size, center: size / 2 }[align] };
  });
  const kept = [];
  const ends = (tick) => (tick.align === "center" ? Math.abs(tick.place - 0.5) : -1);
  for (const tick of ticks.sort((a, b) => ends(a) - ends(b)))
    if (kept.every((other) => tick.start > other.start + other.size + 4 || tick.start + tick.size + 4 < other.start))
      kept.push(tick);
  return kept;
}

// The text, or as many whole graphemes of it as fit `width`, and "…".
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const fitted = new Map();
function fitText(context, text, width) {
  const key = `${context.font} ${Math.round(width)} ${text}`;
  if (!fitted.has(key)) {
    if (fitted.size > 5000) fitted.clear();
    const parts = Array.from(graphemes.segment(text), ({ segment }) => segment);
    let shown = text;
    while (context.measureText(shown).width > width && parts.length > 1) {
      parts.pop();
      shown = `${parts.join("")}…`;
    }
    fitted.set(key, shown);
  }
  return fitted.get(key);
}

// The text in lines that fit the width, parted at its spaces.
function wrapText(context, text, width) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length && context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(fitText(context, word, width));
  }
  return lines;
}

const widest = (context, names, most) =>
  Math.min(most, names.reduce((width, name) => Math.max(width, Math.min(most, context.measureText(name).width)), 8));

// Whole where cells stay large enough to tell apart; else a window on it, beside an overview of all.
function measureMap(context, theme, matrix, width, height, origin) {
  const [n, m] = [matrix.rows.length, matrix.cols.length];
  context.font = font(1, theme.family, "bold");
  const left = Math.ceil(widest(context, matrix.rows, Math.min(110, width / 4))) + 12;
  const sides = matrix.sides.map((title, side) => {
    const numbers = matrix.rows.map((_, row) => formatNumber(matrix.sideValues[side * matrix.rows.length + row]));
    return Math.max(58, Math.ceil(widest(context, [title, ...numbers], width / 4)) + 14);
  });
  const right = sides.reduce((sum, side) => sum + side, 0) + 4;
  const longest = Math.ceil(widest(context, matrix.cols, 84));
  const pitches = (n, m, width, height) => {
    let [px, py] = [Math.min(LARGEST, width / m), Math.min(LARGEST, height / n)];
    if (matrix.square) px = py = Math.min(px, py);
    return [px, py];
  };
  const columnNames = (px) => (longest + 8 <= px ? LABEL + 6 : longest + 10); // level, or turned to read upwards
  const smallest = matrix.square ? SMALLEST.square : SMALLEST.free;
  let [top, shown, overview] = [columnNames(0), [0, 0, n, m], null];
  let [px, py] = pitches(n, m, width - left - right, height - top - 4);
  if (columnNames(px) < top) {
    top = columnNames(px);
    [px, py] = pitches(n, m, width - left - right, height - top - 4);
    if (columnNames(px) > top) top = columnNames(0), [px, py] = pitches(n, m, width - left - right, height - top - 4);
  }
  if (Math.min(px, py) < smallest && !matrix.whole) {
    let across = clamp(0.27 * width, 90, 240);
    if (!matrix.square) across = Math.min(across, Math.max(60, m * 2));
    const tall = matrix.square ? 0 : (height - top - 4) / n; // rows that all fit fill the height
    let down = Math.min(height - top - 4, matrix.square ? (across * n) / m : Math.max(60, n * 5));
    const room = width - left - right - across - 18;
    let columns = Math.max(1, Math.min(m, Math.floor(room / LEGIBLE)));
    px = LEGIBLE;
    if (!matrix.square && room / m >= smallest) [columns, px] = [m, Math.min(LARGEST, room / m)];
    const fit = tall >= LEGIBLE;
    const lines = fit ? n : Math.max(1, Math.min(n, Math.floor((height - top - 4) / LEGIBLE)));
    py = fit ? Math.min(LARGEST, tall) : LEGIBLE;
    if (fit) down = n * py;
    shown = [clamp(origin[0], 0, n - lines), clamp(origin[1], 0, m - columns), lines, columns];
    overview = { x: left + columns * px + right + 16, y: top, width: across, height: down };
  }
  const level = longest + 8 <= px;
  return { left, top, px, py, level, sides, shown, overview, longest };
}

// Every how many positions one is named.
function namingStep(pitch, group = 1) {
  const step = Math.max(1, Math.ceil(LABEL / pitch));
  if (group === 1 || step === 1) return step;
  for (let divisor = step; divisor < group; divisor++) if (group % divisor === 0) return divisor;
  return group * Math.ceil(step / group);
}

// Which of `count` positions are named: the important ones, the first of them first, and every nth that touches none.
function namedOf(first, count, pitch, step, important) {
  const free = (i, others) => others.every((other) => Math.abs(other - i) * pitch >= LABEL);
  const lit = [];
  for (const i of important) if (i !== null && i >= first && i < first + count && free(i, lit)) lit.push(i);
  const named = [...lit];
  for (let i = first; i < first + count; i++) if (i % step === 0 && free(i, lit)) named.push(i);
  return named;
}

function drawMap(context, theme, matrix, geometry, scale) {
  const { left, top, px, py, shown, overview } = geometry;
  const [r0, c0, n, m] = shown;
  const colours = colourTable(matrix.low < 0 ? theme.diverging : theme.ramp);
  const css = (word) => `rgb(${word & 255} ${(word >> 8) & 255} ${(word >> 16) & 255})`;
  const seam = Math.min(px, py) >= 14 ? 1 : 0;
  const box = { x: left, y: top, width: m * px, height: n * py };
  const tiny = matrix.whole && Math.min(px, py) < SMALLEST.free; // then a pixel may cover several cells
  if (tiny) drawPixels(context, theme, matrix, box, scale, colours);
  for (let r = 0; r < n && !tiny; r++)
    for (let c = 0; c < m; c++) {
      const value = matrix.values[(r0 + r) * matrix.cols.length + c0 + c];
      if (matrix.rowPadding[r0 + r] || matrix.colPadding[c0 + c] || Number.isNaN(value)) continue; // hatched below
      const [x0, x1] = [Math.round(left + c * px), Math.round(left + (c + 1) * px)];
      const [y0, y1] = [Math.round(top + r * py), Math.round(top + (r + 1) * py)];
      const word = colours[Math.round(255 * placeOf(value, matrix, scale))];
      context.fillStyle = css(word);
      context.fillRect(x0, y0, x1 - x0 - seam, y1 - y0 - seam);
      if (matrix.written) writeValue(context, theme, value, word, [x0, y0, px, py]);
    }
  const pattern = hatching(context, theme);
  for (let r = 0; r < n && !tiny; r++) {
    if (matrix.rowPadding[r0 + r]) hatched(0, r, m, 1);
    else
      for (let c = 0; c < m; c++)
        if (matrix.colPadding[c0 + c] || Number.isNaN(matrix.values[(r0 + r) * matrix.cols.length + c0 + c]))
          hatched(c, r, 1, 1);
  }
  function hatched(c, r, across, down) {
    context.fillStyle = pattern;
    context.fillRect(left + c * px, top + r * py, across * px - seam, down * py - seam);
  }
  context.strokeStyle = theme.border;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, m * px + 1, n * py + 1);
  if (matrix.row_group > 1 && py * matrix.row_group >= 8) {
    context.beginPath();
    for (let r = 0; r < n; r++)
      if ((r0 + r) % matrix.row_group === 0 && r) {
        context.moveTo(left - 6, Math.round(top + r * py) + 0.5);
        context.lineTo(left + m * px, Math.round(top + r * py) + 0.5);
      }
    context.stroke();
  }
  if (!overview) return;
  drawPixels(context, theme, matrix, overview, scale, colours);
  context.strokeRect(overview.x - 0.5, overview.y - 0.5, overview.width + 1, overview.height + 1);
}

// The value in the middle of its cell, dark on light and light on dark, where it has room.
function writeValue(context, theme, value, word, [x, y, px, py]) {
  context.font = font(1, theme.family);
  const text = formatNumber(value);
  if (context.measureText(text).width + 6 > px || py < LABEL + 4) return;
  const light = 0.299 * (word & 255) + 0.587 * ((word >> 8) & 255) + 0.114 * ((word >> 16) & 255) > 140;
  context.fillStyle = light ? "#10161f" : "#ffffff";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, x + px / 2, y + py / 2);
}

// All cells in a box: each pixel is the value furthest from 0 of the cells it covers.
function drawPixels(context, theme, matrix, box, scale, colours) {
  const dpr = context.getTransform().a;
  const [width, height] = [Math.round(box.width * dpr), Math.round(box.height * dpr)];
  const image = new ImageData(width, height);
  const out = new Uint32Array(image.data.buffer);
  const [back, line] = theme.hatch.map((hex) => abgr(rgb(hex)));
  const rows = spans(height, matrix.rowPadding);
  const cols = spans(width, matrix.colPadding);
  const m = matrix.cols.length;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const [row, col] = [rows[y], cols[x]];
      let [best, found] = [0, false];
      if (!row.padded && !col.padded)
        for (let r = row.from; r < row.to; r++)
          for (let c = col.from; c < col.to; c++) {
            const value = matrix.values[r * m + c];
            if (matrix.rowPadding[r] || Number.isNaN(value)) continue;
            if (!found || Math.abs(value) > Math.abs(best)) [best, found] = [value, true];
          }
      const hatch = (x + y) % Math.round(5 * dpr) < 1.2 * dpr ? line : back;
      out[y * width + x] = found ? colours[Math.round(255 * placeOf(best, matrix, scale))] : hatch;
    }
  context.putImageData(image, Math.round(box.x * dpr), Math.round(box.y * dpr)); // device pixels
}

function hatching(context, theme) {
  const dpr = context.getTransform().a;
  const tile = document.createElement("canvas");
  const size = (tile.width = tile.height = Math.round(6 * dpr));
  const pen = tile.getContext("2d");
  pen.fillStyle = theme.hatch[0];
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = theme.hatch[1];
  pen.lineWidth = 1.2 * dpr;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / dpr)); // the tile is in device pixels
  return pattern;
}

// Names, numbers beside the rows, the cross, the choice and the frame of the window: all that moves with the pointer.
function drawMarks(context, theme, matrix, geometry, { cross, marked }) {
  const { left, top, px, py, level, shown, overview, sides } = geometry;
  const [r0, c0, n, m] = shown;
  const inside = (row, col) => row >= r0 && row < r0 + n && col >= c0 && col < c0 + m;
  const band = (row, col, colour, width) => {
    context.strokeStyle = colour;
    context.lineWidth = width;
    const grow = width / 2;
    if (row !== null && row >= r0 && row < r0 + n)
      context.strokeRect(left - grow, top + (row - r0) * py - grow, m * px + width, py + width);
    if (col !== null && col >= c0 && col < c0 + m)
      context.strokeRect(left + (col - c0) * px - grow, top - grow, px + width, n * py + width);
  };
  if (matrix.chosen_row !== null) band(matrix.chosen_row, null, theme.accent, 2);
  band(marked.row, marked.col, theme.accent, 1);
  if (cross) {
    band(cross.row, cross.col, theme.ink, 1);
    if (cross.row !== null && cross.col !== null && inside(cross.row, cross.col)) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(left + (cross.col - c0) * px - 1, top + (cross.row - r0) * py - 1, px + 2, py + 2);
    }
  }
  context.textBaseline = "middle";
  const strong = (side) => [cross?.[side] ?? null, marked[side], side === "row" ? matrix.chosen_row : null];
  const name = (i, important, padded, text, x, y, width) => {
    context.globalAlpha = padded ? 0.5 : 1;
    context.fillStyle = theme.ink;
    if (i === important[0]) {
      context.fillStyle = theme.accent;
      context.fillRect(x - 4, y - 7, width + 8, 14);
      context.fillStyle = theme.surface;
    }
    context.textAlign = "left";
    context.fillText(text, x, y);
    context.globalAlpha = 1;
  };
  const weight = (lit) => (context.font = font(1, theme.family, lit ? "bold" : ""));
  let important = strong("row");
  for (const i of namedOf(r0, n, py, namingStep(py, matrix.row_group), important)) {
    weight(important.includes(i));
    const text = fitText(context, matrix.rows[i], left - 12);
    const width = context.measureText(text).width;
    name(i, important, matrix.rowPadding[i], text, left - 6 - width, top + (i - r0 + 0.5) * py, width);
  }
  important = strong("col");
  for (const i of namedOf(c0, m, px, level ? 1 : namingStep(px), important)) {
    weight(important.includes(i));
    const text = fitText(context, matrix.cols[i], level ? px : geometry.longest);
    const width = context.measureText(text).width;
    context.save();
    context.translate(left + (i - c0 + 0.5) * px, top - (level ? 11 : 6));
    if (!level) context.rotate(-Math.PI / 2); // reads upwards
    name(i, important, matrix.colPadding[i], text, level ? -width / 2 : 0, 0, width);
    context.restore();
  }
  let x = left + m * px;
  context.fillStyle = theme.ink;
  context.textAlign = "right";
  sides.forEach((width, side) => {
    x += width;
    weight(true);
    context.fillText(matrix.sides[side], x, top - 9 - Math.max(0, (LABEL - py) / 2));
    for (const row of namedOf(r0, n, py, namingStep(py), [cross?.row ?? null])) {
      if (matrix.rowPadding[row]) continue;
      weight(row === cross?.row);
      context.fillText(formatNumber(matrix.sideValues[side * matrix.rows.length + row]), x, top + (row - r0 + 0.5) * py);
    }
  });
  if (!overview) return;
  const across = overview.width / matrix.cols.length;
  const down = overview.height / matrix.rows.length;
  context.strokeStyle = theme.accent;
  context.lineWidth = 2;
  context.strokeRect(overview.x + c0 * across, overview.y + r0 * down, Math.max(4, m * across), Math.max(4, n * down));
}

// First row and column of the window whose middle is at a point of the overview.
function originAt(matrix, { shown, overview }, x, y) {
  const first = (at, all, count) => clamp(Math.round(at * all - count / 2), 0, all - count);
  return [
    first((y - overview.y) / overview.height, matrix.rows.length, shown[2]),
    first((x - overview.x) / overview.width, matrix.cols.length, shown[3]),
  ];
}

// What lies under a point: a cell, a name, or the overview.
function locateInMap({ left, top, px, py, shown, overview }, matrix, x, y) {
  const [r0, c0, n, m] = shown;
  const within = (at, start, size) => at >= start && at <= start + size;
  if (overview && within(x, overview.x, overview.width) && within(y, overview.y, overview.height))
    return { overview: true };
  const [row, col] = [Math.floor((y - top) / py), Math.floor((x - left) / px)];
  const [inRows, inCols] = [row >= 0 && row < n, col >= 0 && col < m];
  if (!inRows && !inCols) return null;
  if (inRows && x < left) return { row: r0 + row, col: null };
  if (inCols && y < top) return { row: null, col: c0 + col };
  return inRows && inCols ? { row: r0 + row, col: c0 + col } : null;
}
