/* The sidebar on narrow screens: its state, and the button that opens it. */
import {html, signal} from "./html.js";
import {Icon} from "./icons.js";
import {t} from "./texts.js";

export const isSidebarOpen = signal(false);

export function SidebarButton() {
  return html`<button class="quiet menu-button" aria-label=${t("sidebar.open")} aria-controls="sidebar"
    aria-expanded=${isSidebarOpen.value} onClick=${() => { isSidebarOpen.value = true; }}><${Icon} name="menu" /></button>`;
}
