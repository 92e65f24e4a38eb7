/* People: requests to talk, people, conversations, and the browsers that are signed in. */
import {post, send} from "../app/api.js";
import {html} from "../app/html.js";
import {findText, t} from "../app/texts.js";
import {ActionButton, Badge, DataTable, Empty, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {deciderName, formatAgo} from "../cockpit/formats.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {Browsers} from "./browsers.js";
import {ConfirmButton} from "./parts.js";

export function PeopleTab() {
  const pairings = useResource("v1/people/pairings", {everyMs: IDLE_MS});
  const people = useResource("v1/people");
  const conversations = useResource("v1/dms");
  function reload() {
    pairings.reload();
    people.reload();
    conversations.reload();
  }
  return html`<${Requests} resource=${pairings} reload=${reload} />
    <${Conversations} resource=${conversations} />
    <${People} resource=${people} reload=${reload} />
    <${Browsers} people=${(people.data?.items ?? []).filter((it) => !isPaired(it))} />`;
}

/** Whether an admin let this user in, who is in no configuration. */
function isPaired(person) {
  return person.identities.some((identity) => identity.source === "pairing");
}

function roleName(role) {
  return findText(`person.role.${role}`) ?? role;
}

function Requests({resource, reload}) {
  const decide = (code, allow) => async () => {
    await post("v1/people/pairings", {code, allow});
    reload();
  };
  return html`<${Section} title=${t("setup.requests")}>
    <${Waiting} resource=${resource} />
    ${resource.data?.items.length === 0 && html`<${Empty}>${t("setup.requests.none")}</${Empty}>`}
    <div class="cards">${resource.data?.items.map((it) => html`<article class="panel" key=${it.code} aria-label=${it.code}>
      <h3><code>${showInvisible(it.code)}</code><${Badge}>${it.gateway}</${Badge}></h3>
      <p>${t("setup.request.user")} <code>${showInvisible(it.user)}</code>${it.user_name && html` <span class="detail">${t("setup.request.name")} ${showInvisible(it.user_name)}</span>`}</p>
      <p class="detail">${t("setup.request.gets", {agent: it.agent, role: roleName(it.role)})} ${t("setup.request.expires", {when: formatAgo(it.expires_at)})}</p>
      <div class="toolbar">
        <${ActionButton} className="primary" label=${t("setup.request.allow.label", {code: it.code})} action=${decide(it.code, true)}>${t("setup.request.allow")}</${ActionButton}>
        <${ActionButton} label=${t("setup.request.refuse.label", {code: it.code})} action=${decide(it.code, false)}>${t("setup.request.refuse")}</${ActionButton}>
      </div></article>`)}</div>
  </${Section}>`;
}

function Conversations({resource}) {
  return html`<${Section} title=${t("setup.conversations")} detail=${t("setup.conversations.detail")}>
    <${Waiting} resource=${resource} />
    ${resource.data?.items.length === 0 && html`<${Empty}>${t("setup.conversations.none")}</${Empty}>`}
    ${resource.data?.items.length > 0 && html`<${DataTable} label=${t("setup.conversations")} rows=${resource.data.items} rowKey=${(it) => it.name} columns=${[
      {key: "name", title: t("setup.conversation.name"), render: (it) => html`<strong>${showInvisible(it.name)}</strong>`},
      {key: "gateway", title: t("setup.conversation.channel"), render: (it) => html`${it.gateway}${it.gateway !== it.type && html` <span class="detail">${it.type}</span>`}`},
      {key: "agent", title: t("setup.conversation.agent"), render: (it) => html`${it.agent_id ?? "–"} ${it.bound && html`<${Badge} kind="good">${t("setup.conversation.bound")}</${Badge}>`}`},
      {key: "admin", title: t("setup.conversation.rights"), render: (it) => t(it.admin ? "setup.conversation.admin" : "setup.conversation.user")},
      {key: "memory", title: t("setup.conversation.memory"), render: (it) => t(`memory.mode.name.${it.memory_mode}`)},
    ]} />`}
  </${Section}>`;
}

function People({resource, reload}) {
  const unpair = (dm) => async () => {
    await send("DELETE", `v1/people/pairings/${encodeURIComponent(dm)}`);
    reload();
  };
  return html`<${Section} title=${t("setup.people")}>
    <${Waiting} resource=${resource} />
    ${resource.data?.items.length === 0 && html`<${Empty}>${t("setup.people.none")}</${Empty}>`}
    ${resource.data?.items.length > 0 && html`<${DataTable} label=${t("setup.people")} rows=${resource.data.items} rowKey=${(it) => it.name} columns=${[
      {key: "name", title: t("setup.person.name"), render: (it) => html`<strong>${showInvisible(it.name)}</strong>${it.user_name && html`<div class="detail">${t("setup.request.name")} ${showInvisible(it.user_name)}</div>`}${it.approved_by && html`<div class="detail">${
        t("setup.person.allowed")} ${showInvisible(deciderName(it.approved_by))}, ${formatAgo(it.approved_at)}</div>`}`},
      {key: "role", title: t("setup.person.role"), render: (it) => html`<${Badge}>${roleName(it.role)}</${Badge}>`},
      {key: "identities", title: t("setup.person.identities"), render: (it) => it.identities.map((identity) => html`<div key=${`${identity.gateway} ${identity.user}`}>${identity.gateway}: <code>${showInvisible(identity.user)}</code></div>`)},
      {key: "action", title: html`<span class="hidden">${t("setup.person.unpair")}</span>`, align: "end", render: (it) => isPaired(it) && html`<${ConfirmButton}
        title=${t("setup.person.unpair.title", {name: it.name})} text=${t("setup.person.unpair.text")} label=${t("setup.person.unpair.label", {name: it.name})}
        action=${unpair(it.name)}>${t("setup.person.unpair")}</${ConfirmButton}>`},
    ]} />`}
  </${Section}>`;
}
