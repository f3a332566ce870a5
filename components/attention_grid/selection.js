// Announces the server's choice to the grid of the same page.
//
// The choice is also kept on the window: a grid that is mounted later reads it there.
// `echo` is the serial number of the last pick the server had seen when it made this choice.

export default function ({ data }) {
  if (!data) return;
  const { grid, ...choice } = data;
  window.attentionGridSelections ??= new Map();
  window.attentionGridSelections.set(grid, choice);
  window.dispatchEvent(new CustomEvent("attention-grid-selection", { detail: grid }));
}
