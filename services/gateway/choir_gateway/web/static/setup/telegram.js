/* Connecting a Telegram bot: a form for its token, then the code for the person, until the bot is connected. */
import {send} from "../app/api.js";
import {html, useEffect, useRef, useState} from "../app/html.js";
import {problemText, serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {ActionButton, Badge, Details, Dialog, Field, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {formatAgo, formatNumber} from "../cockpit/formats.js";
import {useResource} from "../cockpit/resource.js";
import {Command, Sentence} from "./parts.js";

const PATH = "v1/telegram/connections";
const BEGIN_MS = 90_000; // the gateway asks Telegram
const FOLLOW_MS = 1_000;
const KINDS = {waiting: "busy", applying: "busy", connected: "good", failed: "bad"};

export function TelegramConnections({agents, people, onConnected}) {
  const [isOpen, setOpen] = useState(false);
  const connections = useResource(PATH);
  const seen = useRef(new Set()); // attempts that were open while this page was: their end is shown, too
  const before = useRef(); // how many were connected
  const items = connections.data?.items ?? [];
  const open = items.filter(isUnfinished);
  open.forEach((it) => seen.current.add(it.connection_id));
  const connected = connections.data && items.filter((it) => it.state === "connected").length;
  useEffect(() => {
    if (open.length === 0) return undefined;
    const timer = setInterval(() => { if (!document.hidden) connections.reload(); }, FOLLOW_MS);
    return () => clearInterval(timer);
  }, [open.length > 0]);
  useEffect(() => {
    if (before.current !== undefined && connected > before.current) onConnected();
    before.current = connected;
  }, [connected]);

  async function begun() {
    setOpen(false);
    await connections.reload();
  }

  async function cancel(id) {
    await send("DELETE", `${PATH}/${encodeURIComponent(id)}`);
    await connections.reload();
  }

  return html`<${Section} title="Telegram" actions=${html`<button class="primary" onClick=${() => setOpen(true)}>${t("setup.telegram.connect")}</button>`}>
      <p>${t("setup.telegram.text")}</p>
      <${Waiting} resource=${connections} />
      <div class="cards" role="status">${items.filter((it) => seen.current.has(it.connection_id)).map((it) => html`
        <${Connection} key=${it.connection_id} connection=${it} cancel=${() => cancel(it.connection_id)} />`)}</div>
    </${Section}>
    <${TokenForm} isOpen=${isOpen} agents=${agents} people=${people} close=${() => setOpen(false)} onBegun=${begun} />`;
}

function isUnfinished(connection) {
  return connection.state === "waiting" || connection.state === "applying";
}

function Connection({connection, cancel}) {
  const {state, bot, code, link, agent_id: agent} = connection;
  return html`<article class="panel" aria-label=${`@${bot}`} data-state=${state}>
    <h3>@${showInvisible(bot)}<${Badge} kind=${KINDS[state]}>${t(`setup.telegram.${state}`)}</${Badge}></h3>
    ${state === "waiting" && html`<p>${t("setup.telegram.write", {bot: `@${bot}`})} ${
        connection.person ? t("setup.telegram.write.person", {person: connection.person}) : t("setup.telegram.write.admin")}</p>
      <${Command} text=${code} />
      ${/^https:\/\//.test(link) && html`<p>${t("setup.telegram.link")} <a href=${link} target="_blank" rel="noreferrer noopener">${link}</a></p>`}
      <p class="detail" aria-live="off">${t("setup.telegram.expires", {when: formatAgo(connection.expires_at)})}</p>
      ${connection.wrong_codes > 0 && html`<p class="problem">${t("setup.telegram.wrong", {count: formatNumber(connection.wrong_codes)})}</p>`}
      ${connection.trouble && html`<p class="problem"><${Sentence} text=${serverText(connection.trouble)} /></p>`}
      <div class="toolbar"><${ActionButton} label=${t("setup.telegram.cancel.label", {bot: `@${bot}`})} action=${cancel}>${t("setup.cancel")}</${ActionButton}></div>`}
    ${state === "applying" && html`<p>${t("setup.telegram.moving", {agent})}</p>`}
    ${state === "connected" && html`<p>${t("setup.telegram.done", {bot: `@${bot}`, agent})}</p>
      <${Details} items=${[
        [t("setup.telegram.person"), connection.user_name && showInvisible(connection.user_name)],
        [t("setup.channel.name"), html`<code>${connection.gateway}</code>`],
        [t("setup.conversation.name"), html`<code>${connection.dm}</code>`],
        [t("setup.telegram.secret"), html`<code>${connection.secret}</code>`],
      ]} />
      ${connection.remaining.map((it) => html`<p class="setup-note" key=${it}><${Sentence} text=${serverText(it)} /></p>`)}`}
    ${state === "failed" && html`<p class="problem"><${Sentence} text=${problemText(connection.error?.message ?? "", connection.error?.code)} /></p>`}
  </article>`;
}

function TokenForm({isOpen, agents, people, close, onBegun}) {
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  async function submit(event) {
    event.preventDefault();
    const {token, agent, person, api_url: address, replace_webhook: replace} = event.target.elements;
    setProblem("");
    setBusy(true);
    try {
      // the token is in the form only, and gone with it
      await send("POST", PATH, {timeoutMs: BEGIN_MS, json: {
        token: token.value.trim(), agent_id: agent.value, person: person.value || null,
        replace_webhook: replace.checked, api_url: address.value.trim() || null,
      }});
      event.target.reset();
      await onBegun();
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  }

  return html`<${Dialog} isOpen=${isOpen} title=${t("setup.telegram.connect")} onClose=${() => { setProblem(""); close(); }}>
    <form class="form" onSubmit=${submit} autocomplete="off">
      <p class="detail">${t("setup.telegram.first")}</p>
      <${Field} label=${t("setup.telegram.token")} hint=${t("setup.telegram.token.hint")}>
        <input name="token" type="password" required autocomplete="new-password" spellcheck=${false} /></${Field}>
      <${Field} label=${t("setup.conversation.agent")} hint=${t("setup.telegram.agent.hint")}>
        <select name="agent">${agents.map((it) => html`<option key=${it} value=${it}>${it}</option>`)}</select></${Field}>
      <${Field} label=${t("setup.telegram.person")} hint=${t("setup.telegram.person.hint")}>
        <select name="person"><option value="">${t("setup.telegram.admin")}</option>
          ${people.map((it) => html`<option key=${it} value=${it}>${it}</option>`)}</select></${Field}>
      <details><summary>${t("setup.telegram.more")}</summary>
        <div class="form">
          <${Field} label=${t("setup.telegram.api")} hint=${t("setup.telegram.api.hint")}>
            <input name="api_url" type="url" autocomplete="off" spellcheck=${false} /></${Field}>
          <label class="setup-check"><input name="replace_webhook" type="checkbox" /> ${t("setup.telegram.replace")}</label>
        </div></details>
      ${problem && html`<p class="problem" role="alert"><${Sentence} text=${problem} /></p>`}
      <div class="toolbar"><button class="primary" disabled=${isBusy} aria-busy=${isBusy}>${t("setup.telegram.begin")}</button></div>
    </form>
  </${Dialog}>`;
}
