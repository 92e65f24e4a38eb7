/* The agents: their state, start and stop, updates, and a new one. */
import {post, send} from "../app/api.js";
import {html, useEffect} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {ActionButton, Badge, Details, Empty, Section, Waiting} from "../cockpit/kit.js";
import {formatAgo, formatDateTime} from "../cockpit/formats.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {NewAgent} from "./new-agent.js";
import {OperationList} from "./operations.js";
import {ConfirmButton} from "./parts.js";

const KINDS = {running: "good", starting: "busy", stopped: "plain", crashed: "bad", unbound: "plain"};
// an agent that starts is watched more closely; the sidebar fetches too, so an idle page waits longer
const STARTING_MS = 2_000;
const STOP_TIMEOUT_MS = 420_000; // an agent finishes its turn and summarizes its session before it stops

export function AgentsTab() {
  const agents = useResource("v1/agents", {everyMs: IDLE_MS});
  const operations = useResource("v1/operations?limit=8");
  const items = agents.data?.items;
  const isStarting = Boolean(items?.some((it) => it.state === "starting"));
  useEffect(() => {
    if (!isStarting) return undefined;
    const timer = setInterval(agents.reload, STARTING_MS);
    return () => clearInterval(timer);
  }, [isStarting]);

  async function begin(path) {
    await post(path);
    await operations.reload();
  }

  return html`<${Section} title=${t("setup.agents")} actions=${html`
      <${ActionButton} action=${() => begin("v1/agents/update-all")}>${t("setup.agent.updateAll")}</${ActionButton}><${NewAgent} />`}>
      <${Waiting} resource=${agents} />
      ${items?.length === 0 && html`<${Empty}>${t("setup.agents.none")}</${Empty}>`}
      <div class="cards">${items?.map((agent) => html`<${AgentCard} key=${agent.agent_id} agent=${agent}
        reload=${agents.reload} begin=${begin} />`)}</div>
    </${Section}>
    <${OperationList} resource=${operations} onEnd=${agents.reload} />`;
}

function AgentCard({agent, reload, begin}) {
  const name = agent.agent_id;
  const address = (action) => `v1/agents/${encodeURIComponent(name)}/${action}`;
  const act = (action) => async () => {
    await send("POST", address(action), {timeoutMs: STOP_TIMEOUT_MS});
    await reload();
  };
  const isRunning = agent.state === "running" || agent.state === "starting";
  const failures = agent.lanes.filter((it) => it.model_failure).map((it) => it.model_failure.words);
  return html`<article class="panel" aria-label=${name}>
    <h3>${name}<${Badge} kind=${agent.suspect ? "warning" : KINDS[agent.state]}>${t(`setup.state.${agent.state}`)}</${Badge}></h3>
    <${Details} items=${[
      [t("setup.agent.model"), agent.model],
      [t("setup.agent.conversations"), agent.conversations.join(", ")],
      [t("setup.agent.workspace"), agent.bindings?.workspace],
      [t("setup.agent.session"), agent.session_id && html`<a href=${addressOf("log", agent.session_id)}>${agent.session_id}</a>`],
      [t("setup.agent.since"), agent.started_at && html`<time datetime=${agent.started_at} title=${formatDateTime(agent.started_at)}>${formatAgo(agent.started_at)}</time>`],
      [t("setup.agent.queued"), agent.queued_messages || undefined],
    ]} />
    ${agent.suspect && html`<p class="problem">${t("setup.agent.suspect")}</p>`}
    ${[...failures, ...agent.conversation_faults].map((it) => html`<p class="problem" key=${it}>${serverText(it)}</p>`)}
    <div class="toolbar">
      ${isRunning
        ? html`<${ConfirmButton} title=${t("setup.agent.stop.title", {name})} text=${t("setup.agent.stop.text")}
              label=${t("setup.agent.stop.label", {name})} action=${act("stop")}>${t("setup.agent.stop")}</${ConfirmButton}>
            <${ActionButton} label=${t("setup.agent.restart.label", {name})} action=${act("restart")}>${t("setup.agent.restart")}</${ActionButton}>`
        : html`<${ActionButton} className="primary" label=${t("setup.agent.start.label", {name})} action=${act("start")}>${t("setup.agent.start")}</${ActionButton}>`}
      <${ActionButton} label=${t("setup.agent.update.label", {name})} action=${() => begin(address("update"))}>${t("setup.agent.update")}</${ActionButton}>
    </div>
  </article>`;
}
