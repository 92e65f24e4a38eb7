/* The messages of a conversation, oldest first, with the draft of the next one. */
import {html, useEffect, useLayoutEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {Markdown} from "../app/markdown.js";
import {formatDay, t} from "../app/texts.js";
import {Message} from "./message.js";

const NEAR_PX = 80;
const SEARCH_PAUSE_MS = 250;

export function MessageList({conversation, query, agent}) {
  const results = useSearch(conversation, query);
  const area = useRef();
  const isAtEnd = useRef(true);
  const height = useRef(0);
  const [isAway, setAway] = useState(false);
  const items = results ?? conversation.items.value;

  useLayoutEffect(() => {
    const element = area.current;
    if (isAtEnd.current) element.scrollTop = element.scrollHeight;
    // earlier messages were put before the ones that are read
    else if (height.current) element.scrollTop += element.scrollHeight - height.current;
    height.current = 0;
  });
  useEffect(() => {
    // pictures, formulas and the field below change the heights later
    const observer = new ResizeObserver(() => { if (isAtEnd.current) toEnd(); });
    observer.observe(area.current);
    observer.observe(area.current.firstElementChild);
    return () => observer.disconnect();
  }, []);

  function toEnd() {
    if (!area.current) return; // the observer may be called once more after another page was opened
    area.current.scrollTop = area.current.scrollHeight;
  }

  async function onScroll() {
    const element = area.current;
    isAtEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    setAway(!isAtEnd.current);
    if (element.scrollTop < NEAR_PX && !results && conversation.earlier) {
      height.current = element.scrollHeight;
      await conversation.loadEarlier().catch(() => {});
    }
  }

  return html`<div class="messages" ref=${area} onScroll=${onScroll} tabindex="0" role="region" aria-label=${t("messages")}>
    <div class="column">
      ${conversation.problem.value && html`<p class="problem" role="alert">${conversation.problem.value}</p>`}
      ${results && html`<p class="found" role="status">${t("search.found", {count: results.length})}</p>`}
      ${!results && conversation.isLoaded.value && items.length === 0 && html`<${Welcome} agent=${agent} />`}
      <div role="log" aria-live=${results ? "off" : "polite"} aria-relevant="additions" aria-label=${t("messages")}>
        ${withDays(items).map((it) => (it.day
          ? html`<div class="day" key=${it.key}><span>${it.day}</span></div>`
          : html`<${Message} key=${it.key ?? it.id} item=${it} conversation=${conversation} />`))}
      </div>
      ${!results && html`<${Activity} conversation=${conversation} />`}
    </div>
    ${isAway && html`<button class="to-end" onClick=${() => { isAtEnd.current = true; toEnd(); setAway(false); }}
      aria-label=${t("messages.end")}><${Icon} name="down" /></button>`}
  </div>`;
}

function Welcome({agent}) {
  return html`<div class="welcome"><h2>${t("welcome.title", {agent: agent ?? "Choir"})}</h2><p>${t("welcome.text")}</p></div>`;
}

/** What the agent is doing: the draft of its reply, or dots; and the cards of longer tasks. */
function Activity({conversation}) {
  const cards = [...conversation.cards.value];
  const draft = conversation.draft.value;
  return html`<div class="activity" aria-live="off">
    ${cards.map(([id, text]) => html`<div class="progress" key=${id}><span class="spinner" aria-hidden="true"></span><pre>${text}</pre></div>`)}
    ${draft && html`<article class="message agent draft"><${Markdown} text=${draft} isDraft=${true} /></article>`}
    ${!draft && conversation.isWorking.value && html`<div class="dots" role="img" aria-label=${t("working")}><i></i><i></i><i></i></div>`}
  </div>`;
}

/** Search after a pause in typing; return the messages, or null without a query. */
function useSearch(conversation, query) {
  const [results, setResults] = useState(null);
  useEffect(() => {
    if (!query?.trim()) {
      setResults(null);
      return undefined;
    }
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const items = await conversation.search(query).catch(() => []);
      if (isCurrent) setResults(items);
    }, SEARCH_PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [query]);
  return results;
}

function withDays(items) {
  const all = [];
  let last = "";
  for (const item of items) {
    const day = new Date(item.at).toDateString();
    if (day !== last) all.push({key: `day ${day} ${item.id}`, day: formatDay(item.at)});
    last = day;
    all.push(item);
  }
  return all;
}
