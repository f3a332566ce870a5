// Runs in the page, before its own scripts: how long after the press of a key or a button something new is shown.
//
// The clock starts with the time stamp of the event. In each animation frame from there on, the page is looked at;
// the clock stops in the first task after the frame that has the new picture.

(() => {
  let arrived = []; // [when, bytes] of each message from the server

  window.WebSocket = class extends WebSocket {
    constructor(...address) {
      super(...address);
      const size = (data) => data.byteLength ?? data.size ?? data.length;
      this.addEventListener("message", ({ data }) => arrived.push([performance.now(), size(data)]));
    }
  };

  const canvasOf = (key) =>
    [...document.querySelectorAll(`.st-key-${key} *`)].find((node) => node.shadowRoot)?.shadowRoot.querySelector("canvas");
  const differ = (a, b) => a.length !== b.length || a.some((value, i) => value !== b[i]);
  const pixels = (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;

  // Each remembers what is there now, and gives a function that says whether something else has been drawn since.
  const changes = {
    grid() {
      let [canvas, painted] = [canvasOf("grid"), canvasOf("grid").dataset.painted];
      const before = pixels(canvas);
      return () => {
        const now = canvasOf("grid");
        if (!now?.dataset.painted || (now === canvas && now.dataset.painted === painted)) return false;
        [canvas, painted] = [now, now.dataset.painted];
        return differ(before, pixels(now));
      };
    },
    head() {
      let last = canvasOf("head").matrix;
      const before = last;
      return () => {
        const now = canvasOf("head")?.matrix;
        if (!now || now === last) return false;
        last = now;
        return now.title !== before.title || differ(now.values, before.values);
      };
    },
    stitched() {
      const figure = () => document.querySelector(".js-plotly-plot");
      const image = () => figure()?.querySelector(".heatmaplayer image")?.href.baseVal;
      const [sentence, before] = [figure()?._fullLayout?.meta?.sentence, image()];
      return () => figure()?._fullLayout?.meta?.sentence !== sentence && Boolean(image()) && image() !== before;
    },
  };

  // A picture that is not on the page yet, by its name: a canvas by its key, a figure by its own.
  const drawn = (name) =>
    Boolean(canvasOf(name)?.dataset.painted) ||
    [...document.querySelectorAll(".js-plotly-plot")].some(
      (plot) => plot._fullLayout?.meta?.figure === name && plot.querySelector(".main-svg"),
    );
  const appears = (name) => () => drawn(name);

  const afterFrame = (act) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = act;
    port2.postMessage(null);
  };

  // To be called before the press. `window.changed` is there once all is shown: milliseconds a name, and the messages.
  window.watch = (names) => {
    const there = (name) => name in changes && (name === "stitched" || canvasOf(name));
    const isNew = names.map((name) => (there(name) ? changes[name]() : appears(name)));
    const shown = {};
    let start = null;
    const press = (event) => (start ??= event.timeStamp);
    for (const type of ["pointerdown", "keydown"]) addEventListener(type, press, { capture: true, once: true });
    arrived = [];
    window.changed = null;
    const look = () => {
      const news = names.filter((name, i) => !(name in shown) && isNew[i]());
      for (const name of news) shown[name] = null;
      const last = Object.keys(shown).length === names.length;
      if (news.length)
        afterFrame(() => {
          for (const name of news) shown[name] = performance.now() - start;
          if (last) window.changed = { shown, arrived: arrived.map(([when, bytes]) => [when - start, bytes]) };
        });
      if (!last) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  };

  // What the chosen head is, and its weights.
  window.headShown = () => {
    const { title, values } = canvasOf("head").matrix;
    return { title, values: Array.from(values) };
  };

  // Middle of a tile of the grid of n x n heads, from the corner of the canvas: see `measure` of the grid's draw.js.
  window.tileAt = (n, layer, head) => {
    const [{ width, height }, dpr, spare, top] = [canvasOf("grid"), devicePixelRatio, 4, 18];
    const pitch = (height / dpr - top - spare) / n;
    return { x: width / dpr - spare - (n - head - 0.5) * pitch, y: top + (layer + 0.5) * pitch };
  };
})();
