/* Icons, drawn for this page on a grid of 24. */
import {html} from "./html.js";

const PATHS = {
  chat: "M4 5.5h16v11H10l-4.5 3.5v-3.5H4z",
  send: "M12 19V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M7 7h10v10H7z",
  attach: "m19.5 11.5-7.800 7.800a4.5 4.5 0 0 1-6.400-6.400l8.200-8.200a3 3 0 0 1 4.300 4.300l-8.200 8.100a1.5 1.5 0 0 1-2.100-2.100l7.300-7.300",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5 20 20",
  close: "m6 6 12 12M18 6 6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  down: "M12 5v14M5.5 12.5 12 19l6.5-6.5",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  check: "m5 12.5 4.5 4.5L19 7.5",
  file: "M6 3.5h8l4.5 4.5v12.5H6zM14 3.5V8h4.5",
  log: "M5 5.5h3M5 12h3M5 18.500h3M11.5 5.500H20M11.500 12H20M11.500 18.500h5.500",
  cost: "M5 20v-7M10 20V9M15 20v-9M20 20V5M3 20h18",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M13 8a2 2 0 1 0 4 0 2 2 0 1 0-4 0M7 16a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
};

export function Icon({name}) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}
