/* Marks of groups and rows: what they cost, and links to their causes and effects. */
import {html} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {language, t} from "../app/texts.js";
import {formatMoney} from "../cockpit/formats.js";
import {showInvisible} from "../cockpit/kit.js";

/** A time of the day with seconds. */
export function formatClock(at) {
  return new Date(at).toLocaleTimeString(language.value, {timeStyle: "medium"});
}

/** Money of a group or row; nothing if nothing was charged. */
export function Cost({cost}) {
  if (!cost) return null;
  return html`${cost.isPriced && html`<span>${formatMoney(cost.usd)}</span>`}
    ${cost.unknown > 0 && html`<span title=${t("log.unpriced", {count: cost.unknown})}>${t("log.unpriced.short")}</span>`}`;
}

/** A link to the event that is the cause or the effect of another one, in this log or in that of another agent. */
export function Jump({id, link, text = "→"}) {
  return html`<a class="log-jump" href=${addressOf("log", link.session ?? id, String(link.place ?? link.rev))}>${text} ${t(`log.link.${link.kind}`)}${link.name
    && html` ${showInvisible(link.name)}`}${link.rev && ` (${link.rev})`}</a>`;
}
