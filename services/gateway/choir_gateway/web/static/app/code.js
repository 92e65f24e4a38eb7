/* Colours of code: highlight.js makes a tree of strings and scopes. */
import highlighter from "../vendor/highlight.js";

/** Return the parts of a text: strings, and `{className, children}`. */
export function colour(code, language) {
  if (!highlighter.getLanguage(language)) return [code];
  const result = highlighter.highlight(code, {language, ignoreIllegals: true});
  return result._emitter.rootNode.children.map(convert);
}

function convert(node) {
  if (typeof node === "string") return node;
  const scope = /^[\w-]+/.exec(node.scope ?? "")?.[0] ?? "";
  return {className: scope && `hl-${scope}`, children: node.children.map(convert)};
}
