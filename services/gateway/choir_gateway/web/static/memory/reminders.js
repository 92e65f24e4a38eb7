/* What memory added to the user's messages of a session, when, and why. */
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {ActionButton, Badge, Empty, explain, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {describeValidity, named} from "./labels.js";
import {SessionLink, When, Words} from "./parts.js";
import {documentAddress, logAddress, withQuery} from "./paths.js";
import {useReminders} from "./reminder-events.js";
import {ReceiptDialog, describeArms} from "./receipt.js";
import {useReasons} from "./reasons.js";

export function RemindersTab({agent, parts}) {
  const sessions = useResource(withQuery("v1/sessions", {agent_id: agent, limit: 100}));
  const items = sessions.data?.items ?? [];
  const chosen = parts[0] ?? items[0]?.session_id;
  const choice = html`<div class="toolbar"><select aria-label=${t("memory.field.session")}
    onChange=${(event) => { location.hash = addressOf("memory", agent, "reminders", event.target.value); }}>
    ${items.map((it) => html`<option key=${it.session_id} value=${it.session_id} selected=${it.session_id === chosen}>
      ${formatDateTime(it.started_at)}${it.ended_at ? "" : ` · ${t("memory.session.open")}`}</option>`)}</select></div>`;
  return html`<${Section} title=${t("memory.tab.reminders")} detail=${t("memory.reminders.about")} actions=${items.length > 0 && choice}>
    <${Waiting} resource=${sessions} />
    ${sessions.data && chosen === undefined && html`<${Empty}>${t("memory.reminders.nosession")}<//>`}
    ${chosen !== undefined && html`<${SessionReminders} key=${chosen} agent=${agent} session=${chosen} />`}<//>`;
}

function SessionReminders({agent, session}) {
  const reminders = useReminders(session);
  const [receipt, setReceipt] = useState(null);
  return html`<p class="memory-origin"><a href=${logAddress(session)}>${t("memory.reminders.log")}</a></p>
    ${reminders.error && html`<p class="problem" role="alert">${explain(reminders.error)}</p>`}
    ${reminders.items.length === 0 && !reminders.error && html`<${Empty}>${t(reminders.isLoading ? "loading" : "memory.reminders.none")}<//>`}
    <ol class="memory-list">${reminders.items.map((it) => html`<${Reminded} key=${it.rev} agent=${agent} item=${it} onReceipt=${setReceipt} />`)}</ol>
    ${reminders.hasMore && html`<div class="buttons"><${ActionButton} action=${reminders.loadNext}>${t("memory.reminders.more")}<//></div>`}
    <${ReceiptDialog} agent=${agent} id=${receipt} onClose=${() => setReceipt(null)} />`;
}

/** One message, and what was added to it. */
function Reminded({agent, item, onReceipt}) {
  const [isOpen, setOpen] = useState(false);
  const reasons = useReasons(agent, isOpen ? item.receipts : []);
  return html`<li class="panel memory-item">
    <div class="memory-line"><span class="detail"><${When} at=${item.at} /></span>
      ${item.collections.map((it) => html`<${Badge} key=${it} kind="busy">${showInvisible(it)}<//>`)}</div>
    <blockquote class="memory-quote" dir="auto">${showInvisible(item.text)}</blockquote>
    <ul class="memory-reminders">${item.reminders.map((it) => html`<li key=${it.document_id}>
      <div class="memory-line"><${Badge}>${named("kind", it.kind)}<//>
        ${it.speaker && html`<b dir="auto">${showInvisible(it.speaker)}</b>`}
        <span class="detail"><${When} at=${it.at} /> · ${t("memory.origin", {origin: named("from", it.origin), trust: it.trust})}
          ${describeValidity(it) && ` · ${describeValidity(it)}`}</span>
        ${it.session_id && it.kind !== "document_chunk" && html`<${SessionLink} session=${it.session_id} />`}
        <a class="memory-open" href=${documentAddress(agent, it.document_id)}>${t("memory.document.open")}</a></div>
      <${Words} text=${it.text} />
      ${isOpen && html`<p class="memory-reason">${reasonOf(it, reasons)}</p>`}</li>`)}</ul>
    <div class="memory-line"><button aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${t("memory.reminders.why")}</button>
      ${isOpen && item.receipts.map((id, index) => html`<button key=${id} class="quiet" onClick=${() => onReceipt(id)}>
        ${t("memory.reminders.receipt", {number: index + 1})}</button>`)}</div>
  </li>`;
}

function reasonOf(reminder, reasons) {
  if (reminder.kind === "rule") return t("memory.reason.rule");
  const hit = reasons.hits.get(reminder.document_id);
  if (hit) return t("memory.reason.search", {arms: describeArms(hit.arms)});
  if (reasons.isLoading) return t("loading");
  if (reasons.isMissing) return t("memory.reason.missing");
  return t(reminder.kind === "fact" ? "memory.reason.named" : "memory.reason.other");
}
