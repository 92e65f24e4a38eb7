/* Forget, or take back what was learned: choose, see exactly what goes along, confirm. */
import {post} from "../app/api.js";
import {html, useEffect, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, DataTable, Dialog, Field, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {formatDateTime, formatNumber} from "../cockpit/formats.js";
import {consequences} from "./forget-texts.js";
import {named} from "./labels.js";
import {agentPath, withQuery} from "./paths.js";

const SCOPES = ["everything", "learned", "said"];

/** With `document` and `scope` the selection is given, and the preview is shown at once. */
export function ForgetDialog({isOpen, agent, scope, document: id, onClose, onErased}) {
  const title = scope === "learned" ? t("memory.undo") : t("memory.forget");
  return html`<${Dialog} isOpen=${isOpen} title=${title} onClose=${onClose}>
    <${Forget} agent=${agent} given=${id ? {scope, document: id} : null} onClose=${onClose} onErased=${onErased} /><//>`;
}

function Forget({agent, given, onClose, onErased}) {
  const [selection, setSelection] = useState(given);
  const [report, setReport] = useState(null);
  const [problem, setProblem] = useState("");
  const path = agentPath(agent, "memory", "forget");

  async function preview(chosen) {
    setProblem("");
    try {
      setReport(await post(path, chosen));
      setSelection(chosen);
    } catch (error) {
      setProblem(error.message);
    }
  }
  useEffect(() => { if (given) preview(given); }, []);

  async function erase() {
    try {
      const done = await post(path, {...selection, expected_digest: report.memory.digest});
      notify(t("memory.forget.done", {count: formatNumber(done.memory.total)}));
    } catch (error) {
      // it changed since the preview: what is shown must be what is erased
      if (error.status === 409) await preview(selection);
      setProblem(error.message);
      return;
    }
    onClose();
    onErased();
  }

  const alert = problem && html`<p class="problem" role="alert">${problem}</p>`;
  if (report) {
    return html`<${Preview} report=${report} />${alert}<div class="buttons">
      <${ActionButton} className="danger" action=${erase} disabled=${isNothing(report)}>${t("memory.forget.confirm", {count: formatNumber(report.memory.total)})}<//>
      ${!given && html`<button onClick=${() => setReport(null)}>${t("memory.forget.back")}</button>`}
      <button onClick=${onClose}>${t("memory.cancel")}</button></div>`;
  }
  if (given) return alert || html`<p class="empty" role="status">${t("loading")}</p>`;
  return html`<${Selection} agent=${agent} before=${selection} onChoose=${preview} />${alert}`;
}

function isNothing(report) {
  return report.memory.total === 0 && report.message_count === 0 && report.logs.length === 0;
}

function Selection({agent, before, onChoose}) {
  const [by, setBy] = useState(before?.document ? "document" : before?.session_id ? "session" : before?.since || before?.until ? "time" : "words");
  const [scope, setScope] = useState(before?.scope ?? "everything");
  const [isBusy, setBusy] = useState(false);
  const sessions = useResource(by === "session" ? withQuery("v1/sessions", {agent_id: agent, limit: 100}) : null);
  async function submit(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    const chosen = {scope};
    for (const name of ["words", "document", "session_id"]) if (form.get(name)?.trim()) chosen[name] = form.get(name).trim();
    for (const name of ["since", "until"]) if (form.get(name)) chosen[name] = new Date(form.get(name)).toISOString();
    setBusy(true);
    await onChoose(chosen);
    setBusy(false);
  }
  return html`<form class="form" onSubmit=${submit}>
    <fieldset class="memory-scopes"><legend>${t("memory.forget.scope")}</legend>${SCOPES.map((it) => html`<label key=${it}>
      <input type="radio" name="scope" value=${it} checked=${scope === it} onChange=${() => setScope(it)} />
      <span><b>${named("scope", it)}</b><small>${named("scope.about", it)}</small></span></label>`)}</fieldset>
    <${Field} label=${t("memory.forget.by")}><select onChange=${(event) => setBy(event.target.value)}>
      ${["words", "document", "session", "time"].map((it) => html`<option key=${it} value=${it} selected=${it === by}>${named("by", it)}</option>`)}</select><//>
    ${by === "words" && html`<${Field} label=${t("memory.forget.words")} hint=${t("memory.forget.words.hint")}><input name="words" required maxlength="400" defaultValue=${before?.words} /><//>`}
    ${by === "document" && html`<${Field} label=${t("memory.forget.id")}><input name="document" required maxlength="200" spellcheck=${false} defaultValue=${before?.document} /><//>`}
    ${by === "session" && html`<${Waiting} resource=${sessions} /><${Field} label=${t("memory.field.session")}><select name="session_id" required>
      ${(sessions.data?.items ?? []).map((it) => html`<option key=${it.session_id} value=${it.session_id} selected=${it.session_id === before?.session_id}>
        ${formatDateTime(it.started_at)} · ${it.session_id}</option>`)}</select><//>`}
    ${by === "time" && html`<div class="memory-fields"><${Field} label=${t("memory.forget.since")}><input type="datetime-local" name="since" required /><//>
      <${Field} label=${t("memory.forget.until")} hint=${t("memory.forget.until.hint")}><input type="datetime-local" name="until" /><//></div>`}
    <div class="buttons"><button class="primary" disabled=${isBusy} aria-busy=${isBusy}>${t("memory.forget.preview")}</button></div>
  </form>`;
}

function Preview({report}) {
  const {memory} = report;
  return html`<p>${t(isNothing(report) ? "memory.forget.nothing" : "memory.forget.shown")}</p>
    <ul class="memory-remarks">${consequences(report).map((it) => html`<li key=${it}>${it}</li>`)}</ul>
    ${memory.documents.length > 0 && html`<${DataTable} label=${t("memory.forget.documents")} rows=${memory.documents} rowKey=${(it) => it.document_id} columns=${[
      {key: "kind", title: t("memory.forget.kind"), render: (it) => named("kind", it.kind)},
      {key: "why", title: t("memory.forget.why"), render: (it) => (it.derived ? t("memory.forget.derived") : t("memory.forget.selected"))},
      {key: "text", title: t("memory.field.text"), render: (it) => html`<span dir="auto">${it.key && html`<code>${showInvisible(it.key)}</code> `}${showInvisible(it.text)}</span>`},
      {key: "at", title: t("memory.forget.at"), render: (it) => formatDateTime(it.at)},
    ]} />`}
    ${report.messages.length > 0 && html`<h3>${t("memory.forget.messages")}</h3><ul class="memory-remarks">${report.messages.map((it, index) => html`<li key=${index} dir="auto">
      <b>${named("speaker", it.sender)}</b> ${showInvisible(it.text)}</li>`)}</ul>`}`;
}
