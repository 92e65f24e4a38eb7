/* Commands and their results, which the server does not store: kept until the tab is closed. */
import {recallInTab, rememberInTab} from "../app/settings.js";
import {emptyItem, localItem} from "./items.js";

const MAX_RESULTS = 20;
const MAX_TEXT = 20_000; // characters of one result

/** Keep the result of a message; `isStored`: the message itself is in the history. */
export function keepResult(dm, message, note, isStored) {
  const kept = {key: message.key, text: message.text, at: message.at, note: note.slice(0, MAX_TEXT), isStored};
  rememberInTab(`results:${dm}`, [...recallInTab(`results:${dm}`, []), kept].slice(-MAX_RESULTS));
}

/** Return the messages of the newest page with the results between them. */
export function withResults(dm, items, isWhole) {
  const first = isWhole || items.length === 0 ? -Infinity : Date.parse(items[0].at);
  const known = new Set(items.map((it) => it.key));
  const all = [...items];
  for (const kept of recallInTab(`results:${dm}`, [])) {
    if (Date.parse(kept.at) < first) continue;
    const added = [localItem(`n:${kept.key}`, kept.note, kept.at)];
    if (!kept.isStored && !known.has(kept.key)) {
      added.unshift({...emptyItem(), id: `k:${kept.key}`, side: "user", text: kept.text, at: kept.at, key: kept.key});
    }
    const own = all.findIndex((it) => it.key === kept.key);
    const next = all.findIndex((it) => Date.parse(it.at) > Date.parse(kept.at));
    all.splice(own >= 0 ? own + 1 : next >= 0 ? next : all.length, 0, ...added);
  }
  return all;
}
