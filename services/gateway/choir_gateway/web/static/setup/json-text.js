/* Additions to a JSON text that leave every other character as it is. Pure. */

/** Return the text with `section.name` set to `value`; throws RangeError if the name is taken. */
export function addEntry(text, section, name, value) {
  const document = JSON.parse(text);
  const isObject = (it) => it !== null && typeof it === "object" && !Array.isArray(it);
  if (!isObject(document)) throw new SyntaxError("config.json");
  if (!Object.hasOwn(document, section)) {
    return addEntry(append(text, skip(text, 0), section, {}, 0), section, name, value);
  }
  if (!isObject(document[section])) throw new SyntaxError(section);
  if (Object.hasOwn(document[section], name)) throw new RangeError(`${section}.${name}`);
  return append(text, findValue(text, skip(text, 0), section), name, value, 1);
}

/** Return the keys of the objects and the numbers in the arrays around a place in a text, which need not be complete. */
export function pathAt(text, offset) {
  const path = [];
  let key;
  let at = 0;
  while (at < offset) {
    const character = text[at];
    if (character === '"') {
      const end = endOfString(text, at);
      const after = skip(text, end);
      if (text[after] === ":") key = parseKey(text.slice(at, end));
      at = end;
    } else {
      if (character === "{" || character === "[") {
        path.push(key ?? 0);
        key = character === "[" ? 0 : undefined;
      } else if (character === "}" || character === "]") {
        path.pop();
        key = undefined;
      } else if (character === ",") {
        key = typeof key === "number" ? key + 1 : undefined;
      }
      at += 1;
    }
  }
  return [...path.slice(1), ...(key === undefined ? [] : [key])];
}

function append(text, start, name, value, depth) {
  const indent = /\n([ \t]+)"/.exec(text)?.[1] ?? "  ";
  const end = endOf(text, start);
  const inner = text.slice(start + 1, end - 1).trimEnd();
  const lines = JSON.stringify(value, null, indent).split("\n").join(`\n${indent.repeat(depth + 1)}`);
  return `${text.slice(0, start + 1)}${inner}${inner.trim() ? "," : ""}\n${indent.repeat(depth + 1)}${
    JSON.stringify(name)}: ${lines}\n${indent.repeat(depth)}${text.slice(end - 1)}`;
}

function findValue(text, start, name) {
  let at = skip(text, start + 1);
  for (;;) {
    const end = endOfString(text, at);
    const value = skip(text, skip(text, end) + 1);
    if (parseKey(text.slice(at, end)) === name) return value;
    at = skip(text, skip(text, endOf(text, value)) + 1);
  }
}

/** Where the value that begins at `at` ends, in a valid text. */
function endOf(text, at) {
  if (text[at] === '"') return endOfString(text, at);
  if (text[at] !== "{" && text[at] !== "[") return at + /^[^\s,\]}]*/.exec(text.slice(at))[0].length;
  let depth = 0;
  do {
    if (text[at] === '"') {
      at = endOfString(text, at);
    } else {
      if (text[at] === "{" || text[at] === "[") depth += 1;
      if (text[at] === "}" || text[at] === "]") depth -= 1;
      at += 1;
    }
  } while (depth > 0);
  return at;
}

function endOfString(text, at) {
  for (let end = at + 1; end < text.length; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === '"') return end + 1;
  }
  return text.length;
}

function skip(text, at) {
  while (at < text.length && " \t\r\n".includes(text[at])) at += 1;
  return at;
}

function parseKey(source) {
  try {
    return JSON.parse(source);
  } catch {
    return undefined;
  }
}
