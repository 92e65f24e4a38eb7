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

/** Remember until the tab is closed. */
export function rememberInTab(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(PREFIX + name);
    else sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // full or forbidden
  }
}

export function recallInTab(name, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Call a function when another tab changed what is remembered under a name. */
export function onOtherTab(name, action) {
  addEventListener("storage", (event) => { if (event.key === PREFIX + name) action(); });
}

/** Forget what belongs to the person who signed out. */
export function forgetAll() {
  for (const storage of [localStorage, sessionStorage]) {
    for (const key of Object.keys(storage)) {
      if (key.startsWith(PREFIX) && !/:(theme|language)$/.test(key)) storage.removeItem(key);
    }
  }
}

export const theme = signal(recall("theme", "auto"));
effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  remember("theme", theme.value);
});
