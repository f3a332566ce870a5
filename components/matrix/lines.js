// A matrix as lines from the names of its rows to the names of its columns: as strong as the value is.

const MOST_LINES = 3000;
const FAINTEST = 0.02; // value below which lines are left out while no name is pointed at, or half an even share if less
const NUMBERS = 62; // width of the numbers beside the names
const SMALLEST_NUMBER = 1e-4; // below it a number has an exponent, for which there is no room

function measureLines(context, theme, matrix, scale, width, height) {
  context.font = font(1, theme.family, "bold");
  const most = Math.min(130, width / 4);
  const [left, right] = [matrix.rows, matrix.cols].map((names) => Math.ceil(widest(context, names, most)));
  const top = LABEL + 12;
  const pitch = (count) => Math.min(40, (height - top - 6) / count);
  return {
    top,
    names: [left, right],
    x: [NUMBERS + left + 10, width - NUMBERS - right - 10],
    pitch: [pitch(matrix.rows.length), pitch(matrix.cols.length)],
    lines: linesOf(matrix, scale, null),
  };
}

// The lines that are drawn, weakest first: all of the name that is pointed at, or the strongest of all.
function linesOf(matrix, scale, focus) {
  const [n, m] = [matrix.rows.length, matrix.cols.length];
  const found = [];
  const keys = matrix.colPadding.filter((padded) => !padded).length;
  const faintest = focus ? 0 : Math.min(FAINTEST, 0.5 / keys) * matrix.high;
  for (let row = 0; row < n; row++) {
    if (matrix.rowPadding[row] || (focus && focus.row !== null && focus.row !== row)) continue;
    for (let col = 0; col < m; col++) {
      if (matrix.colPadding[col] || (focus && focus.col !== null && focus.col !== col)) continue;
      const value = matrix.values[row * m + col];
      if (value > faintest) found.push({ row, col, value, place: placeOf(value, matrix, scale) });
    }
  }
  found.sort((a, b) => a.value - b.value);
  return found.slice(-MOST_LINES);
}

function drawLines(context, theme, matrix, geometry, scale, { cross, marked }) {
  const { top, x, pitch, names } = geometry;
  const focus = cross && (cross.row === null) !== (cross.col === null) ? cross : null;
  const at = (side, i) => top + (i + 0.5) * pitch[side];
  const lines = focus ? linesOf(matrix, scale, focus) : geometry.lines;
  context.strokeStyle = theme.ramp[3];
  context.lineCap = "round";
  for (const { row, col, place } of lines) {
    context.globalAlpha = focus ? 0.35 + 0.55 * place : 0.12 + 0.78 * place; // few lines need not be faint
    context.lineWidth = 0.4 + 4.6 * place;
    context.beginPath();
    context.moveTo(x[0], at(0, row));
    context.lineTo(x[1], at(1, col));
    context.stroke();
  }
  context.globalAlpha = 1;
  context.textBaseline = "middle";
  context.fillStyle = theme.ink;
  context.font = font(1, theme.family, "bold");
  ["right", "left"].forEach((align, side) => {
    context.textAlign = align;
    context.fillText([matrix.row_title, matrix.col_title][side], x[side] + [-6, 6][side], LABEL / 2 + 1);
  });

  // The name pointed at, then its strongest partners with their numbers, then every nth that has room.
  const partners = focus ? lines.slice(-24).reverse() : [];
  [matrix.rows, matrix.cols].forEach((all, side) => {
    const key = ["row", "col"][side];
    const padding = [matrix.rowPadding, matrix.colPadding][side];
    const taken = [];
    const name = (i, kind, number = null) => {
      if (taken.some((other) => Math.abs(other - i) * pitch[side] < LABEL - 1)) return;
      taken.push(i);
      const y = at(side, i);
      context.textAlign = ["right", "left"][side];
      context.font = font(1, theme.family, kind ? "bold" : "");
      const text = fitText(context, all[i], names[side]);
      const start = x[side] + [-6, 6][side];
      const width = context.measureText(text).width;
      if (kind === "focus") {
        context.fillStyle = theme.accent;
        context.fillRect(side ? start - 3 : start - width - 3, y - 8, width + 6, 16);
      }
      context.fillStyle = kind === "focus" ? theme.surface : theme.ink;
      context.globalAlpha = padding[i] || (focus && !kind) ? 0.45 : 1;
      context.fillText(text, start, y);
      context.globalAlpha = 1;
      if (kind === "marked") {
        context.fillStyle = theme.accent;
        context.fillRect(side ? start + width + 3 : start - width - 6, y - 5, 3, 10);
      }
      if (number === null) return;
      context.font = font(1, theme.family);
      context.fillStyle = theme.ink;
      context.fillText(number, start + [-1, 1][side] * (width + 10), y);
    };
    if (focus?.[key] != null) name(focus[key], "focus");
    for (const line of partners)
      if (focus[key] === null && line.value >= SMALLEST_NUMBER) name(line[key], "partner", formatNumber(line.value));
    if (!focus && marked[key] !== null) name(marked[key], "marked");
    const step = namingStep(pitch[side]);
    for (let i = 0; i < all.length; i += step) name(i, "");
  });
}

function locateInLines({ top, pitch, x }, matrix, px, py) {
  const side = px < (x[0] + x[1]) / 2 ? 0 : 1;
  const i = Math.floor((py - top) / pitch[side]);
  if (i < 0 || i >= [matrix.rows, matrix.cols][side].length) return null;
  return side ? { row: null, col: i } : { row: i, col: null };
}
