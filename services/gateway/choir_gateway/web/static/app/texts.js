/* Texts of the page in the user's language, from the catalogues in `locales/`, and what the server
   says, which is English, in that language, from those in `problems/`. */
import {signal} from "./html.js";
import {recall, remember} from "./settings.js";

export const LANGUAGES = {en: "English", de: "Deutsch"};
const MAX_TRANSLATED = 1_000; // characters; longer ones quote a text, which must not cost time
const texts = signal({});
export const language = signal("en");
/** The server's sentences, which are English, in the language of the page: `{English: translation}`. */
const problems = signal(new Map());

export async function loadTexts(chosen) {
  const wanted = chosen ?? recall("language", null) ?? navigator.language.slice(0, 2);
  const name = wanted in LANGUAGES ? wanted : "en";
  // at the same time, since each is a wait for the server
  const [words, sentences] = await Promise.all([
    loadCatalogue(`locales/${name}`), name === "en" ? {} : loadCatalogue(`problems/${name}`),
  ]);
  texts.value = words;
  problems.value = compileSentences(sentences);
  language.value = name;
  document.documentElement.lang = name;
  if (chosen) remember("language", chosen);
}

async function loadCatalogue(path) {
  const response = await fetch(new URL(`../${path}.json`, import.meta.url));
  if (!response.ok) throw new Error(`${path}.json: ${response.status}`);
  return response.json();
}

/** Return the text of a key, or undefined: for keys that are made from a name of the server. */
export function findText(key) {
  return texts.value[key];
}

function compileSentences(sentences) {
  return new Map(Object.entries(sentences).map(([english, text]) => {
    const parts = english.split(/\{(\w+)\}/); // texts and names in turn
    const source = parts.map((it, at) => (at % 2 ? `(?<${it}>.+?)` : it.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))).join("");
    return [new RegExp(`^${source}$`, "s"), text];
  }));
}

function translateSentence(english) {
  for (const [pattern, text] of problems.value) {
    const values = pattern.exec(english);
    if (values) return text.replace(/\{(\w+)\}/g, (_, name) => values.groups[name]);
  }
  return undefined;
}

/** Return what the server says in the language of the page, sentence by sentence, or undefined if a part is unknown. */
function translate(english) {
  if (english.length > MAX_TRANSLATED) return undefined;
  const whole = translateSentence(english);
  if (whole) return whole;
  const sentences = english.split(/(?<=[.!?]) (?=[\p{Lu}`'{])/u).map(translateSentence);
  return sentences.includes(undefined) ? undefined : sentences.join(" ");
}

/** Return a sentence of the server, such as a result, in the language of the page if that is known. */
export function serverText(english) {
  return (english && language.value !== "en" && translate(english)) || english;
}

/** Return a problem of the server in the language of the page; its own words are added where they have no translation. */
export function problemText(detail, code) {
  if (language.value === "en" || !detail) return detail;
  const known = translate(detail);
  if (known) return known;
  return t("problem.original", {text: findText(`problem.${code}`) ?? t("problem.internal"), original: detail});
}

/** Return the text of a key, with `{name}` replaced by the values. */
export function t(key, values = {}) {
  const text = texts.value[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

export function formatTime(at) {
  return new Date(at).toLocaleTimeString(language.value, {hour: "2-digit", minute: "2-digit"});
}

export function formatDay(at) {
  const day = new Date(at);
  const today = new Date();
  const days = Math.round((new Date(today).setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 864e5);
  if (days === 0) return t("day.today");
  if (days === 1) return t("day.yesterday");
  const year = day.getFullYear() === today.getFullYear() ? undefined : "numeric";
  return day.toLocaleDateString(language.value, {weekday: "long", day: "numeric", month: "long", year});
}

/** Return a duration such as 1:07. */
export function formatDuration(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

export function formatSize(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const kilo = bytes < 999_500;
  const value = bytes / (kilo ? 1e3 : 1e6);
  return `${value.toLocaleString(language.value, {maximumFractionDigits: value < 10 ? 1 : 0})} ${kilo ? "kB" : "MB"}`;
}
