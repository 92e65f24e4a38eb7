/* The file of a session for other people: its events as they are stored, and the result of their verification.

   Choir masks the secrets that it knows before it stores an event (`[redacted]`), and the hashes cover the masked text.
   So nothing is masked here a second time: that would break the chain that the reader of the file can check. */
import {ApiError, get, send} from "../app/api.js";
import {t} from "../app/texts.js";
import {PAGE} from "./session-log.js";

const MASK = "[redacted]";

/** Parse JSON so that `JSON.stringify` writes each number as it came: `1.0` would become `1`, and its hash another.
    Throws ApiError in a browser that cannot do it. */
export function parseExactly(text) {
  if (!JSON.rawJSON) throw new ApiError(0, t("log.export.browser"), 0);
  return JSON.parse(text, (_, value, {source}) =>
    typeof value === "number" && String(value) !== source ? JSON.rawJSON(source) : value);
}

/** Fetch the whole session; return `{name, text, events, masked}`. `onProgress` gets a share from 0 to 1. */
export async function exportSession(id, onProgress) {
  const path = `v1/sessions/${encodeURIComponent(id)}`;
  const session = await get(path);
  const events = [];
  for (let after = 0; after !== null && after < session.head_rev;) {
    const page = parseExactly(await (await send("GET", `${path}/events?after=${after}&limit=${PAGE}`)).text());
    events.push(...page.items.filter((event) => event.rev <= session.head_rev));
    after = page.next;
    onProgress(events.length / session.head_rev);
  }
  const file = {
    format: "choir-session-log",
    version: 1,
    exported_at: new Date().toISOString(),
    redaction: `Choir replaced secrets that it knew with ${MASK} before it stored the events. Nothing else was removed.`,
    session,
    verification: await get(`${path}/verify`),
    events,
  };
  const text = JSON.stringify(file, null, 1);
  return {name: `${id}.json`, text, events: events.length, masked: text.split(MASK).length - 2};
}

/** Let the browser store a text as a file. */
export function saveFile(name, text) {
  const address = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  const link = Object.assign(document.createElement("a"), {href: address, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
