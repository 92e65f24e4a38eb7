/* The chat: header, messages, and the field for a new message. */
import {html, useEffect, useMemo, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {SidebarButton} from "../app/sidebar.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Composer} from "./composer.js";
import {Conversation} from "./conversation.js";
import {conversations, markSeen} from "./conversations.js";
import {currentConversation} from "./list.js";
import {MessageList} from "./message-list.js";

export function Page() {
  const dm = currentConversation();
  if (!dm) {
    return html`<header class="page-header"><${SidebarButton} /></header>
      <p class="empty">${conversations.value ? t("conversations.none") : ""}</p>`;
  }
  return html`<${ChatView} key=${dm.name} dm=${dm} />`;
}

function ChatView({dm}) {
  const conversation = useMemo(() => new Conversation(dm.name), []);
  const [query, setQuery] = useState(null);
  const [isDropping, setDropping] = useState(false);
  const composer = useRef();
  useEffect(() => {
    conversation.open();
    return () => conversation.close();
  }, []);
  useEffect(() => {
    const see = () => markSeen(dm.name, conversation.last);
    see();
    addEventListener("focus", see);
    const leave = () => conversation.clearMark();
    addEventListener("blur", leave);
    return () => {
      removeEventListener("focus", see);
      removeEventListener("blur", leave);
    };
  }, [conversation.items.value]);
  useEffect(() => {
    const onKey = (event) => handleKey(event, conversation, query, setQuery);
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [query]);
  useEffect(() => { if (query === null) conversation.past.value = null; }, [query]);

  function drop(event) {
    event.preventDefault();
    setDropping(false);
    composer.current?.addFiles(event.dataTransfer.files);
  }

  function dragOver(event) {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setDropping(true);
  }

  return html`<div class="chat" onDragOver=${dragOver} onDrop=${drop}
      onDragLeave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) setDropping(false); }}>
    <header class="page-header">
      <${SidebarButton} />
      <h1>${dm.agent_id ?? dm.name}<span class="detail">${dm.name}</span></h1>
      <span class="connection" role="status" data-state=${conversation.isConnected.value ? "on" : "off"}>${
        conversation.isConnected.value ? "" : t("connection.lost")}</span>
      <button class="quiet" aria-label=${t("search")} title=${`${t("search")} (/)`} aria-pressed=${query !== null}
        onClick=${() => setQuery(query === null ? "" : null)}><${Icon} name="search" /></button>
    </header>
    ${query !== null && html`<${SearchField} query=${query} setQuery=${setQuery} conversation=${conversation} />`}
    <${MessageList} conversation=${conversation} query=${query} agent=${dm.agent_id} />
    <${Composer} conversation=${conversation} handle=${composer} />
    ${isDropping && html`<div class="drop" aria-hidden="true"><${Icon} name="attach" />${t("files.drop")}</div>`}
  </div>`;
}

function SearchField({query, setQuery, conversation}) {
  const field = useRef();
  useEffect(() => field.current.focus(), []);

  async function jump(event) {
    const day = event.target.value;
    if (!day) return;
    setQuery("");
    try {
      if (!(await conversation.jumpTo(day))) notify(t("day.nothing"));
    } catch (error) {
      notify(error.message);
    }
  }

  return html`<div class="search" role="search">
    <${Icon} name="search" />
    <input ref=${field} type="search" aria-label=${t("search")} placeholder=${t("search")} value=${query}
      onInput=${(event) => setQuery(event.target.value)} />
    <input type="date" aria-label=${t("day.jump")} title=${t("day.jump")} value=${conversation.past.value?.day ?? ""} onChange=${jump} />
    <button class="quiet" aria-label=${t("search.close")} onClick=${() => setQuery(null)}><${Icon} name="close" /></button>
  </div>`;
}

function handleKey(event, conversation, query, setQuery) {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    if (query === null) setQuery("");
  } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (conversation.editing.value) conversation.editing.value = null;
    else if (query !== null) setQuery(null);
    else if (conversation.isWorking.value) conversation.stop().catch((error) => notify(error.message));
  }
}
