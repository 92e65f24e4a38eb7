/* The place in the application, from the fragment of the address: `#/chat/console`. */
import {signal} from "./html.js";

function read() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
}

export const place = signal(read());
addEventListener("hashchange", () => { place.value = read(); });

export function addressOf(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}
