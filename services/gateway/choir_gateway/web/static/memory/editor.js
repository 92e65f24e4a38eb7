/* The form that adds knowledge, or changes its text, status and validity. */
import {post} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Dialog, Field} from "../cockpit/kit.js";
import {named} from "./labels.js";
import {agentPath} from "./paths.js";
import {splitWords} from "./search-query.js";

const STATUSES = ["active", "held", "retired"];

/** `record` is the document to change; without one a new document is added. */
export function EditorDialog({isOpen, agent, record, onClose, onSaved}) {
  return html`<${Dialog} isOpen=${isOpen} title=${t(record ? "memory.edit" : "memory.add")} onClose=${onClose}>
    <${Editor} agent=${agent} record=${record} onClose=${onClose} onSaved=${onSaved} /><//>`;
}

function Editor({agent, record, onClose, onSaved}) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);

  async function save(event) {
    event.preventDefault();
    setProblem("");
    let body;
    try {
      body = readDocument(new FormData(event.target), record);
    } catch {
      setProblem(t("memory.metadata.wrong"));
      return;
    }
    if (body === null) {
      setProblem(t("memory.edit.same"));
      return;
    }
    setBusy(true);
    try {
      const written = await post(agentPath(agent, "memory", "documents"), body);
      notify(written.operation === "unchanged" ? t("memory.edit.unchanged") : t("memory.edit.saved"));
      onClose();
      onSaved(written.document_id);
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
    }
  }

  return html`<form class="form" onSubmit=${save}>
    <${Field} label=${t("memory.field.text")} hint=${record?.kind === "fact" ? t("memory.edit.fact") : undefined}>
      <textarea name="text" rows="6" required maxlength="100000" dir="auto" defaultValue=${record?.text ?? ""}></textarea><//>
    ${!record && html`<${Field} label=${t("memory.field.key")} hint=${t("memory.field.key.hint")}><input name="key" maxlength="200" spellcheck=${false} /><//>`}
    <div class="memory-fields">
      <${Field} label=${t("memory.field.status")}><select name="status">${STATUSES.map(
        (it) => html`<option key=${it} value=${it} selected=${it === (record?.status ?? "active")}>${named("status", it)}</option>`)}</select><//>
      <${Field} label=${t("memory.field.valid_from")}><input type="date" name="valid_from" defaultValue=${day(record?.valid_from)} /><//>
      <${Field} label=${t("memory.field.valid_to")}><input type="date" name="valid_to" defaultValue=${lastDay(record?.valid_to)} /><//>
    </div>
    <${Field} label=${t("memory.field.supersedes")} hint=${t("memory.field.supersedes.hint")}><input name="supersedes" spellcheck=${false} /><//>
    <${Field} label=${t("memory.field.metadata")} hint=${t("memory.field.metadata.hint")}>
      <textarea name="metadata" rows="2" spellcheck=${false} defaultValue=${formatMetadata(record?.metadata)}></textarea><//>
    <p class="problem" role="alert">${problem}</p>
    <div class="buttons"><button class="primary" disabled=${isBusy} aria-busy=${isBusy}>${t("memory.save")}</button>
      <button type="button" onClick=${onClose}>${t("memory.cancel")}</button></div>
  </form>`;
}

/** The request of a form; null if nothing was changed. Without a new text, the evidence of a fact stays. */
function readDocument(form, record) {
  const text = form.get("text").trim();
  const metadata = form.get("metadata").trim();
  const body = {};
  if (record) Object.assign(body, {document_id: record.id, expected_version: record.version});
  else if (form.get("key").trim()) body.key = form.get("key").trim();
  if (!record || text !== record.text.trim() || metadata !== formatMetadata(record.metadata).trim()) {
    body.text = text;
    body.metadata = metadata ? readObject(metadata) : {};
  }
  const before = {
    status: record?.status ?? "active", valid_from: day(record?.valid_from), valid_to: lastDay(record?.valid_to),
  };
  for (const [name, value] of Object.entries(before)) {
    if (form.get(name) && form.get(name) !== value) body[name] = form.get(name);
  }
  const supersedes = splitWords(form.get("supersedes"));
  if (supersedes.length) body.supersedes = supersedes;
  const isChanged = !record || Object.keys(body).some((it) => !["document_id", "expected_version"].includes(it));
  return isChanged ? body : null;
}

function readObject(text) {
  const value = JSON.parse(text);
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError("no object");
  return value;
}

function formatMetadata(metadata) {
  return metadata && Object.keys(metadata).length ? JSON.stringify(metadata, null, 2) : "";
}

function day(at) {
  return at ? new Date(at).toISOString().slice(0, 10) : "";
}

/** The last day of a validity: its end is exclusive, and often midnight after that day. */
function lastDay(at) {
  return at ? new Date(new Date(at) - 1).toISOString().slice(0, 10) : "";
}
