/* What is decided, line by line, as the server wrote it: everything that the digest covers and nothing else. */
import {html, useMemo} from "../app/html.js";
import {t} from "../app/texts.js";
import {showInvisible} from "../cockpit/kit.js";
import {splitSpelled} from "./texts.js";

export function Change({lines}) {
  // thousands of lines: they are made once
  return useMemo(() => html`<pre class="change" tabindex="0" role="region" aria-label=${t("approvals.change")} dir="ltr">${
    lines.map((line, number) => html`<${Line} key=${number} line=${line} />`)}</pre>`, [lines]);
}

function Line({line}) {
  const name = line.kind === "old" ? "del" : line.kind === "new" ? "ins" : "span";
  return html`<${name} class="change-line" data-kind=${line.kind}><${Spelled} text=${line.text} />${"\n"}</${name}>`;
}

/** A text of the server with each character marked that it spelled out. */
export function Spelled({text}) {
  return splitSpelled(text).map((part) => (typeof part === "string"
    ? showInvisible(part)
    : html`<mark class="invisible">${`<U+${part.number}>`}</mark>`));
}
