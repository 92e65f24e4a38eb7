/* Corrections and repetitions of messages. The log only grows: both are new messages. Pure. */

const MAX_KEY = 64; // of a message that can be corrected

/** Return the key of the first message of a chain of corrections. */
export function rootOf(item) {
  return item.edits ?? item.key;
}

/** Return the ids of the messages that a later one corrects. */
export function findCorrected(items) {
  const later = new Set();
  const corrected = new Set();
  for (const item of items.toReversed()) {
    if (item.side !== "user" || !rootOf(item)) continue;
    if (later.has(rootOf(item))) corrected.add(item.id);
    if (item.edits) later.add(item.edits);
  }
  return corrected;
}

/** Whether a message can be corrected: the user's, stored, no command, and not corrected already. */
export function isCorrectable(item, corrected) {
  return item.side === "user" && item.state === "stored" && item.text !== "" && !item.text.startsWith("/")
    && Boolean(item.key) && rootOf(item).length <= MAX_KEY && !corrected.has(item.id);
}

export function findNewestCorrectable(items) {
  const corrected = findCorrected(items);
  return items.findLast((it) => isCorrectable(it, corrected));
}

/** Return the last answer with the user's message to send again for another one; null if something came after it. */
export function findRepeatable(items) {
  const answer = items.findLast((it) => it.side !== "local");
  if (answer?.side !== "agent" || !["answer", "error"].includes(answer.kind) || !answer.answers) return null;
  const question = items.findLast((it) => it.side === "user" && it.inboxId === answer.answers);
  return question && !question.text.startsWith("/") ? {answer, question} : null;
}
