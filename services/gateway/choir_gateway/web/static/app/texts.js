/* Texts of the page in the user's language, from the catalogues in `locales/`. */
import {signal} from "./html.js";
import {recall, remember} from "./settings.js";

export const LANGUAGES = {en: "English", de: "Deutsch"};
const texts = signal({});
export const language = signal("en");

export async function loadTexts(chosen) {
  const wanted = chosen ?? recall("language", null) ?? navigator.language.slice(0, 2);
  const name = wanted in LANGUAGES ? wanted : "en";
  texts.value = await loadCatalogue(`locales/${name}`);
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

/** Return a problem of the server that has no translation: its kind in the language of the page, then its own words. */
export function originalProblem(detail, code) {
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
