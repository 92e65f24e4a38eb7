/* What the timeline shows: rows by kind, lane and tool, and by a text. Pure. */

export const NO_FILTER = {text: "", kind: "", lane: "", tool: ""};

export function isFiltering(filter) {
  return Object.values(filter).some(Boolean);
}

/** Return the groups that have matching rows, as `{group, rows}`, the newest first. */
export function select(groups, filter) {
  const words = filter.text.trim().toLowerCase();
  const found = [];
  for (let at = groups.length - 1; at >= 0; at -= 1) {
    const group = groups[at];
    if (filter.lane && group.lane !== filter.lane) continue;
    const rows = isFiltering(filter) ? group.rows.filter((row) => matches(row, filter, words)) : group.rows;
    if (rows.length) found.push({group, rows});
  }
  return found;
}

function matches(row, {kind, tool}, words) {
  if (kind === "failed" ? !isFailure(row) : kind && row.kind !== kind) return false;
  if (tool && row.tool !== tool) return false;
  return !words || row.events.some((event) => searchable(event).includes(words));
}

export function isFailure(row) {
  return ["error", "refused", "interrupted"].includes(row.status);
}

const texts = new WeakMap(); // event -> its text in lower case, made with the first search

function searchable(event) {
  let text = texts.get(event);
  if (text === undefined) {
    const parts = [event.type, event.lane];
    collect(event.payload, parts);
    text = parts.join("\n").toLowerCase();
    texts.set(event, text);
  }
  return text;
}

/** Collect all texts of a value: a search for what a tool returned must not stumble over escapes of JSON. */
function collect(value, parts) {
  if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      if (!Array.isArray(value)) parts.push(name);
      collect(item, parts);
    }
  } else if (value !== null && value !== undefined) parts.push(String(value));
}
