/* Bar charts as SVG. All sizes are attributes, because the policy of the page allows no inline styles. */
import {html} from "../app/html.js";

const WIDTH = 1_000;
const HEIGHT = 100;
const GAP = 0.25; // of the width of a bar

/** Bars side by side. `bars` are `{key, value, title}`. */
export function ColumnChart({bars, label}) {
  const highest = Math.max(...bars.map((it) => it.value)) || 1;
  const step = WIDTH / bars.length;
  return html`<svg class="cost-chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${bars.map(({key, value, title}, number) => {
      const height = value > 0 ? Math.max(1.5, (value / highest) * HEIGHT) : 0;
      return html`<g key=${key} class="day"><title>${title}</title>
        <rect class="back" x=${number * step} y="0" width=${step} height=${HEIGHT} />
        <rect x=${(number + GAP / 2) * step} y=${HEIGHT - height} width=${step * (1 - GAP)} height=${height} /></g>`;
    })}</svg>`;
}

/** A bar from 0 to 1 beside a number that says the same. */
export function ShareBar({share, kind, isWide}) {
  return html`<svg class=${isWide ? "cost-bar wide" : "cost-bar"} data-kind=${kind} viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="track" width="100" height="10" />
    <rect class="value" width=${Math.max(0, Math.min(1, share)) * 100} height="10" /></svg>`;
}
