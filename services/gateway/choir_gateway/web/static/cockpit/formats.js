/* Numbers, money, times and durations in the user's language. */
import {language, t} from "../app/texts.js";

export function formatNumber(value) {
  return Number(value).toLocaleString(language.value);
}

/** Dollars; small amounts with as many digits as tell something. */
export function formatMoney(usd) {
  const value = Number(usd);
  const digits = value === 0 || Math.abs(value) >= 1 ? 2 : 4;
  return value.toLocaleString(language.value, {style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: digits});
}

export function formatDateTime(at) {
  return new Date(at).toLocaleString(language.value, {dateStyle: "medium", timeStyle: "medium"});
}

const STEPS = [["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** How long ago a time was, or how far ahead it is: "3 minutes ago". */
export function formatAgo(at, now = Date.now()) {
  const seconds = (new Date(at) - now) / 1000;
  const [unit, size] = STEPS.find(([, length]) => Math.abs(seconds) >= length) ?? STEPS.at(-1);
  return new Intl.RelativeTimeFormat(language.value, {numeric: "auto"}).format(Math.trunc(seconds / size), unit);
}

/** A duration with two units at most: "2 h 5 min", "340 ms". */
export function formatDuration(milliseconds) {
  const ms = Math.max(0, Number(milliseconds));
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds.toLocaleString(language.value, {maximumFractionDigits: seconds < 10 ? 1 : 0})} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${t("days", {count: Math.floor(hours / 24)})} ${hours % 24} h`;
}

const BY_BROWSER = "operator, browser ";

/** Who decided, from its record: `operator`, `operator, browser ID`, or else as it is, such as `dm ann`. */
export function deciderName(by) {
  if (by === "operator") return t("approvals.by.operator");
  return by.startsWith(BY_BROWSER) ? t("approvals.by.browser", {browser: by.slice(BY_BROWSER.length)}) : by;
}
