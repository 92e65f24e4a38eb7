/* The list of conversations in the sidebar. */
import {html, useEffect} from "../app/html.js";
import {addressOf, place} from "../app/router.js";
import {t} from "../app/texts.js";
import {conversations, isUnread, refreshConversations} from "./conversations.js";

export function ConversationList() {
  useEffect(() => { if (!conversations.peek()) refreshConversations(); }, []); // else they came with the page
  const all = conversations.value;
  if (!all) return html`<div class="conversations"></div>`;
  const current = (place.value[0] ?? "chat") === "chat" ? currentConversation() : undefined;
  return html`<nav class="conversations" aria-label=${t("conversations")}>
    <h2>${t("conversations")}</h2>
    ${all.length === 0 && html`<p class="empty">${t("conversations.none")}</p>`}
    <ul>${all.map((dm) => html`<li key=${dm.name}>
      <a href=${addressOf("chat", dm.name)} aria-current=${dm === current ? "page" : undefined}>
        <span class="title">${dm.agent_id ?? t("conversations.unbound")}</span>
        <span class="detail">${dm.name}</span>
        ${isUnread(dm) && dm !== current && html`<span class="unread"><span class="hidden">${t("unread")}</span></span>`}
      </a></li>`)}</ul>
  </nav>`;
}

/** The conversation of the address, or else the first one that has an agent. */
export function currentConversation() {
  const all = conversations.value ?? [];
  const name = place.value[0] === "chat" ? place.value[1] : undefined;
  return all.find((dm) => dm.name === name) ?? all.find((dm) => dm.agent_id) ?? all[0];
}
