/* What a document rests on: the quotation, and the messages and documents it was derived from. */
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {Badge, Empty, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {named} from "./labels.js";
import {SessionLink, When, Words} from "./parts.js";
import {agentPath, documentAddress} from "./paths.js";

const FIRST = 5; // each is a request, and an entry in the audit log

export function Evidence({agent, record, links}) {
  const [limit, setLimit] = useState(FIRST);
  const isSession = record.type === "session" && record.session_id;
  if (!record.evidence && links.length === 0 && !isSession) {
    return html`<${Empty}>${t("memory.evidence.none", {origin: named("from", record.origin)})}<//>`;
  }
  return html`${record.evidence && html`<blockquote class="memory-quote" dir="auto">${showInvisible(record.evidence)}</blockquote>`}
    ${isSession && html`<p>${t("memory.evidence.said")} <${SessionLink} session=${record.session_id} /></p>`}
    <ul class="memory-list">${links.slice(0, limit).map(
      (link) => html`<${SourceItem} key=${`${link.kind} ${link.document_id}`} agent=${agent} link=${link} />`)}</ul>
    ${links.length > limit && html`<div class="buttons"><button onClick=${() => setLimit(limit + 20)}>
      ${t("memory.evidence.more", {count: links.length - limit})}</button></div>`}`;
}

/** The source with its session, so that one can read what was said around it. */
function SourceItem({agent, link}) {
  const source = useResource(link.text === null ? null : agentPath(agent, "memory", "documents", link.document_id));
  const record = source.data?.record;
  return html`<li class="panel memory-item">
    <div class="memory-line"><${Badge}>${named("link", link.kind)}<//>
      ${record?.speaker && html`<b dir="auto">${showInvisible(record.speaker)}</b>`}
      ${record && html`<span class="detail"><${When} at=${record.happened_at ?? record.created_at} /></span>`}
      ${record?.session_id && html`<${SessionLink} session=${record.session_id} />`}
      ${link.text !== null && html`<a class="memory-open" href=${documentAddress(agent, link.document_id)}>${t("memory.document.open")}</a>`}</div>
    <${Words} text=${record?.text ?? link.text ?? t("memory.gone")} />
    ${source.error && html`<${Waiting} resource=${source} />`}</li>`;
}
