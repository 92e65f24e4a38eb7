/* Notifications of the browser, while the page is open in a tab that is not shown. */
import {signal} from "./html.js";
import {recall, remember} from "./settings.js";

const MAX_EXCERPT = 80; // characters

export const CAN_NOTIFY = "Notification" in globalThis && globalThis.isSecureContext;
export const areNotificationsOn = signal(
  CAN_NOTIFY && Notification.permission === "granted" && recall("notifications", false),
);

/** Whether this browser gets notifications also while no page is open, see push.js. */
export const isPushOn = signal(CAN_NOTIFY && recall("push", false));

/** Switch notifications on or off; return whether the browser allows them. */
export async function switchNotifications(isOn) {
  const isAllowed = !isOn || (await Notification.requestPermission()) === "granted";
  areNotificationsOn.value = isOn && isAllowed;
  remember("notifications", areNotificationsOn.value || null);
  return isAllowed;
}

/** Return the beginning of a text in one line, without characters that cannot be seen. */
export function makeExcerpt(text) {
  const line = text.slice(0, 1_000).replace(/[\p{C}\p{Z}\s]+/gu, " ").trim();
  const letters = Array.from(line);
  return letters.length > MAX_EXCERPT ? `${letters.slice(0, MAX_EXCERPT).join("")}…` : line;
}

/** Show a notification if they are switched on and nobody sees the page. */
export function showNotification(title, text, tag) {
  // with push, the service worker shows it
  if (!areNotificationsOn.value || isPushOn.value || document.visibilityState === "visible") return;
  try {
    const shown = new Notification(title, {body: makeExcerpt(text), tag, renotify: true});
    shown.onclick = () => { focus(); shown.close(); };
  } catch {
    // browsers of phones show them only for a service worker
  }
}
