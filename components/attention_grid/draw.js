// What the grid looks like: bytes, size and theme in, pixels out. It stands in front of grid.js, in one module.
// Lengths are device pixels unless a name says otherwise.

const PLATE = 30; // CSS px: the smallest tile that has room for a number

const small = (dpr, family) => `${10 * dpr}px ${family}`;

function decode(data) {
  const [header, body] = readPacket(data);
  if (header.version !== 2) throw new Error(`attention grid: payload version ${header.version}, expected 2`);
  const { n_layers, n_heads, rows, cols, query_padding, key_padding, masked, row_starts, col_starts } = header;
  const count = n_layers * n_heads * rows * cols;
  return {
    ...header,
    pixels: body.subarray(0, count),
    weights: header.exact ? new Float32Array(body.slice(count).buffer) : null, // a copy: floats must be aligned
    rowPadding: query_padding,
    colPadding: masked ? key_padding : key_padding.map(() => 0), // without the mask padded keys took real weight
    pooled: Boolean(row_starts || col_starts),
  };
}

// The largest square tiles that fit, with 4 px to spare for the focus ring; null where not one pixel fits.
// With a score the names have a mean beside or below them, and the gap has a bar.
function measure(context, payload, theme, dpr, cssWidth, cssHeight, score) {
  const { n_layers, n_heads, rows, cols, rowPadding, colPadding } = payload;
  context.font = font(dpr, theme.family, "bold");
  const headWidth = context.measureText(`H${n_heads - 1}`).width;
  const names = Math.ceil(context.measureText(`L${n_layers - 1}`).width + 7 * dpr);
  context.font = small(dpr, theme.family);
  const widest = (texts) => Math.ceil(Math.max(...texts.map((text) => context.measureText(text).width)));
  const left = names + (score ? widest(score.layers) + Math.round(4 * dpr) : 0);
  const top = Math.round((score ? 30 : 18) * dpr);
  const meanWidth = score ? widest(score.heads) : 0;
  const spare = Math.round(4 * dpr);
  const [width, height] = [cssWidth * dpr - left - spare, cssHeight * dpr - top - spare];
  const pitch = Math.floor(Math.min(width / n_heads, height / n_layers));
  if (pitch < 1) return null;
  const roomy = pitch > 12 * dpr; // a gap that the frame fits into, or the thinnest that still parts tiles
  const least = score ? (pitch > 22 * dpr ? 6 : 4) : 3; // CSS px
  const gap = roomy ? Math.round(clamp(pitch * 0.08, least * dpr, 8 * dpr)) : Number(pitch > 2);
  let tile = pitch - gap;
  const cells = Math.max(rows, cols);
  const equal = Math.floor(tile / cells) * cells; // cells of one size, when that costs little
  if (equal >= 0.85 * tile) tile = equal;
  const geometry = { dpr, names, left, top, spare, roomy, gap, tile, pitch: tile + gap, shrunk: tile < cells };
  return { ...geometry, headWidth, meanWidth, rowSpans: spans(tile, rowPadding), colSpans: spans(tile, colPadding) };
}

function origin({ left, top, pitch, gap }, layer, head) {
  const inset = Math.floor(gap / 2);
  return [left + head * pitch + inset, top + layer * pitch + inset];
}

// The part of an array [layer, head, row, col] that is one head.
function ofHead(array, { n_heads, rows, cols }, layer, head) {
  const from = (layer * n_heads + head) * rows * cols;
  return array.subarray(from, from + rows * cols);
}

// The strongest cell of one pixel: what is drawn, and what the tooltip speaks of. `cells` are codes or weights.
function strongest(cells, cols, row, col) {
  const best = { value: -1, r: row.from, c: col.from };
  for (let r = row.from; r < row.to; r++)
    for (let c = col.from; c < col.to; c++) {
      const value = cells[r * cols + c];
      if (value > best.value) Object.assign(best, { value, r, c });
    }
  return best;
}

// All tiles without choice and hover; made again only for new data, another size or another theme.
function drawTiles(canvas, payload, geometry, theme) {
  const { n_layers, n_heads } = payload;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const out = new Uint32Array(image.data.buffer);
  const colours = colourTable(theme.ramp);
  const hatch = theme.hatch.map((hex) => abgr(rgb(hex)));
  for (let layer = 0; layer < n_layers; layer++)
    for (let head = 0; head < n_heads; head++)
      fillTile(out, canvas.width, payload, geometry, colours, hatch, layer, head);
  context.putImageData(image, 0, 0);
  for (let layer = 0; layer < n_layers; layer++)
    for (let head = 0; head < n_heads; head++) frame(context, geometry, layer, head, theme.border, 1);
}

function fillTile(out, stride, payload, geometry, colours, hatch, layer, head) {
  const { n_heads, rows, cols, pixels } = payload;
  const { dpr, tile, rowSpans, colSpans } = geometry;
  const period = Math.round(5 * dpr);
  const line = Math.max(1, Math.round(1.2 * dpr));
  const first = (layer * n_heads + head) * rows * cols;
  const [x0, y0] = origin(geometry, layer, head);
  for (let y = 0; y < tile; y++) {
    const row = rowSpans[y];
    const at = (y0 + y) * stride + x0;
    for (let x = 0; x < tile; x++) {
      const col = colSpans[x];
      if (row.padded || col.padded) {
        out[at + x] = hatch[(x0 + x + y0 + y) % period < line ? 1 : 0];
        continue;
      }
      let code = 0;
      for (let r = row.from; r < row.to; r++)
        for (let c = col.from; c < col.to; c++) code = Math.max(code, pixels[first + r * cols + c]);
      out[at + x] = colours[code];
    }
  }
}

// A frame around a tile, in the gap: no cell is covered.
function frame(context, geometry, layer, head, colour, width) {
  const [x, y] = origin(geometry, layer, head);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(x - width / 2, y - width / 2, geometry.tile + width, geometry.tile + width);
}

// Heads that are switched off: faint and crossed out.
function drawOff(context, geometry, theme, off) {
  const { dpr, tile } = geometry;
  for (const [layer, head] of off) {
    const [x, y] = origin(geometry, layer, head);
    context.globalAlpha = 0.65;
    context.fillStyle = theme.surface;
    context.fillRect(x, y, tile, tile);
    context.globalAlpha = 0.75;
    context.strokeStyle = theme.ink;
    context.lineWidth = Math.max(1, Math.round(dpr));
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + tile, y + tile);
    context.moveTo(x + tile, y);
    context.lineTo(x, y + tile);
    context.stroke();
  }
  context.globalAlpha = 1;
}

// The score of each head: a bar in the gap below its tile, and the number in its corner where the tile is large
// enough. The tile under the pointer is left free; its tooltip has the number.
function drawScore(context, geometry, theme, score, hovered) {
  const { dpr, tile, roomy, gap } = geometry;
  if (!roomy) return;
  const width = Math.round((gap >= 6 * dpr ? 2 : 1) * dpr);
  const height = Math.round(12 * dpr);
  context.font = small(dpr, theme.family);
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const [layer, bars] of score.bars.entries())
    for (const [head, bar] of bars.entries()) {
      const [x, y] = origin(geometry, layer, head);
      context.fillStyle = theme.ink;
      context.globalAlpha = 0.75;
      context.fillRect(x, y + tile + width, Math.round(bar * tile), width); // below its own frame
      context.globalAlpha = 1;
      if (tile < PLATE * dpr || String(hovered) === String([layer, head])) continue;
      const text = score.short[layer][head];
      const plate = Math.ceil(context.measureText(text).width + 4 * dpr);
      context.fillStyle = theme.surface;
      context.globalAlpha = 0.85;
      context.fillRect(x + tile - plate, y + tile - height, plate, height);
      context.globalAlpha = 1;
      context.fillStyle = theme.ink;
      context.fillText(text, x + tile - 2 * dpr, y + tile - height / 2 + 0.5 * dpr);
    }
}

function drawLabels(context, { n_layers, n_heads }, geometry, theme, [layer, head], score) {
  const { dpr, names, left, top, pitch, gap, tile, headWidth, meanWidth } = geometry;
  const centre = (start, i) => start + i * pitch + Math.floor(gap / 2) + tile / 2;
  const labels = (count, chosen, extent, draw) => {
    // Every label; where they would touch every second, third, ... and always the chosen one.
    const step = Math.max(1, Math.ceil((extent + 4 * dpr) / pitch));
    for (let i = 0; i < count; i++) {
      if (i !== chosen && (i % step || Math.abs(i - chosen) < step)) continue;
      context.font = font(dpr, theme.family, i === chosen ? "bold" : "");
      context.globalAlpha = i === chosen ? 1 : 0.75;
      draw(i);
    }
    context.globalAlpha = 1;
  };
  const mean = (text, x, y) => {
    context.font = small(dpr, theme.family);
    context.fillText(text, x, y);
  };
  context.fillStyle = theme.ink;
  context.textBaseline = "middle";
  context.textAlign = "center";
  labels(n_heads, head, headWidth, (i) => context.fillText(`H${i}`, centre(left, i), 9 * dpr));
  if (score) labels(n_heads, head, meanWidth, (i) => mean(score.heads[i], centre(left, i), top - 8 * dpr));
  context.textAlign = "right";
  labels(n_layers, layer, 9 * dpr, (i) => {
    context.fillText(`L${i}`, names - 4 * dpr, centre(top, i));
    if (score) mean(score.layers[i], left - 4 * dpr, centre(top, i) + 0.5 * dpr);
  });
}
