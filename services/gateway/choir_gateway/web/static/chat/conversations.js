/* The conversations of the person, and which of them have messages that were not seen. */
import {get, session} from "../app/api.js";
import {computed, effect, signal} from "../app/html.js";
import {place} from "../app/router.js";
import {recall, remember} from "../app/settings.js";

const INTERVAL_MS = 30_000;
const ELSEWHERE_MS = 60_000; // other pages show their number only, and have requests of their own
const RETRY_MS = 3_000; // without a list there is no chat

export const conversations = signal(null);
const seen = signal(recall("seen", {}));
/** Messages of open conversations that arrived while nobody looked. */
const missed = signal({});
let timer;
let refresh = null;

/** Return the newest message that was seen in a conversation. */
export function lastSeen(dm) {
  return seen.peek()[dm] ?? Infinity;
}

/** Count a message that arrived while nobody looked. */
export function countMissed(dm, outboxId) {
  missed.value = {...missed.peek(), [dm]: (missed.peek()[dm] ?? 0) + 1};
  conversations.value = conversations.peek()?.map(
    (it) => (it.name === dm ? {...it, last_outbox_id: Math.max(it.last_outbox_id, outboxId)} : it),
  ) ?? null;
}

/** Mark everything up to a message as seen. */
export function markSeen(dm, outboxId) {
  if (document.hasFocus() && missed.peek()[dm]) missed.value = {...missed.peek(), [dm]: 0};
  if (!document.hasFocus() || (seen.peek()[dm] ?? 0) >= outboxId) return;
  seen.value = {...seen.peek(), [dm]: outboxId};
  remember("seen", seen.value);
}

export function isUnread(dm) {
  return dm.last_outbox_id > (seen.value[dm.name] ?? 0);
}

/** Unread messages; a conversation that is not open counts as one. */
export const unreadCount = computed(() => (conversations.value ?? []).filter(isUnread).reduce(
  (sum, dm) => sum + Math.max(1, missed.value[dm.name] ?? 0), 0,
));

/** Fetch them again, now and from then on; one request runs at a time. It begins before the session is known. */
export function refreshConversations() {
  refresh ??= fetchConversations().finally(() => { refresh = null; });
  return refresh;
}

async function fetchConversations() {
  clearTimeout(timer);
  if (session.value !== null && document.visibilityState === "visible") {
    try {
      const all = (await get("v1/dms")).items.filter((dm) => dm.type === "console");
      if (session.peek() === null) return; // signed out meanwhile
      if (conversations.peek() === null) takeFirst(all);
      conversations.value = all;
    } catch {
      // shown by the conversation itself
    }
  }
  const pause = ["chat", undefined].includes(place.peek()[0]) ? INTERVAL_MS : ELSEWHERE_MS;
  timer = setTimeout(refreshConversations, conversations.peek() === null ? RETRY_MS : pause);
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
