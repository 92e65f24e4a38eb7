/* Words for what memory stores: kinds, statuses, origins, validity. */
import {findText, language, t} from "../app/texts.js";

/** The text of `memory.GROUP.NAME`; a name that has none is shown as it is. */
export function named(group, name) {
  return findText(`memory.${group}.${String(name).replaceAll(" ", "_")}`) ?? String(name);
}

const STATUS_KINDS = {active: "good", held: "warning", retired: "plain", expired: "plain", upcoming: "busy"};

export function statusKind(status) {
  return STATUS_KINDS[status] ?? "plain";
}

/** The status that a search sees: an active document may not be valid yet, or no longer. */
export function effectiveStatus(record, now = Date.now()) {
  if (record.status !== undefined && record.status !== "active") return record.status;
  if (record.valid_to && new Date(record.valid_to) <= now) return "expired";
  if (record.valid_from && new Date(record.valid_from) > now) return "upcoming";
  return "active";
}

export function formatDate(at) {
  return new Date(at).toLocaleDateString(language.value, {dateStyle: "medium"});
}

/** When a document is valid: "since 1 May 2026", or nothing if that is not limited. */
export function describeValidity({valid_from: from, valid_to: to}) {
  if (from && to) return t("memory.valid.between", {from: formatDate(from), to: formatDate(to)});
  if (from) return t("memory.valid.from", {from: formatDate(from)});
  if (to) return t("memory.valid.to", {to: formatDate(to)});
  return "";
}

/** A share or a score with three digits. */
export function formatScore(value) {
  return Number(value).toLocaleString(language.value, {minimumFractionDigits: 3, maximumFractionDigits: 3});
}
