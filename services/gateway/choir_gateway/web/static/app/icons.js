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
  edit: "M4 20h4.5L20 8.5 15.5 4 4 15.500zM13 6.500l4.500 4.500",
  repeat: "M4.5 12a7.5 7.5 0 0 1 13-5.100L20 9.500M20 4.500v5h-5M19.500 12a7.5 7.5 0 0 1-13 5.100L4 14.500M4 19.500v-5h5",
  microphone: "M12 15a3.500 3.500 0 0 0 3.500-3.500v-4a3.500 3.500 0 0 0-7 0v4A3.500 3.500 0 0 0 12 15zM5.500 11.500a6.500 6.500 0 0 0 13 0M12 18v3",
  play: "M8 5.500v13l10.500-6.500z",
  check: "m5 12.5 4.5 4.5L19 7.5",
  file: "M6 3.5h8l4.5 4.5v12.5H6zM14 3.5V8h4.5",
  settings: "M4 8h9M17 8h3M4 16h3M11 16h9M13 8a2 2 0 1 0 4 0 2 2 0 1 0-4 0M7 16a2 2 0 1 0 4 0 2 2 0 1 0-4 0",
};

export function Icon({name}) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}
