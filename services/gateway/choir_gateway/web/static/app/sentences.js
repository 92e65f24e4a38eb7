/* What services say, which is English, in the language of the page. The server has the catalogue; a text is English
   until its translation is there. */
import {translateAll} from "./api.js";
import {signal} from "./html.js";
import {language, originalProblem} from "./texts.js";

const MAX_LENGTH = 2_000; // characters; longer ones quote a text
const MAX_BATCH = 50;
const MAX_KNOWN = 1_000;
const WAIT_MS = 20; // one request has the texts that a page shows together
const known = signal(new Map());
const queued = new Set();
const asked = new Set();

/** Return a sentence of a service, such as a result, in the language of the page if that is known. */
export function serverText(english) {
  return translation(english) ?? english;
}

/** Return a problem of a service in the language of the page; its own words are added where they have no translation. */
export function problemText(english, code) {
  const text = translation(english);
  return text === english && language.value !== "en" ? originalProblem(english, code) : text ?? english;
}

/** Return the translation, which is the text itself if there is none, or undefined while it is not known. */
function translation(english) {
  if (!english || language.value === "en" || english.length > MAX_LENGTH) return english;
  const key = keyOf(english, language.value);
  const text = known.value.get(key);
  if (text === undefined && !asked.has(key)) {
    if (!queued.size) setTimeout(fetchQueued, WAIT_MS);
    queued.add(english);
    asked.add(key);
  }
  return text;
}

async function fetchQueued() {
  const texts = [...queued];
  const name = language.value;
  queued.clear();
  for (let at = 0; at < texts.length; at += MAX_BATCH) {
    const part = texts.slice(at, at + MAX_BATCH);
    const translated = await translateAll(part); // undefined if it failed: the next display asks again
    const all = new Map(known.value.size > MAX_KNOWN ? [] : known.value);
    translated?.forEach((it, place) => all.set(keyOf(part[place], name), it));
    part.forEach((it) => asked.delete(keyOf(it, name)));
    if (translated) known.value = all;
  }
}

function keyOf(english, name) {
  return `${name} ${english}`;
}
