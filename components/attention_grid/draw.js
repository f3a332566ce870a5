// What the grid looks like: bytes, size and theme in, pixels out. It stands in front of grid.js, in one module. Lengths are device pixels unless a name says otherwise.

function decode(data) {
  const [header, pixels] = readPacket(data);
  if (header.version !== 1) throw new Error(`attention grid: payload version ${header.version}, expected 1`);
  const { query_padding, key_padding, masked, row_starts, col_starts } = header;
  return {
    ...header,
    pixels,
    rowPadding: query_padding,
    colPadding: masked ? key_padding : key_padding.map(() => 0), // without the mask padded keys took real weight
    pooled: Boolean(row_starts || col_starts),
  };
}

// Which cells each pixel of a tile covers: one when enlarged, a run of them when shrunk.
function spans(size, padding) {
  const cells = padding.length;
  return Array.from({ length: size }, (_, px) => {
    const from = Math.floor((px * cells) / size);
    const to = Math.max(from + 1, Math.ceil(((px + 1) * cells) / size));
    return { from, to, padded: padding.slice(from, to).every(Boolean) };
  });
}

// The largest square tiles that fit, with 4 px to spare for the focus ring; null where not one pixel fits.
function measure(context, payload, theme, dpr, cssWidth, cssHeight) {
  const { n_layers, n_heads, rows, cols, rowPadding, colPadding } = payload;
  context.font = font(dpr, theme.family, "bold");
  const headWidth = context.measureText(`H${n_heads - 1}`).width;
  const left = Math.ceil(context.measureText(`L${n_layers - 1}`).width + 7 * dpr);
  const top = Math.round(18 * dpr);
  const spare = Math.round(4 * dpr);
  const [width, height] = [cssWidth * dpr - left - spare, cssHeight * dpr - top - spare];
  const pitch = Math.floor(Math.min(width / n_heads, height / n_layers));
  if (pitch < 1) return null;
  const roomy = pitch > 12 * dpr; // a gap that the frame fits into, or the thinnest that still parts tiles
  const gap = roomy ? Math.round(clamp(pitch * 0.08, 3 * dpr, 8 * dpr)) : Number(pitch > 2);
  let tile = pitch - gap;
  const cells = Math.max(rows, cols);
  const equal = Math.floor(tile / cells) * cells; // cells of one size, when that costs little
  if (equal >= 0.85 * tile) tile = equal;
  const geometry = { dpr, left, top, spare, gap, tile, headWidth, pitch: tile + gap, shrunk: tile < cells };
  return { ...geometry, rowSpans: spans(tile, rowPadding), colSpans: spans(tile, colPadding) };
}

function origin({ left, top, pitch, gap }, layer, head) {
  const inset = Math.floor(gap / 2);
  return [left + head * pitch + inset, top + layer * pitch + inset];
}

// The strongest cell of one pixel: what is drawn, and what the tooltip speaks of.
function strongest({ n_heads, rows, cols, pixels }, layer, head, row, col) {
  const tile = (layer * n_heads + head) * rows * cols;
  const best = { code: -1, r: row.from, c: col.from };
  for (let r = row.from; r < row.to; r++)
    for (let c = col.from; c < col.to; c++) {
      const code = pixels[tile + r * cols + c];
      if (code > best.code) [best.code, best.r, best.c] = [code, r, c];
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

function drawLabels(context, { n_layers, n_heads }, geometry, theme, [layer, head]) {
  const { dpr, left, top, pitch, gap, tile, headWidth } = geometry;
  const centre = (start, i) => start + i * pitch + Math.floor(gap / 2) + tile / 2;
  const labels = (letter, count, chosen, extent, draw) => {
    // Every label; where they would touch every second, third, ... and always the chosen one.
    const step = Math.max(1, Math.ceil((extent + 4 * dpr) / pitch));
    for (let i = 0; i < count; i++) {
      if (i !== chosen && (i % step || Math.abs(i - chosen) < step)) continue;
      context.font = font(dpr, theme.family, i === chosen ? "bold" : "");
      context.globalAlpha = i === chosen ? 1 : 0.75;
      draw(`${letter}${i}`, i);
    }
    context.globalAlpha = 1;
  };
  context.fillStyle = theme.ink;
  context.textBaseline = "middle";
  context.textAlign = "center";
  labels("H", n_heads, head, headWidth, (text, i) => context.fillText(text, centre(left, i), top - 9 * dpr));
  context.textAlign = "right";
  labels("L", n_layers, layer, 9 * dpr, (text, i) => context.fillText(text, left - 4 * dpr, centre(top, i)));
}
