/* Parts that the pages beside the chat share: the frame of a page, cards, tables, badges and questions. */
import {html, useEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {SidebarButton} from "../app/sidebar.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";

/** A page with its header. `actions` are buttons at the right of the header. */
export function PageFrame({title, detail, actions, children}) {
  return html`<header class="page-header"><${SidebarButton} />
      <h1>${title}${detail && html`<span class="detail">${detail}</span>`}</h1>${actions}</header>
    <div class="content"><div class="content-column">${children}</div></div>`;
}

/** A part of a page with a heading. */
export function Section({title, detail, actions, children}) {
  return html`<section class="section">
    <div class="section-head"><h2>${title}</h2>${detail && html`<span class="detail">${detail}</span>`}
      ${actions && html`<div class="section-actions">${actions}</div>`}</div>
    ${children}</section>`;
}

/** What a resource shows instead of its data: that it loads, or why it failed. Null once there is data. */
export function Waiting({resource}) {
  if (resource.data === undefined && resource.isLoading) {
    return html`<p class="empty" role="status">${t("loading")}</p>`;
  }
  if (!resource.error) return null;
  return html`<p class="problem" role="alert">${explain(resource.error)}
    <button class="quiet" onClick=${resource.reload}>${t("retry")}</button></p>`;
}

/** What is wrong, for requests that are repeated by themselves. */
export function explain(error) {
  return error.status === 0 ? t("connection.waiting") : error.message;
}

export function Empty({children}) {
  return html`<p class="empty">${children}</p>`;
}

/** A state in a word. `kind` is one of good, busy, warning, bad, or plain. */
export function Badge({kind = "plain", children}) {
  return html`<span class="badge" data-kind=${kind}>${children}</span>`;
}

/** A table that scrolls by itself, and on a phone shows each row as a card with the titles of the columns.

    `columns` are `{key, title, align, render}`; `render` gets the row. Roles are stated, because a browser may
    forget them where a row is shown as a card. */
export function DataTable({label, columns, rows, rowKey}) {
  return html`<div class="data-table" tabindex="0" role="region" aria-label=${label}><table class="foldable" role="table">
    <thead role="rowgroup"><tr role="row">${columns.map((it) => html`<th key=${it.key} scope="col" role="columnheader" class=${it.align}>${it.title}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((row) => html`<tr role="row" key=${rowKey(row)}>
      ${columns.map((it) => html`<td key=${it.key} role="cell" class=${it.align} data-title=${typeof it.title === "string" ? it.title : undefined}>${it.render ? it.render(row) : row[it.key]}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** Names and values, one under the other. `items` are pairs; those without a value are left out. */
export function Details({items}) {
  return html`<dl class="details">${items.filter(([, value]) => value !== undefined && value !== null && value !== "").map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Text or data of an agent, exactly as it is; it can be copied, and scrolls. */
export function Source({value, label}) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return html`<pre class="source" tabindex="0" role="region" aria-label=${label} dir="auto">${showInvisible(text)}</pre>`;
}

// Characters that are not seen, or that change the order of what is seen: attackers hide words with them.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udfff]/gu;

/** Return the text as children: each invisible character becomes a mark with its number. */
export function showInvisible(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INVISIBLE)) {
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(text.slice(from, match.index), html`<mark class="invisible">U+${code}</mark>`);
    from = match.index + match[0].length;
  }
  return from === 0 ? text : [...parts, text.slice(from)];
}

/** A button whose action takes time: it can be pressed once at a time, and says what failed. */
export function ActionButton({action, done, className = "", disabled = false, label, children}) {
  const [isBusy, setBusy] = useState(false);
  async function run() {
    setBusy(true);
    try {
      const result = await action();
      if (done && result !== false) notify(done);
    } catch (error) {
      notify(error.message);
    } finally {
      setBusy(false);
    }
  }
  return html`<button class=${className} disabled=${disabled || isBusy} aria-busy=${isBusy} aria-label=${label} onClick=${run}>${children}</button>`;
}

/** A dialog above the page while `isOpen`; Esc and the cross close it. */
export function Dialog({isOpen, title, onClose, children}) {
  const element = useRef();
  useEffect(() => {
    if (isOpen && !element.current.open) element.current.showModal();
    if (!isOpen && element.current.open) element.current.close();
  }, [isOpen]);
  return html`<dialog class="dialog" ref=${element} onClose=${onClose} aria-label=${title}>
    ${isOpen && html`<header><h2>${title}</h2>
      <button class="quiet" aria-label=${t("close")} onClick=${onClose}><${Icon} name="close" /></button></header>${children}`}
  </dialog>`;
}

/** A labelled field of a form. `children` is the control, which is inside the label. */
export function Field({label, hint, children}) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

/** Tabs of a page, as links: `tabs` are `{name, title, address}`. */
export function Tabs({label, tabs, current}) {
  const element = useRef();
  // on a phone it may be outside of what is seen of the row
  useEffect(() => element.current.querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"}), [current]);
  return html`<nav class="tabs" aria-label=${label} ref=${element}>${tabs.map((it) => html`<a key=${it.name} href=${it.address}
    aria-current=${it.name === current ? "page" : undefined}>${it.title}</a>`)}</nav>`;
}
