/* A search as the server takes it, from the fields of the form: pure. */
export const KINDS = {
  session: ["turn", "summary", "note", "tools"],
  knowledge: ["fact", "rule", "note", "episode", "document_chunk", "error", "entity"],
};
export const TIERS = ["mid_term", "long_term_summary", "long_term_detail", "grain_summary"];
export const GRAINS = ["day", "week", "month", "quarter", "year"];
export const HIDDEN = ["held", "retired", "expired"];

const NUMBERS = ["min_trust", "min_score", "limit", "min_days_ago", "max_days_ago"];
const TEXTS = ["since", "until", "session_id", "exclude_session", "collection", "grain", "mode"];
const LISTS = ["kinds", "tiers", "include"];
const WORDS = ["speakers", "origins", "scopes"];

/** Return the query of a form; throws TagError for tags that cannot be read. */
export function readQuery(form) {
  const query = {store: form.get("store"), query: (form.get("query") ?? "").trim(), explain: true};
  for (const name of TEXTS) {
    const value = (form.get(name) ?? "").trim();
    if (value) query[name] = value;
  }
  for (const name of NUMBERS) {
    const value = (form.get(name) ?? "").trim();
    if (value) query[name] = Number(value);
  }
  for (const name of LISTS) if (form.getAll(name).length) query[name] = form.getAll(name);
  for (const name of WORDS) {
    const words = splitWords(form.get(name));
    if (words.length) query[name] = words;
  }
  const tags = readTags(form.get("tags"));
  if (Object.keys(tags).length) query.tags = tags;
  for (const name of ["context", "expand"]) if (form.has(name)) query[name] = true;
  return query;
}

export function splitWords(text) {
  return (text ?? "").split(",").map((it) => it.trim()).filter(Boolean);
}

export class TagError extends Error {}

/** Return tags from `name=value, name=value`; numbers, true and false are values of that type. */
export function readTags(text) {
  const tags = {};
  for (const pair of splitWords(text)) {
    const at = pair.indexOf("=");
    if (at < 1) throw new TagError(pair);
    const value = pair.slice(at + 1).trim();
    tags[pair.slice(0, at).trim()] = /^(-?\d+(\.\d+)?|true|false)$/.test(value) ? JSON.parse(value) : value;
  }
  return tags;
}

/** Names of filters in a query, to say how many are set. */
export function usedFilters(query) {
  return Object.keys(query).filter((it) => !["store", "query", "explain", "mode", "limit", "context", "expand"].includes(it));
}
