/* Parts of several tabs: text of a document, its badges, a list of documents, and paging. */
import {get} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {formatAgo, formatDateTime, formatNumber} from "../cockpit/formats.js";
import {ActionButton, Badge, Empty, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {describeValidity, formatDate, named, statusKind} from "./labels.js";
import {documentAddress, logAddress, withQuery} from "./paths.js";

const LONG = 2_000; // characters; a longer text scrolls by itself

/** What somebody wrote, as text; characters that are not seen are marked. */
export function Words({text, isCut = false}) {
  const isLong = text.length > LONG;
  return html`<div class=${isLong ? "memory-text long" : "memory-text"} dir="auto" tabindex=${isLong ? 0 : undefined}
    role=${isLong ? "region" : undefined} aria-label=${isLong ? t("memory.field.text") : undefined}>${showInvisible(text)}${isCut && "…"}</div>`;
}

/** Kind, status and trust of a document or hit. */
export function DocumentBadges({item}) {
  return html`<${Badge}>${named("kind", item.kind)}<//>
    ${item.grain && html`<${Badge} kind="busy">${item.period ?? named("grain", item.grain)}<//>`}
    ${item.status && item.status !== "active" && html`<${Badge} kind=${statusKind(item.status)}>${named("status", item.status)}<//>`}
    ${item.superseded_by?.length > 0 && html`<${Badge} kind="warning">${t("memory.replaced")}<//>`}`;
}

const RECENT_MS = 30 * 864e5;

/** When something was: how long ago, or the date if that is long ago. */
export function When({at}) {
  const isRecent = Math.abs(Date.now() - new Date(at)) < RECENT_MS;
  return html`<time datetime=${at} title=${formatDateTime(at)}>${isRecent ? formatAgo(at) : formatDate(at)}</time>`;
}

export function SessionLink({session}) {
  return html`<a href=${logAddress(session)}>${t("memory.session", {session: session.slice(-8)})}</a>`;
}

/** The line below a document: when, who, from where, how much it is trusted. */
export function Origin({item, at}) {
  return html`<p class="memory-origin">
    <${When} at=${at} />
    ${item.speaker && html`<span dir="auto">${showInvisible(item.speaker)}</span>`}
    <span>${t("memory.origin", {origin: named("from", item.origin), trust: item.trust})}</span>
    ${item.times > 1 && html`<span>${t("memory.times", {count: item.times})}</span>`}
    ${describeValidity(item) && html`<span>${describeValidity(item)}</span>`}
    ${item.session_id && html`<${SessionLink} session=${item.session_id} />`}</p>`;
}

/** A document in a list. */
export function DocumentItem({agent, item}) {
  return html`<li class="panel memory-item">
    <div class="memory-line"><${DocumentBadges} item=${item} />
      ${item.key && html`<code dir="auto">${showInvisible(item.key)}</code>`}
      <a class="memory-open" href=${documentAddress(agent, item.document_id)}>${t("memory.document.open")}</a></div>
    <${Words} text=${item.text} isCut=${item.length > item.text.length} />
    <${Origin} item=${item} at=${item.at} /></li>`;
}

/** Documents of a list with a button for the next page. `empty` is shown if there are none. */
export function DocumentList({agent, path, params, empty, label}) {
  const pages = usePages(path, params);
  if (pages.items.length === 0) {
    return html`<${Waiting} resource=${pages.first} />${pages.first.data && html`<${Empty}>${empty}<//>`}`;
  }
  return html`<ul class="memory-list" aria-label=${label}>${pages.items.map(
      (item) => html`<${DocumentItem} key=${item.document_id} agent=${agent} item=${item} />`)}</ul>
    <${Waiting} resource=${pages.first} />
    ${pages.next && html`<div class="buttons"><${ActionButton} action=${pages.loadNext}>${t("memory.more")}<//></div>`}`;
}

/** The items of a list that the server returns in pages: `{first, items, next, loadNext}`. */
export function usePages(path, params) {
  const first = useResource(path === null ? null : withQuery(path, params));
  const [later, setLater] = useState({of: null, items: [], next: null});
  const isCurrent = first.data !== undefined && later.of === first.data;
  const items = [...(first.data?.items ?? []), ...(isCurrent ? later.items : [])];
  const next = isCurrent ? later.next : first.data?.next;
  async function loadNext() {
    const page = await get(withQuery(path, {...params, cursor: next}));
    setLater({of: first.data, items: [...(isCurrent ? later.items : []), ...page.items], next: page.next});
  }
  return {first, items, next, loadNext};
}

/** A bar that is filled in part, with the number for screen readers. */
export function Bar({value, max, label}) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return html`<svg class="memory-bar" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="track" width="100" height="4" /><rect width=${100 * share} height="4" /></svg>`;
}

export function Count({value, label}) {
  return html`<div class="panel"><span class="number">${formatNumber(value)}</span><span class="detail">${label}</span></div>`;
}
