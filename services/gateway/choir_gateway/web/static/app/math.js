/* KaTeX with its style sheet. It builds elements, not HTML text. */
import "../vendor/katex/katex.js";

const STYLE = new URL("../vendor/katex/katex.css", import.meta.url).href;
const ready = new Promise((resolve) => {
  const link = Object.assign(document.createElement("link"), {rel: "stylesheet", href: STYLE});
  link.addEventListener("load", resolve);
  link.addEventListener("error", resolve);
  document.head.append(link);
});

export async function renderMath(element, source, isBlock) {
  await ready;
  // no commands that make links or load files (`trust`), and a limit on macros that call each other
  const options = {displayMode: isBlock, trust: false, strict: "ignore", maxExpand: 300, maxSize: 20};
  try {
    globalThis.katex.render(source, element, options);
  } catch (error) {
    // KaTeX would colour it by an attribute, which the policy forbids
    element.classList.add("math-error");
    element.textContent = source;
    element.title = String(error.message);
  }
}
