/* The summary of a chosen period; for a day, also what was said on it. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";
import {Empty, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {DocumentList, Words} from "./parts.js";
import {agentPath, documentAddress} from "./paths.js";
import {grainOf} from "./periods.js";

export function PeriodSummary({agent, period, items, isLoading}) {
  return html`${items.length > 0 ? items.map((it) => html`<${Summary} key=${it.document_id} agent=${agent} id=${it.document_id} />`)
      : html`<${Empty}>${t(isLoading ? "loading" : "memory.calendar.none")}<//>`}
    ${grainOf(period) === "day" && html`<h3>${t("memory.calendar.said")}</h3>
      <${DocumentList} agent=${agent} label=${t("memory.calendar.said")} path=${agentPath(agent, "memory", "documents")}
        params=${{store: "session", kind: ["turn", "note"], since: period, until: period}} empty=${t("memory.calendar.silent")} />`}`;
}

function Summary({agent, id}) {
  const shown = useResource(agentPath(agent, "memory", "documents", id));
  if (!shown.data) return html`<${Waiting} resource=${shown} />`;
  const {record, links} = shown.data;
  const sources = links.filter((it) => it.direction === "from").length;
  return html`<div class="panel"><${Words} text=${record.text} />
    <p class="memory-origin">${record.conversations?.length > 0 && html`<span dir="auto">${record.conversations.join(", ")}</span>`}
      ${sources > 0 && html`<span>${t("memory.calendar.sources", {count: sources})}</span>`}
      <a href=${documentAddress(agent, id)}>${t("memory.document.open")}</a></p></div>`;
}
