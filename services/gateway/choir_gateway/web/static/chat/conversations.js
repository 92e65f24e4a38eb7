/* The conversations of the person, and which of them have messages that were not seen. */
import {get, session} from "../app/api.js";
import {computed, effect, signal} from "../app/html.js";
import {recall, remember} from "../app/settings.js";

const INTERVAL_MS = 30_000;

export const conversations = signal(null);
const seen = signal(recall("seen", {}));
let timer;

/** Mark everything up to a message as seen. */
export function markSeen(dm, outboxId) {
  if (!document.hasFocus() || (seen.peek()[dm] ?? 0) >= outboxId) return;
  seen.value = {...seen.peek(), [dm]: outboxId};
  remember("seen", seen.value);
}

export function isUnread(dm) {
  return dm.last_outbox_id > (seen.value[dm.name] ?? 0);
}

export const unreadCount = computed(() => (conversations.value ?? []).filter(isUnread).length);

export async function refreshConversations() {
  clearTimeout(timer);
  if (session.value && document.visibilityState === "visible") {
    try {
      const all = (await get("v1/dms")).items.filter((dm) => dm.type === "console");
      if (conversations.peek() === null) takeFirst(all);
      conversations.value = all;
    } catch {
      // shown by the conversation itself
    }
  }
  timer = setTimeout(refreshConversations, INTERVAL_MS);
}

/** On the first visit of a browser nothing is unread. */
function takeFirst(all) {
  const known = seen.peek();
  seen.value = Object.fromEntries(all.map((dm) => [dm.name, known[dm.name] ?? dm.last_outbox_id]));
}

effect(() => {
  if (session.value === null) conversations.value = null;
});
document.addEventListener("visibilitychange", refreshConversations);
effect(() => {
  document.title = unreadCount.value ? `(${unreadCount.value}) Choir` : "Choir";
});
