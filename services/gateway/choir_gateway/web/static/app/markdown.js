/* Markdown as elements of the page.

   markdown-it makes tokens, and each token becomes an element here. No text is ever parsed as HTML, so what an agent
   writes can add no element and no attribute that is not in this module. Trusted Types forbid it as well. */
import "../vendor/markdown-it.js";
import {CodeBlock} from "./code-block.js";
import {h, html, useMemo} from "./html.js";
import {MathText} from "./math-text.js";
import {addMathRules} from "./math-rules.js";
import {t} from "./texts.js";

const SAFE_LINK = /^(https?|mailto):/i;
const TAGS = new Set([
  "p", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "em", "strong", "s",
]);
const HEADINGS = {h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6"}; // h1 and h2 are the page's
const ALIGNMENT = /text-align:\s*(left|center|right)/;

const parser = globalThis.markdownit({html: false, linkify: true, breaks: false, maxNesting: 60});
parser.validateLink = (address) => SAFE_LINK.test(address.trim());
addMathRules(parser);

export function Markdown({text, isDraft = false}) {
  const children = useMemo(() => build(parser.parse(text, {}), isDraft), [text, isDraft]);
  return html`<div class="markdown" dir="auto">${children}</div>`;
}

function build(tokens, isDraft) {
  const stack = [{children: []}];
  const add = (child) => stack.at(-1).children.push(child);
  for (const token of tokens) {
    if (token.nesting === 1) {
      stack.push({token, children: []});
    } else if (token.nesting === -1) {
      const {token: opened, children} = stack.pop();
      add(buildElement(opened, children));
    } else {
      add(buildLeaf(token, isDraft));
    }
  }
  return stack[0].children;
}

function buildElement(token, children) {
  if (token.hidden) return children; // the paragraph of a tight list
  if (token.tag === "a") return buildLink(token.attrGet("href") ?? "", children);
  const tag = HEADINGS[token.tag] ?? token.tag;
  if (!TAGS.has(tag) && !Object.values(HEADINGS).includes(tag)) return children;
  const attributes = {};
  if (tag === "ol" && token.attrGet("start")) attributes.start = Number(token.attrGet("start"));
  const align = ALIGNMENT.exec(token.attrGet("style") ?? "");
  if (align) attributes.class = `align-${align[1]}`;
  const element = h(tag, attributes, ...children);
  // can be scrolled by keyboard, too
  return tag === "table" ? html`<div class="table" tabindex="0" role="group" aria-label=${t("markdown.table")}>${element}</div>` : element;
}

function buildLeaf(token, isDraft) {
  switch (token.type) {
    case "inline": return build(token.children, isDraft);
    case "text":
    case "text_special":
    case "html_inline":
    case "html_block": return token.content;
    case "softbreak": return "\n";
    case "hardbreak": return h("br");
    case "hr": return h("hr");
    case "code_inline": return h("code", null, token.content);
    case "fence":
    case "code_block": return html`<${CodeBlock} code=${token.content} language=${token.info.trim().split(/\s+/)[0]} isDraft=${isDraft} />`;
    case "math_inline":
    case "math_block": return html`<${MathText} source=${token.content} isBlock=${token.type === "math_block"} isDraft=${isDraft} />`;
    // nothing is loaded from other servers: that would tell them who reads what
    case "image": return buildLink(token.attrGet("src") ?? "", [token.content || token.attrGet("src")]);
    default: return token.content;
  }
}

function buildLink(address, children) {
  if (!SAFE_LINK.test(address)) return children;
  return h("a", {href: address, target: "_blank", rel: "noopener noreferrer nofollow", title: address}, ...children);
}
