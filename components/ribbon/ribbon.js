// The tokens of the batch as boxes. One of them can be reached by Tab, the others from it by arrow keys.

const KINDS = { w: "word", s: "special", p: "pad" };
const WAYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const ribbons = new WeakMap(); // one a mounted component

export default function ({ data, parentElement, setTriggerValue }) {
  if (!ribbons.has(parentElement)) ribbons.set(parentElement, new Ribbon(parentElement));
  return ribbons.get(parentElement).show(data, setTriggerValue);
}

class Ribbon {
  constructor(root) {
    this.root = root;
    this.host = root.host ?? root;
    this.calls = 0;
    this.batch = element("div", "batch");
    this.batch.setAttribute("role", "grid");
    this.batch.setAttribute("aria-label", "Tokens of the batch");
    root.append(this.batch);
    this.abort = new AbortController();
    const on = (target, type, handler) => target.addEventListener(type, handler, { signal: this.abort.signal });
    on(this.batch, "click", (event) => this.pick(event.target.closest?.(".word, .special")));
    on(this.batch, "keydown", (event) => this.onKey(event));
    on(window, "canvas-announcement", () => this.mark());
  }

  // Runs on mount, on new data and on a theme change. A clean-up acts only while its own call is the last.
  show(data, setTriggerValue) {
    const call = ++this.calls;
    this.setTriggerValue = setTriggerValue;
    const text = JSON.stringify(data);
    if (text !== this.text) {
      this.text = text;
      this.rows = data.names.map((names, sentence) =>
        names.map((name, token) => {
          const kind = KINDS[data.kinds[sentence][token]];
          const box = element("span", kind, name);
          box.setAttribute("role", "gridcell");
          if (kind !== "pad") box.tabIndex = -1;
          return Object.assign(box, { place: [sentence, token] });
        }),
      );
      const lines = this.rows.map((boxes, sentence) => {
        const row = element("div", "row", ...boxes);
        row.setAttribute("role", "row");
        row.setAttribute("aria-label", `Tokens of line ${data.lines[sentence]}`);
        return row;
      });
      this.batch.replaceChildren(...lines);
    }
    this.mark();
    return () => call === this.calls && this.dispose();
  }

  dispose() {
    this.abort.abort();
    this.batch.remove();
    ribbons.delete(this.root);
  }

  mark() {
    const choice = announced(this.host);
    if (!choice || !this.rows) return;
    const chosen = this.rows[choice.sentence]?.[choice.token];
    if (chosen === this.chosen && chosen?.isConnected) return;
    this.chosen = chosen;
    this.rows.flat().forEach((box) => {
      box.classList.toggle("chosen", box === chosen);
      box.setAttribute("aria-selected", String(box === chosen));
      if (!box.classList.contains("pad")) box.tabIndex = box === chosen ? 0 : -1;
    });
    [...this.batch.children].forEach((row, i) => row.classList.toggle("chosen", i === choice.sentence));
    this.reveal(chosen);
  }

  // Scrolls the ribbon alone, never the page.
  reveal(box) {
    if (!box) return;
    const [outer, inner] = [this.batch.getBoundingClientRect(), box.getBoundingClientRect()];
    if (inner.left < outer.left || inner.right > outer.right)
      this.batch.scrollLeft += inner.left - outer.left - outer.width / 2;
    if (inner.top < outer.top || inner.bottom > outer.bottom) this.batch.scrollTop += inner.top - outer.top;
  }

  pick(box) {
    if (!box?.place) return;
    const [sentence, token] = box.place;
    this.setTriggerValue("pick", { sentence, token });
  }

  onKey(event) {
    const box = event.target;
    if (!box.place || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.pick(box);
    }
    if (!WAYS[event.key]) return;
    event.preventDefault();
    const [down, across] = WAYS[event.key];
    let [sentence, token] = box.place;
    do [sentence, token] = [sentence + down, token + across];
    while (this.rows[sentence]?.[token]?.classList.contains("pad"));
    this.rows[sentence]?.[token]?.focus({ preventScroll: true });
    this.reveal(this.rows[sentence]?.[token]);
  }
}
