/* One document: its text, where it comes from, the evidence, its history, and what can be done with it. */
import {post} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {formatDateTime} from "../cockpit/formats.js";
import {ActionButton, Badge, Details, Empty, Section, Source, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {EditorDialog} from "./editor.js";
import {Evidence} from "./evidence.js";
import {ForgetDialog} from "./forget.js";
import {History} from "./history.js";
import {describeValidity, effectiveStatus, named, statusKind} from "./labels.js";
import {Words} from "./parts.js";
import {agentPath, documentAddress, logAddress} from "./paths.js";

export function DocumentView({agent, parts}) {
  const id = parts[0];
  const shown = useResource(id === undefined ? null : agentPath(agent, "memory", "documents", id));
  if (id === undefined) return html`<${Empty}>${t("memory.document.which")}<//>`;
  if (!shown.data) return html`<${Waiting} resource=${shown} />`;
  return html`<${DocumentDetail} key=${shown.data.record.id} agent=${agent} detail=${shown.data} reload=${shown.reload} />`;
}

function DocumentDetail({agent, detail, reload}) {
  const {record, links} = detail;
  const status = effectiveStatus(record);
  const sources = links.filter((it) => it.direction === "from" && it.kind !== "supersedes");
  const dependents = links.filter((it) => it.direction === "to" && it.kind !== "supersedes");
  return html`<article class="section">
      <div class="section-head"><h2>${record.type === "knowledge" ? named("kind", record.kind) : record.period ?? named("kind", record.kind)}</h2>
        <${Badge} kind=${statusKind(status)}>${named("status", status)}<//>
        <${Actions} agent=${agent} record=${record} reload=${reload} /></div>
      <div class="panel"><${Words} text=${record.text} /></div>
    </article>
    <${Section} title=${t("memory.evidence")} detail=${t("memory.evidence.about")}>
      <${Evidence} agent=${agent} record=${record} links=${sources} /><//>
    ${record.type === "knowledge" && html`<${Section} title=${t("memory.history")}>
      <${History} key=${record.version} agent=${agent} detail=${detail} /><//>`}
    ${dependents.length > 0 && html`<${Section} title=${t("memory.derived")} detail=${t("memory.derived.about")}>
      <ul class="memory-list">${dependents.map((it) => html`<li class="panel memory-item" key=${it.document_id}>
        <div class="memory-line"><${Badge}>${named("link", it.kind)}<//>
          <a class="memory-open" href=${documentAddress(agent, it.document_id)}>${t("memory.document.open")}</a></div>
        <${Words} text=${it.text ?? t("memory.gone")} /></li>`)}</ul><//>`}
    <${Section} title=${t("memory.details")}>
      <div class="panel"><${Details} items=${fieldsOf(record, detail.vectors)} /></div>
      ${Object.keys(record.metadata).length > 0 && html`<${Source} value=${record.metadata} label=${t("memory.field.metadata")} />`}<//>`;
}

function Actions({agent, record, reload}) {
  const [open, setOpen] = useState("");
  const close = () => setOpen("");
  const canEdit = record.type === "knowledge" && !record.collection && record.kind !== "entity";
  const next = record.status === "active" ? "retired" : "active";
  const setStatus = async () => {
    await post(agentPath(agent, "memory", "documents"), {document_id: record.id, expected_version: record.version, status: next});
    reload();
  };
  const leave = () => { location.hash = addressOf("memory", agent, "knowledge"); };
  return html`<div class="section-actions">
    ${canEdit && html`<button onClick=${() => setOpen("edit")}>${t("memory.edit")}</button>
      <${ActionButton} key=${next} action=${setStatus} done=${t("memory.edit.saved")}>${next === "retired" ? t("memory.retire") : t("memory.activate")}<//>`}
    <button onClick=${() => setOpen("learned")}>${t("memory.undo.document")}</button>
    <button class="danger" onClick=${() => setOpen("everything")}>${t("memory.forget.document")}</button>
    ${canEdit && html`<${EditorDialog} isOpen=${open === "edit"} agent=${agent} record=${record} onClose=${close} onSaved=${reload} />`}
    <${ForgetDialog} isOpen=${open === "learned" || open === "everything"} agent=${agent} scope=${open} document=${record.id}
      onClose=${close} onErased=${() => (open === "learned" ? reload() : leave())} />
  </div>`;
}

function fieldsOf(record, vectors) {
  const shown = (text) => (text ? showInvisible(text) : undefined);
  const at = (time) => time && formatDateTime(time);
  return [
    [t("memory.field.id"), html`<code>${record.id}</code>`],
    [t("memory.field.key"), shown(record.key)],
    [t("memory.field.category"), shown(record.category)],
    [t("memory.field.subject"), shown(record.subject)],
    [t("memory.field.predicate"), shown(record.predicate)],
    [t("memory.field.object"), shown(record.object)],
    [t("memory.field.validity"), describeValidity(record)],
    [t("memory.field.speaker"), shown(record.speaker)],
    [t("memory.field.session"), record.session_id && html`<a href=${logAddress(record.session_id)}>${record.session_id}</a>`],
    [t("memory.filter.tiers"), record.tier && named("tier", record.tier)],
    [t("memory.filter.collection"), shown(record.collection)],
    [t("memory.field.origin"), t("memory.origin", {origin: named("from", record.origin), trust: record.trust})],
    [t("memory.field.seen"), record.seen_count > 1 ? record.seen_count : undefined],
    [t("memory.field.happened"), at(record.happened_at)],
    [t("memory.field.created"), at(record.created_at)],
    [t("memory.field.updated"), record.updated_at !== record.created_at ? at(record.updated_at) : undefined],
    [t("memory.field.retired"), at(record.retired_at)],
    [t("memory.field.expires"), at(record.expires_at)],
    [t("memory.field.conversations"), record.conversations?.join(", ")],
    [t("memory.field.version"), record.version],
    [t("memory.field.vectors"), vectors],
  ];
}
