// Announces what the server decided to a canvas of the same page.
//
// The announcement is also kept on the window: a canvas that is mounted later reads it there.
// `target` is the key of the canvas, `echo` the serial number of the last pick the server had seen.

export default function ({ data }) {
  if (!data) return;
  const { target, ...announcement } = data;
  window.canvasAnnouncements ??= new Map();
  window.canvasAnnouncements.set(target, announcement);
  window.dispatchEvent(new CustomEvent("canvas-announcement", { detail: target }));
}
