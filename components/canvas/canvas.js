// What all canvases share: packets of bytes, colours, the one number format, and what the server announces.
// An inline component is one module and cannot import a file, so this one goes in front of the others.

// Colours evenly over the scale: of weights, and of differences around 0.
const SEQUENTIAL = {
  light: ["#f7f9fc", "#c6d8f3", "#7ba7e1", "#2f6cc0", "#0b2a6f"],
  dark: ["#151b26", "#1f3b66", "#2f6cc0", "#7ba7e1", "#e3eeff"],
};
const DIVERGING = {
  light: ["#7a3200", "#d98a45", "#f5f7fa", "#5a9bd4", "#084a85"],
  dark: ["#ffc08a", "#b5692c", "#18202c", "#3d78b8", "#a9d2ff"],
};
const HATCH = { light: ["#ececec", "#a3a3a3"], dark: ["#2b2b2b", "#6e6e6e"] }; // back, line

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const abgr = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

// A header in JSON and the bytes after it: see packet.py.
function readPacket(data) {
  const length = new DataView(data.buffer, data.byteOffset, data.byteLength).getUint32(0, true);
  return [JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length))), data.subarray(4 + length)];
}

function colourTable(stops) {
  const anchors = stops.map(rgb);
  return Uint32Array.from({ length: 256 }, (_, code) => {
    const at = (code / 255) * (anchors.length - 1);
    const i = Math.min(Math.floor(at), anchors.length - 2);
    return abgr(anchors[i].map((from, c) => Math.round(from + (at - i) * (anchors[i + 1][c] - from))));
  });
}

// Colours from the page's theme; dark or light by the luminance of its background. Printed,
// a canvas is light on white in every theme: a browser leaves the page's background out, or keeps it.
function readTheme(style, paper) {
  const colour = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = colour("--st-background-color", "#ffffff");
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  const mode = !paper && 0.2126 * r + 0.7152 * g + 0.0722 * b < 128 ? "dark" : "light";
  return {
    family: style.fontFamily,
    paper: paper ? "#ffffff" : "transparent",
    surface: paper ? "#ffffff" : colour("--st-background-color", "#ffffff"),
    ink: paper ? "#222222" : colour("--st-text-color", "#222222"),
    border: paper ? "#cccccc" : colour("--st-border-color", "#cccccc"),
    accent: colour("--st-primary-color", "#d6336c"),
    ramp: SEQUENTIAL[mode],
    diverging: DIVERGING[mode],
    hatch: HATCH[mode],
  };
}

const font = (dpr, family, weight = "") => `${weight} ${12 * dpr}px ${family}`;

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children); // strings become text nodes, never markup
  return node;
}

// Four significant digits, "1.562e-2". Halves go to the even digit, as in Python: 1/64 is 0.01562 on the whole page.
function fourDigits(size) {
  const [mantissa, exponent] = size.toExponential(60).split("e"); // enough digits to tell a half from what is near it
  const cut = mantissa.slice(0, 5);
  const half = /^50*$/.test(mantissa.slice(5)) && "02468".includes(cut[4]);
  return half ? `${cut}e${exponent}` : size.toExponential(3);
}

// A number as the page writes it: the twin of `theme.format_number`, which says what it looks like.
function formatNumber(value) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const sign = value < 0 ? "−" : "";
  let size = Math.abs(value);
  if (size === Infinity) return `${sign}∞`;
  const trimmed = (digits) => (digits.includes(".") ? digits.replace(/0+$/, "").replace(/\.$/, "") : digits);
  if (size < 1000) size = Number(fourDigits(size)); // round first: 999.96 is 1,000
  const [mantissa, exponent] = fourDigits(size).split("e");
  if (size < 1e-4 || size >= 1e7) {
    const raised = String(Number(exponent)).replace(/[-\d]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
    return `${sign}${trimmed(mantissa)}×10${raised}`;
  }
  if (size < 1000) return sign + trimmed(size.toFixed(3 - exponent));
  const whole = Math.floor(size);
  const up = size - whole > 0.5 || (size - whole === 0.5 && whole % 2);
  return sign + (up ? whole + 1 : whole).toLocaleString("en-US");
}

// Which cells each pixel covers: one when enlarged, a run of them when shrunk.
function spans(size, padding) {
  const cells = padding.length;
  return Array.from({ length: size }, (_, px) => {
    const from = Math.floor((px * cells) / size);
    const to = Math.max(from + 1, Math.ceil(((px + 1) * cells) / size));
    return { from, to, padded: padding.slice(from, to).every(Boolean) };
  });
}

// What the server announced to the canvas within `host`, if anything.
function announced(host) {
  for (const [key, announcement] of window.canvasAnnouncements ?? [])
    if (host.closest(`.st-key-${key}`)) return announcement;
  return null;
}

// Puts a tip beside the pointer, within the box, the window, and `left` to `right` of the box where that is given.
function placeTip(box, tip, clientX, clientY, left = 0, right = Infinity) {
  const outer = box.getBoundingClientRect();
  const place = (pointer, size, low, high) => {
    const after = pointer + 14;
    return clamp(after + size <= high ? after : pointer - 14 - size, low, Math.max(low, high - size));
  };
  const [low, high] = [Math.max(outer.left + left, 0), Math.min(outer.right, outer.left + right, innerWidth)];
  const x = place(clientX, tip.offsetWidth, low, high);
  const y = place(clientY, tip.offsetHeight, Math.max(outer.top, 0), Math.min(outer.bottom, innerHeight));
  tip.style.left = `${x - outer.left}px`;
  tip.style.top = `${y - outer.top}px`;
}
