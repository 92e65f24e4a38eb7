/* Short texts at the bottom of the page. */
import {signal} from "./html.js";

export const toast = signal(null);

/** Show a text for some seconds; screen readers read it. */
export function notify(text) {
  const shown = {text};
  toast.value = shown;
  setTimeout(() => { if (toast.value === shown) toast.value = null; }, 6_000);
}
