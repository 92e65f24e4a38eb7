/* What this browser remembers: theme, language, drafts, read marks, and messages that wait to be sent. */
import {effect, signal} from "./html.js";

const PREFIX = "choir:" + new URL("..", document.baseURI).pathname + ":";

export function remember(name, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // full or forbidden: the page works without it
  }
}

export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Forget what belongs to the person who signed out. */
export function forgetAll() {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(PREFIX) && !/:(theme|language)$/.test(key)) localStorage.removeItem(key);
  }
}

export const theme = signal(recall("theme", "auto"));
effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  remember("theme", theme.value);
});
