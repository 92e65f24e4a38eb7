/* Rules of markdown-it for mathematics: `$…$`, `\(…\)`, `$$…$$` and `\[…\]`. */

const INLINE = [["$$", "$$"], ["\\(", "\\)"], ["\\[", "\\]"], ["$", "$"]];
const MAX_FORMULA = 5_000; // characters; the search for the end would be quadratic
const BLOCK = [["$$", "$$"], ["\\[", "\\]"]];

export function addMathRules(parser) {
  parser.inline.ruler.before("escape", "math_inline", parseInline);
  parser.block.ruler.before("fence", "math_block", parseBlock, {alt: ["paragraph", "blockquote", "list"]});
}

function findEnd(text, close, from) {
  const at = text.slice(from, from + MAX_FORMULA).indexOf(close);
  return at < 0 ? -1 : from + at;
}

function parseInline(state, silent) {
  const pair = INLINE.find(([open]) => state.src.startsWith(open, state.pos));
  if (!pair) return false;
  const [open, close] = pair;
  const from = state.pos + open.length;
  const end = findEnd(state.src, close, from);
  if (end <= from || end + close.length > state.posMax) return false;
  const content = state.src.slice(from, end);
  // "$5 and $10" are amounts of money
  if (open === "$" && (/^\s|\s$|\n/.test(content) || /\d/.test(state.src[end + 1] ?? ""))) return false;
  if (!silent) {
    const isBlock = open === "$$" || open === "\\[";
    state.push(isBlock ? "math_block" : "math_inline", "", 0).content = content;
  }
  state.pos = end + close.length;
  return true;
}

function parseBlock(state, startLine, endLine, silent) {
  const start = state.bMarks[startLine] + state.tShift[startLine];
  const pair = BLOCK.find(([open]) => state.src.startsWith(open, start));
  if (!pair) return false;
  const [open, close] = pair;
  const end = findEnd(state.src, close, start + open.length);
  if (end < 0) return false;
  let line = startLine;
  while (line < endLine && state.eMarks[line] < end) line += 1;
  if (line >= endLine || state.src.slice(end + close.length, state.eMarks[line]).trim()) return false;
  if (silent) return true;
  state.push("math_block", "", 0).content = state.src.slice(start + open.length, end);
  state.line = line + 1;
  return true;
}
