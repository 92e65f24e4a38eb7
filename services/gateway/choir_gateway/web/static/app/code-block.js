/* A block of code with its language and a button that copies it. Colours are loaded with the first one. */
import {h, html, useEffect, useState} from "./html.js";
import {Icon} from "./icons.js";
import {t} from "./texts.js";

const MAX_COLOURED = 100_000; // characters

export function CodeBlock({code, language, isDraft}) {
  const [coloured, setColoured] = useState(null);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    setColoured(null);
    if (isDraft || !language || code.length > MAX_COLOURED) return undefined;
    let isCurrent = true;
    import("./code.js")
      .then(({colour}) => { if (isCurrent) setColoured(colour(code, language)); })
      .catch(() => {});
    return () => { isCurrent = false; };
  }, [code, language, isDraft]);

  async function copy() {
    await copyText(code);
    setCopied(true);
    setTimeout(() => setCopied(false), 2_000);
  }

  return html`<figure class="code">
    <figcaption><span>${language || t("code")}</span>
      <button class="quiet" onClick=${copy} aria-label=${t(isCopied ? "code.copied" : "code.copy")}>
        <${Icon} name=${isCopied ? "check" : "copy"} /><span>${t(isCopied ? "code.copied" : "code.copy")}</span></button>
    </figcaption>
    <pre tabindex="0"><code>${coloured ? coloured.map(build) : code}</code></pre>
  </figure>`;
}

function build(part) {
  return typeof part === "string" ? part : h("span", {class: part.className}, ...part.children.map(build));
}

/** Copy a text, also where the page has no TLS and the browser no clipboard interface. */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), {value: text});
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  return undefined;
}
