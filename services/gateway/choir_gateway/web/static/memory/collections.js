/* Collections: documents that the agent can search. Upload of files, folders that are followed, removal. */
import {send} from "../app/api.js";
import {html, useEffect, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {formatAgo, formatNumber} from "../cockpit/formats.js";
import {ActionButton, Badge, Dialog, Empty, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {AddForms} from "./collection-forms.js";
import {CollectionDocuments} from "./collection-documents.js";
import {named} from "./labels.js";
import {Bar} from "./parts.js";
import {agentPath, withQuery} from "./paths.js";

const STATE_KINDS = {waiting: "busy", reading: "busy", current: "good", unreachable: "bad", removing: "warning"};
const READING_MS = 2_000;

export function CollectionsTab({agent, parts}) {
  const path = agentPath(agent, "collections");
  const listed = useResource(path);
  const [removing, setRemoving] = useState(null);
  const collections = listed.data?.collections ?? [];
  const isReading = collections.some((it) => it.folder && ["waiting", "reading", "removing"].includes(it.folder.state));
  useEffect(() => {
    // folders change by themselves; while one is read, its progress is shown
    if (!collections.some((it) => it.folder)) return undefined;
    const timer = setInterval(() => { if (!document.hidden) listed.reload(); }, isReading ? READING_MS : IDLE_MS);
    return () => clearInterval(timer);
  }, [isReading, collections.some((it) => it.folder)]);

  const shown = parts[0] !== undefined && collections.find((it) => it.name === parts[0]);
  return html`${parts[0] === undefined
      ? html`<${Section} title=${t("memory.tab.collections")} detail=${t("memory.collections.about")}>
          <${Waiting} resource=${listed} />
          ${listed.data && collections.length === 0 && html`<${Empty}>${t("memory.collections.none")}<//>`}
          <div class="cards">${collections.map((it) => html`<${Collection} key=${it.name} agent=${agent} view=${it} onRemove=${() => setRemoving(it)} />`)}</div><//>`
      : html`<${Section} title=${html`<a href=${addressOf("memory", agent, "collections")}>${t("memory.tab.collections")}</a> / ${showInvisible(parts[0])}`}>
          <${Waiting} resource=${listed} />
          ${shown && html`<div class="cards"><${Collection} agent=${agent} view=${shown} onRemove=${() => setRemoving(shown)} /></div>`}
          <${CollectionDocuments} key=${parts.join("/")} agent=${agent} name=${parts[0]} startsUnreadable=${parts[1] === "unreadable"} changes=${shown} onChange=${listed.reload} /><//>`}
    <${AddForms} key=${parts[0] ?? ""} agent=${agent} name=${parts[0]} names=${collections.map((it) => it.name)} onChange=${listed.reload} />
    <${RemoveDialog} agent=${agent} view=${removing} onClose=${() => setRemoving(null)} onRemoved=${() => {
      setRemoving(null);
      listed.reload();
      location.hash = addressOf("memory", agent, "collections");
    }} />`;
}

function Collection({agent, view, onRemove}) {
  const {folder} = view;
  return html`<article class="panel">
    <h3><a href=${addressOf("memory", agent, "collections", view.name)}>${showInvisible(view.name)}</a>
      ${folder && html`<${Badge} kind=${STATE_KINDS[folder.state]}>${named("folder", folder.state)}<//>`}</h3>
    <p class="detail">${t("memory.collection.size", {documents: formatNumber(view.documents), parts: formatNumber(view.chunks)})}</p>
    ${folder && html`<${Folder} agent=${agent} name=${view.name} folder=${folder} />`}
    <div class="buttons">
      <a class="button" href=${addressOf("memory", agent, "search", "knowledge", view.name)}>${t("memory.collection.search")}</a>
      <button class="danger" onClick=${onRemove}>${t("memory.collection.remove")}</button></div>
  </article>`;
}

function Folder({agent, name, folder}) {
  const done = folder.files - folder.waiting;
  const isBusy = folder.state === "reading" || folder.waiting > 0;
  return html`<code class="memory-path" dir="auto">${showInvisible(folder.path)}</code>
    ${isBusy && html`<${Bar} value=${done} max=${folder.files} label=${t("memory.folder.progress", {done, files: folder.files})} />`}
    <p class="detail">${isBusy ? t("memory.folder.progress", {done, files: folder.files})
      : folder.scanned_at && t("memory.folder.scanned", {ago: formatAgo(folder.scanned_at)})}
      ${folder.unreadable > 0 && html` · <a href=${addressOf("memory", agent, "collections", name, "unreadable")}>${t("memory.folder.unreadable", {count: folder.unreadable})}</a>`}</p>
    ${folder.problem && html`<p class="problem" dir="auto">${showInvisible(serverText(folder.problem))}</p>`}`;
}

function RemoveDialog({agent, view, onClose, onRemoved}) {
  async function remove() {
    await send("DELETE", withQuery(agentPath(agent, "collections", view.name), {}));
    notify(t("memory.collection.removed", {name: view.name}));
    onRemoved();
  }
  return html`<${Dialog} isOpen=${view !== null} title=${t("memory.collection.remove")} onClose=${onClose}>
    ${view && html`<p dir="auto">${t("memory.collection.remove.what", {documents: formatNumber(view.documents), parts: formatNumber(view.chunks)})}
        ${" "}<b>${showInvisible(view.name)}</b></p>
      <p>${view.folder ? t("memory.collection.remove.folder") : t("memory.collection.remove.derived")}</p>
      <div class="buttons"><${ActionButton} className="danger" action=${remove}>${t("memory.collection.remove.yes")}<//>
        <button onClick=${onClose}>${t("memory.cancel")}</button></div>`}<//>`;
}
