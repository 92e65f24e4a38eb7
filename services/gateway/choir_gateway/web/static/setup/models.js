/* The models: what is configured, whether they answer, and a form that adds one to config.json. */
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Badge, DataTable, Dialog, Empty, Field, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {formatAgo, formatNumber} from "../cockpit/formats.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {propose} from "./draft.js";
import {TestButton, TestResults} from "./model-test.js";
import {Command, readForm} from "./parts.js";
import {PROVIDERS, entryFor} from "./providers.js";

export function ModelsTab() {
  const models = useResource("v1/models");
  const agents = useResource("v1/agents", {everyMs: IDLE_MS});
  const [results, setResults] = useState([]);
  const lanes = (agents.data?.items ?? []).flatMap((agent) => agent.lanes.map((lane) => ({...lane, agent: agent.agent_id})));
  const items = models.data?.items;
  function addResult(result) {
    setResults((old) => [result, ...old.filter((it) => it.name !== result.name)]);
  }

  return html`<${Section} title=${t("setup.models")} actions=${html`<${NewModel} names=${items?.map((it) => it.name) ?? []} />`}>
      <${Waiting} resource=${models} />
      ${items?.length === 0 && html`<${Empty}>${t("setup.models.none")}</${Empty}>`}
      ${items?.length > 0 && html`<${DataTable} label=${t("setup.models")} rows=${items} rowKey=${(it) => `${it.kind} ${it.name}`} columns=${[
        {key: "name", title: t("setup.model.name"), render: (it) => html`<strong>${it.name}</strong>`},
        {key: "kind", title: t("setup.model.kind"), render: (it) => t(`setup.model.${it.kind}`)},
        {key: "model", title: t("setup.model.model"), render: (it) => html`${showInvisible(it.model)}<div class="detail setup-value">${showInvisible(it.endpoint)}</div>`},
        {key: "context_window", title: t("setup.model.context"), align: "end", render: (it) => it.context_window && formatNumber(it.context_window)},
        {key: "state", title: t("setup.model.state"), render: (it) => it.kind === "llm" && html`<${State} lanes=${lanes} name=${it.name} />`},
        {key: "test", title: html`<span class="hidden">${t("setup.test")}</span>`, align: "end", render: (it) => it.kind === "llm" && html`<${TestButton} name=${it.name} onResult=${addResult} />`},
      ]} />`}
    </${Section}>
    <${Section} title=${t("setup.tests")}><p>${t("setup.tests.text")}</p>
      <${TestResults} results=${results} />
      ${results.length === 0 && html`<p>${t("setup.tests.command")}</p><${Command} text="choirctl doctor" />`}</${Section}>`;
}

/** Whether the model answered the agents that use it. */
function State({lanes, name}) {
  const using = lanes.filter((it) => it.model?.name === name);
  const failed = using.find((it) => it.model_failure);
  if (failed) {
    return html`<${Badge} kind="bad">${t("setup.model.failing")}</${Badge}>
      <div class="detail">${formatAgo(failed.model_failure.since)}: ${failed.model_failure.words}</div>`;
  }
  if (using.length === 0) return html`<${Badge}>${t("setup.model.unused")}</${Badge}>`;
  return html`<${Badge} kind="good">${t("setup.model.inUse", {agents: [...new Set(using.map((it) => it.agent))].join(", ")})}</${Badge}>`;
}

function NewModel({names}) {
  const [isOpen, setOpen] = useState(false);
  const [provider, setProvider] = useState(PROVIDERS[0]);
  async function submit(event) {
    const fields = readForm(event);
    try {
      if (names.includes(fields.name) && fields.name !== "default") throw new Error(t("setup.config.taken", {name: `models.${fields.name}`}));
      await propose([["models", fields.name, entryFor(provider, fields)]]);
      setOpen(false);
    } catch (error) {
      notify(error.message);
    }
  }

  return html`<button class="primary" onClick=${() => setOpen(true)}>${t("setup.model.new")}</button>
    <${Dialog} isOpen=${isOpen} title=${t("setup.model.new")} onClose=${() => setOpen(false)}>
      <form class="form" onSubmit=${submit}>
        <${Field} label=${t("setup.model.provider")}>
          <select name="provider" onChange=${(event) => setProvider(PROVIDERS.find((it) => it.id === event.target.value))}>
            ${PROVIDERS.map((it) => html`<option key=${it.id} value=${it.id} selected=${it === provider}>${it.title ?? t("setup.model.other")}</option>`)}
          </select></${Field}>
        <${Field} label=${t("setup.model.name")} hint=${t("setup.model.name.hint")}>
          <input name="name" required pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]{0,63}" autocomplete="off" spellcheck=${false} /></${Field}>
        <${Field} label=${t("setup.model.model")} hint=${t("setup.model.model.hint")}>
          <input name="model" required autocomplete="off" spellcheck=${false} placeholder=${provider.example} /></${Field}>
        <${Field} key=${`${provider.id} endpoint`} label=${t("setup.model.endpoint")} hint=${provider.endpoint ? "" : t("setup.model.endpoint.hint")}>
          <input name="endpoint" type="url" required=${!provider.isDefault && !provider.endpoint} defaultValue=${provider.endpoint}
            placeholder=${provider.isDefault ? t("setup.model.endpoint.default") : ""} spellcheck=${false} /></${Field}>
        <${Field} key=${`${provider.id} secret`} label=${t("setup.model.secret")} hint=${t("setup.model.secret.hint")}>
          <input name="secret" defaultValue=${provider.secret} pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]{0,63}" autocomplete="off" spellcheck=${false} /></${Field}>
        <p class="detail">${t("setup.model.new.text")}</p>
        <div class="toolbar"><button class="primary">${t("setup.agent.new.submit")}</button></div>
      </form>
    </${Dialog}>`;
}
