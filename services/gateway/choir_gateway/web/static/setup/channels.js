/* Channels: those that are configured with their state, a Telegram bot to connect, and what the others need. */
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {Badge, DataTable, Empty, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {GuideLink} from "./guides.js";
import {Sentence} from "./parts.js";
import {TelegramConnections} from "./telegram.js";

/* Messengers that are connected by hand; the guide of this name says how. */
const OTHERS = ["discord", "slack", "matrix", "email", "whatsapp", "signal", "webhook"];

export function ChannelsTab() {
  const config = useResource("v1/config");
  const status = useResource("v1/status", {everyMs: IDLE_MS});
  const conversations = useResource("v1/dms");
  function reload() {
    config.reload();
    status.reload();
    conversations.reload();
  }
  const rows = channelRows(config.data?.config.gateways ?? {}, status.data?.channels ?? [], conversations.data?.items ?? []);
  return html`<${Section} title=${t("setup.channels")}>
      <${Waiting} resource=${config} /><${Waiting} resource=${status} />
      ${config.data && rows.length === 0 && html`<${Empty}>${t("setup.channels.none")}</${Empty}>`}
      ${rows.length > 0 && html`<${DataTable} label=${t("setup.channels")} rows=${rows} rowKey=${(it) => it.name} columns=${[
        {key: "name", title: t("setup.channel.name"), render: (it) => html`<strong>${showInvisible(it.name)}</strong>`},
        {key: "type", title: t("setup.channel.type"), render: (it) => it.type},
        {key: "state", title: t("setup.model.state"), render: (it) => html`<${State} state=${it.state} detail=${it.detail} />`},
        {key: "agents", title: t("setup.agents"), render: (it) => it.agents.join(", ")},
        {key: "dms", title: t("setup.conversations"), render: (it) => showInvisible(it.dms.join(", "))},
      ]} />`}
    </${Section}>
    <${TelegramConnections} agents=${Object.keys(config.data?.config.agents ?? {})}
      people=${Object.keys(config.data?.config.people ?? {})} onConnected=${reload} />
    <${Section} title=${t("setup.channels.others")}><p>${t("setup.channels.others.text")}</p>
      <${DataTable} label=${t("setup.channels.others")} rows=${OTHERS} rowKey=${(it) => it} columns=${[
        {key: "type", title: t("setup.channel.type"), render: (it) => html`<strong>${it}</strong>`},
        {key: "needs", title: t("setup.channel.needs"), render: (it) => t(`setup.channel.needs.${it}`)},
        {key: "docs", title: t("setup.channel.docs"), render: (it) => html`<${GuideLink} name=${it} />`},
      ]} /></${Section}>`;
}

const KINDS = {running: "good", limited: "warning", failing: "bad"};

function State({state, detail}) {
  return html`<${Badge} kind=${KINDS[state]}>${t(`setup.channel.${state}`)}</${Badge}>
    ${detail && html`<div class="detail setup-state"><${Sentence} text=${serverText(detail)} /></div>`}`;
}

/** Return a row for each gateway of config.json. One that reports no state is part of Choir itself. Pure. */
export function channelRows(gateways, states, conversations) {
  return Object.entries(gateways).map(([name, {type}]) => {
    const own = conversations.filter((it) => it.gateway === name);
    const reported = states.find((it) => it.name === name);
    const state = reported?.ok === false ? "failing" : reported?.detail ? "limited" : "running";
    return {
      name, type, state,
      detail: reported?.detail,
      agents: [...new Set(own.map((it) => it.agent_id).filter(Boolean))],
      dms: own.map((it) => it.name),
    };
  });
}
