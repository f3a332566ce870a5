// The encoder block as SVG. Each site is one control: a box with the value that leaves it, or a value alone.

const SVG = "http://www.w3.org/2000/svg";
const DROP = 0.34; // from the middle of a line down to its baseline, in its size
const CORNER = 8;
const INLINED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-weight"];
const diagrams = new WeakMap(); // one a mounted component

export default function ({ data, parentElement, setTriggerValue }) {
  if (!diagrams.has(parentElement)) diagrams.set(parentElement, new Diagram(parentElement));
  return diagrams.get(parentElement).show(data, setTriggerValue);
}

class Diagram {
  constructor(root) {
    this.root = root;
    this.host = root.host ?? root;
    this.calls = 0;
    this.picture = node("svg", "", { role: "group" });
    this.save = element("button", "", "Save picture");
    this.save.type = "button";
    this.box = element("div", "diagram", this.save, this.picture);
    root.append(this.box);
    this.abort = new AbortController();
    const on = (target, type, handler) => target.addEventListener(type, handler, { signal: this.abort.signal });
    on(this.picture, "click", (event) => this.pick(event.target));
    on(this.picture, "keydown", (event) => this.onKey(event));
    on(this.save, "click", () => this.savePicture());
    on(window, "canvas-announcement", () => this.mark());
  }

  // Runs on mount, on new data and on a theme change. A clean-up acts only while its own call is the last.
  show(data, setTriggerValue) {
    const call = ++this.calls;
    this.setTriggerValue = setTriggerValue;
    const { ramp } = readTheme(getComputedStyle(this.box), false);
    this.box.classList.toggle("dark", ramp === SEQUENTIAL.dark);
    const text = JSON.stringify(data);
    if (data && text !== this.text) {
      this.text = text;
      const focused = this.focused;
      morph(this.picture, draw(data));
      if (focused && this.focused !== focused) this.control(focused)?.focus({ preventScroll: true });
    }
    this.mark();
    return () => call === this.calls && this.dispose();
  }

  dispose() {
    this.abort.abort();
    this.box.remove();
    diagrams.delete(this.root);
  }

  // The site that has the keyboard focus, if any.
  get focused() {
    return this.box.getRootNode().activeElement?.dataset.site;
  }

  control(site) {
    return [...this.picture.children].find((part) => part.dataset.site === site);
  }

  mark() {
    const choice = announced(this.host);
    if (!choice) return;
    for (const part of this.picture.querySelectorAll("[data-site]")) {
      const chosen = part.dataset.site === choice.chosen;
      part.classList.toggle("chosen", chosen);
      part.setAttribute("aria-pressed", String(chosen));
    }
  }

  pick(target) {
    const site = target.closest?.("[data-site]")?.dataset.site;
    if (site !== undefined) this.setTriggerValue("pick", { site });
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    if (!event.repeat) this.pick(event.target);
  }

  // The drawing as it is seen, with its colours in it and the background of the page behind it. Made in the browser.
  savePicture() {
    const copy = this.picture.cloneNode(true);
    const seen = this.picture.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((part, i) => {
      const style = getComputedStyle(seen[i]);
      for (const name of INLINED) part.setAttribute(name, style.getPropertyValue(name));
      if (part.tagName === "text" && part.textContent) {
        // The same width in every viewer, also where the font of the page is missing.
        part.setAttribute("textLength", seen[i].getComputedTextLength().toFixed(1));
        part.setAttribute("lengthAdjust", "spacingAndGlyphs");
      }
      for (const name of ["class", "role", "tabindex", "data-site", "aria-pressed"]) part.removeAttribute(name);
    });
    const style = getComputedStyle(this.box);
    const { width, height } = this.picture.viewBox.baseVal;
    const set = { width, height, "font-family": style.fontFamily };
    for (const [name, value] of Object.entries(set)) copy.setAttribute(name, value);
    const { surface } = readTheme(style, false);
    copy.prepend(node("rect", "", { width, height, fill: surface }));
    const file = new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
    const link = element("a", "");
    link.href = URL.createObjectURL(file);
    link.download = "encoder-explorer-block.svg";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // once it is read
  }
}

// ---- drawing

function node(tag, className, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  if (className) made.setAttribute("class", className);
  const written = (value) => String(typeof value === "number" ? Math.round(100 * value) / 100 : value);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, written(value));
  made.append(...children); // strings become text nodes, never markup
  return made;
}

const area = (className, { x, y, width, height }, rx) => node("rect", className, { x, y, width, height, rx });

function line(className, { text, x, y, size, anchor }) {
  const place = { x, y: y + DROP * size, "font-size": size, "text-anchor": anchor };
  return node("text", className, place, text);
}

function draw({ width, height, said, frame, repeats, tag, output, controls, arrows }) {
  return node(
    "svg",
    "",
    { role: "group", "aria-label": said, viewBox: `0 0 ${width} ${height}` },
    area("frame", frame, 8),
    ...arrows.map(drawArrow),
    area("tag", tag, 5),
    line("repeats", repeats),
    ...(output ? [line("name", output)] : []),
    ...controls.map(drawControl),
  );
}

function drawControl({ site, said, box, label }) {
  const parts = [];
  if (box) parts.push(area(`step ${box.kind}`, box.rect, 6), ...box.title.map((title) => line("title", title)));
  if (label) parts.push(area("area", label.area, 4), line("name", label.name), line("shape", label.shape));
  if (site === null) return node("g", "", {}, ...parts);
  const button = { role: "button", tabindex: 0, "aria-label": said, "aria-pressed": false, "data-site": site };
  return node("g", "", button, ...parts);
}

// A line with round corners, and a head where it ends.
function drawArrow({ kind, points, head }) {
  const size = kind === "inside" ? 5 : 7;
  const [x, y] = points.at(-1);
  const [dx, dy] = direction(points.at(-2), [x, y]);
  const way = head ? [...points.slice(0, -1), [x - dx * size, y - dy * size]] : points;
  const radius = kind === "inside" ? 3 : CORNER;
  const path = way.map((point, i) => {
    if (!i) return `M ${point}`;
    if (i === way.length - 1) return `L ${point}`;
    const [from, to] = [direction(way[i - 1], point), direction(point, way[i + 1])];
    const [before, after] = [point.map((p, a) => p - from[a] * radius), point.map((p, a) => p + to[a] * radius)];
    return `L ${before} Q ${point} ${after}`;
  });
  const [bx, by] = [x - dx * size, y - dy * size];
  const half = 0.55 * size;
  const corners = `${x},${y} ${bx - dy * half},${by + dx * half} ${bx + dy * half},${by - dx * half}`;
  const parts = [node("path", "way", { d: path.join(" ") })];
  if (head) parts.push(node("polygon", "head", { points: corners }));
  return node("g", `arrow ${kind}`, {}, ...parts);
}

function direction([x0, y0], [x1, y1]) {
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  return [(x1 - x0) / length, (y1 - y0) / length];
}

// Makes one tree like another, and keeps its nodes where they are of the same kind: what has the focus keeps it.
function morph(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes)
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const [mine, theirs] = [[...old.childNodes], [...next.childNodes]];
  const alike = mine.length === theirs.length && mine.every((child, i) => child.nodeName === theirs[i].nodeName);
  if (alike) mine.forEach((child, i) => morph(child, theirs[i]));
  else old.replaceChildren(...theirs);
}
