// Hands the weights of one head to the grid of the same page: header and float32 [query, key], see mount.py.
//
// They are also kept on the window: a grid that gets its payload later finds them there.

export default function ({ data }) {
  if (!data) return;
  const [header, body] = readPacket(data);
  window.canvasExact ??= new Map();
  window.canvasExact.set(header.target, { ...header, weights: new Float32Array(body.slice().buffer) });
  window.dispatchEvent(new CustomEvent("attention-grid-exact", { detail: header.target }));
}
