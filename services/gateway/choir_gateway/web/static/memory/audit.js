/* Who did what to an agent's memory. */
import {get} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {findText, t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {ActionButton, DataTable, Empty, Section, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {named} from "./labels.js";
import {agentPath, documentAddress, withQuery} from "./paths.js";

const PAGE = 50;
const SHOWN_IDS = 3;
const BY_AGENT = "agent:";

export function AuditLog({agent}) {
  const path = agentPath(agent, "memory", "audit");
  const first = useResource(withQuery(path, {limit: PAGE}));
  const [later, setLater] = useState([]);
  const [isAtEnd, setAtEnd] = useState(false);
  const items = [...(first.data?.items ?? []), ...later];
  async function loadNext() {
    const page = await get(withQuery(path, {limit: PAGE, before: items.at(-1).number}));
    setLater([...later, ...page.items]);
    setAtEnd(page.items.length < PAGE);
  }
  return html`<${Section} title=${t("memory.audit")} detail=${t("memory.audit.about")}>
    <${Waiting} resource=${first} />
    ${first.data && (items.length === 0 ? html`<${Empty}>${t("memory.audit.none")}<//>`
      : html`<${DataTable} label=${t("memory.audit")} rows=${items} rowKey=${(it) => it.number} columns=${[
        {key: "at", title: t("memory.audit.at"), render: (it) => html`<span class="memory-nowrap">${formatDateTime(it.at)}</span>`},
        {key: "actor", title: t("memory.audit.actor"), render: (it) => actorName(it.actor)},
        {key: "operation", title: t("memory.audit.operation"), render: (it) => html`${named("operation", it.operation)}
          <span class="detail"> ${Object.entries(it.detail).map(([name, value]) => detailText(name, value)).join(", ")}</span>`},
        {key: "documents", title: t("memory.documents"), render: (it) => html`<${Ids} agent=${agent} ids=${it.document_ids} />`},
      ]} />`)}
    ${items.length >= PAGE && !isAtEnd && html`<div class="buttons"><${ActionButton} action=${loadNext}>${t("memory.more")}<//></div>`}<//>`;
}

function actorName(actor) {
  if (actor === "operator") return t("operator");
  return actor.startsWith(BY_AGENT) ? t("memory.audit.agent", {agent: actor.slice(BY_AGENT.length)}) : actor;
}

/** A number or a constant of an entry with its name; what a scope or a mode is called is known, too. */
function detailText(name, value) {
  const word = name === "scope" ? named("scope", value) : name === "mode" ? named("mode", value) : value;
  return findText(`memory.audit.detail.${name}`) ? t(`memory.audit.detail.${name}`, {value: word}) : `${name} ${value}`;
}

function Ids({agent, ids}) {
  const more = ids.length - SHOWN_IDS;
  return html`${ids.slice(0, SHOWN_IDS).map((id) => html`<a key=${id} class="memory-id" href=${documentAddress(agent, id)}>${id.slice(0, 8)}</a>`)}
    ${more > 0 && html`<span class="detail">${t("memory.audit.more", {count: more})}</span>`}`;
}
