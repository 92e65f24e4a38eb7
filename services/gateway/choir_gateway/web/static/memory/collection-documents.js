/* The documents of a collection, page by page, and the removal of one. */
import {get, send} from "../app/api.js";
import {html, useEffect, useState} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {formatDateTime, formatNumber} from "../cockpit/formats.js";
import {ActionButton, DataTable, Dialog, Empty, showInvisible, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {agentPath, withQuery} from "./paths.js";

const PAGE = 200;

/** `changes` is what the list of collections says of it: if that changes, the documents are read again. */
export function CollectionDocuments({agent, name, startsUnreadable, changes, onChange}) {
  const [isUnreadable, setUnreadable] = useState(startsUnreadable);
  const [removing, setRemoving] = useState(null);
  const path = agentPath(agent, "collections", name);
  const first = useResource(withQuery(path, {limit: PAGE, unreadable: isUnreadable}));
  const [later, setLater] = useState({of: null, documents: [], more: false});
  const state = `${changes?.documents} ${changes?.chunks} ${changes?.folder?.unreadable} ${changes?.folder?.waiting}`;
  useEffect(() => { if (first.data) first.reload(); }, [state]);

  const isCurrent = first.data !== undefined && later.of === first.data;
  const documents = [...(first.data?.documents ?? []), ...(isCurrent ? later.documents : [])];
  async function loadNext() {
    const page = await get(withQuery(path, {limit: PAGE, unreadable: isUnreadable, after: documents.at(-1).name}));
    setLater({of: first.data, documents: [...(isCurrent ? later.documents : []), ...page.documents], more: page.more});
  }
  async function remove() {
    await send("DELETE", withQuery(path, {document: removing}));
    notify(t("memory.collection.document.removed", {name: removing}));
    setRemoving(null);
    first.reload();
    onChange();
  }

  // only documents that were added one by one can be removed one by one
  const canRemove = changes && !changes.folder;
  return html`${changes?.folder && html`<label class="memory-check"><input type="checkbox" checked=${isUnreadable}
      onChange=${(event) => setUnreadable(event.target.checked)} />${t("memory.collection.unreadable")}</label>`}
    <${Waiting} resource=${first} />
    ${first.data && (documents.length === 0 ? html`<${Empty}>${t("memory.collection.empty")}<//>`
      : html`<${DataTable} label=${t("memory.collection.documents")} rows=${documents} rowKey=${(it) => it.name} columns=${[
        {key: "name", title: t("memory.collection.document"), render: (it) => html`<span dir="auto">${showInvisible(it.name)}</span>
          ${it.problem && html`<br /><span class="problem" dir="auto">${showInvisible(serverText(it.problem))}</span>`}`},
        {key: "characters", title: t("memory.collection.characters"), align: "end", render: (it) => formatNumber(it.characters)},
        {key: "chunks", title: t("memory.collection.parts"), align: "end", render: (it) => formatNumber(it.chunks)},
        {key: "added", title: t("memory.collection.added"), render: (it) => (it.added_at ? formatDateTime(it.added_at) : t("memory.collection.unread"))},
        ...(canRemove ? [{key: "actions", title: t("memory.collection.actions"), render: (it) => html`<button class="quiet"
          aria-label=${t("memory.collection.document.remove.one", {name: it.name})} onClick=${() => setRemoving(it.name)}>${t("memory.remove")}</button>`}] : []),
      ]} />`)}
    ${(isCurrent ? later.more : first.data?.more) && html`<div class="buttons"><${ActionButton} action=${loadNext}>${t("memory.more")}<//></div>`}
    <${Dialog} isOpen=${removing !== null} title=${t("memory.collection.document.remove")} onClose=${() => setRemoving(null)}>
      <p dir="auto"><b>${showInvisible(removing ?? "")}</b></p><p>${t("memory.collection.remove.derived")}</p>
      <div class="buttons"><${ActionButton} className="danger" action=${remove}>${t("memory.collection.document.remove.yes")}<//>
        <button onClick=${() => setRemoving(null)}>${t("memory.cancel")}</button></div><//>`;
}
