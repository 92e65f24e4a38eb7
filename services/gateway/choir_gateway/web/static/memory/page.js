/* Memory of an agent: search, knowledge, calendar of summaries, collections, reminders, and its state. */
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {Empty, PageFrame, Tabs, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {CalendarTab} from "./calendar.js";
import {CollectionsTab} from "./collections.js";
import {DocumentView} from "./document.js";
import {ForgetDialog} from "./forget.js";
import {KnowledgeTab} from "./knowledge.js";
import {OverviewTab} from "./overview.js";
import {RemindersTab} from "./reminders.js";
import {SearchTab} from "./search.js";

const VIEWS = {
  search: SearchTab,
  knowledge: KnowledgeTab,
  calendar: CalendarTab,
  collections: CollectionsTab,
  reminders: RemindersTab,
  overview: OverviewTab,
  document: DocumentView,
};

export function Page({parts}) {
  const agents = useResource("v1/agents");
  if (!agents.data) return html`<${PageFrame} title=${t("page.memory")}><${Waiting} resource=${agents} /><//>`;
  const names = agents.data.items.map((it) => it.agent_id);
  // also the memory of an agent that is no longer configured, if the address names it
  const agent = parts[0] ?? names[0];
  if (agent === undefined) {
    return html`<${PageFrame} title=${t("page.memory")}><${Empty}>${t("memory.agents.none")}<//><//>`;
  }
  return html`<${AgentMemory} key=${agent} agent=${agent} names=${names} parts=${parts.slice(1)} />`;
}

function AgentMemory({agent, names, parts}) {
  const [isForgetting, setForgetting] = useState(false);
  const [version, setVersion] = useState(0); // what is shown is read again after an erasure
  const tab = parts[0] in VIEWS ? parts[0] : "search";
  const View = VIEWS[tab];
  const all = names.includes(agent) ? names : [agent, ...names];
  const actions = html`${all.length > 1 && html`<div class="toolbar"><select aria-label=${t("memory.agent")}
      onChange=${(event) => { location.hash = addressOf("memory", event.target.value, tab === "document" ? "knowledge" : tab); }}>
      ${all.map((it) => html`<option key=${it} value=${it} selected=${it === agent}>${it}</option>`)}</select></div>`}
    <button class="danger" onClick=${() => setForgetting(true)}>${t("memory.forget.open")}</button>`;
  return html`<${PageFrame} title=${t("page.memory")} detail=${all.length > 1 ? undefined : agent} actions=${actions}>
    <${Tabs} label=${t("memory.tabs")} current=${tab === "document" ? "knowledge" : tab} tabs=${tabsOf(agent)} />
    <${View} key=${`${tab} ${version}`} agent=${agent} parts=${parts.slice(1)} />
    <${ForgetDialog} isOpen=${isForgetting} agent=${agent} onClose=${() => setForgetting(false)}
      onErased=${() => setVersion(version + 1)} />
  <//>`;
}

function tabsOf(agent) {
  return [
    ["search", t("memory.tab.search")],
    ["knowledge", t("memory.tab.knowledge")],
    ["calendar", t("memory.tab.calendar")],
    ["collections", t("memory.tab.collections")],
    ["reminders", t("memory.tab.reminders")],
    ["overview", t("memory.tab.overview")],
  ].map(([name, title]) => ({name, title, address: addressOf("memory", agent, name)}));
}
