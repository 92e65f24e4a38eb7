/* A formula. KaTeX is loaded with the first one. */
import {html, useEffect, useRef} from "./html.js";

export function MathText({source, isBlock, isDraft}) {
  const place = useRef();
  useEffect(() => {
    if (isDraft) return;
    const element = place.current;
    import("./math.js").then(({renderMath}) => renderMath(element, source, isBlock)).catch(() => {});
  }, [source, isBlock, isDraft]);
  return html`<span class=${isBlock ? "math block" : "math"} ref=${place} key=${isDraft}>${source}</span>`;
}
