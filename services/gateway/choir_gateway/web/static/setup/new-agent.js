/* A new agent: a form that adds its entries to the text of config.json. */
import {get} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Dialog, Field} from "../cockpit/kit.js";
import {propose, readDocument} from "./draft.js";
import {readForm} from "./parts.js";

const AGENT_ID = "[a-z][a-z0-9_\\-]{0,40}";

export function NewAgent() {
  const [choices, setChoices] = useState(null);

  async function open() {
    try {
      const [document, status, models] = await Promise.all([readDocument(), get("v1/status"), get("v1/models")]);
      // a model that is only in the edited text, and the deployment's own one, which is only in force
      const names = [...Object.keys(document.models ?? {}), ...models.items.filter((it) => it.kind === "llm").map((it) => it.name)];
      setChoices({document, home: status.home, models: [...new Set(names)]});
    } catch (error) {
      notify(error.message);
    }
  }

  async function submit(event) {
    const {name, model} = readForm(event);
    try {
      await propose(entriesFor(choices.document, choices.home, name, model));
      setChoices(null);
    } catch (error) {
      notify(error.message);
    }
  }

  return html`<button class="primary" onClick=${open}>${t("setup.agent.new")}</button>
    <${Dialog} isOpen=${choices !== null} title=${t("setup.agent.new")} onClose=${() => setChoices(null)}>
      <form class="form" onSubmit=${submit}>
        <${Field} label=${t("setup.agent.name")} hint=${t("setup.agent.name.hint")}>
          <input name="name" required pattern=${AGENT_ID} autocomplete="off" spellcheck=${false} /></${Field}>
        <${Field} label=${t("setup.agent.model")}>
          <select name="model">${choices?.models.map((it) => html`<option key=${it} value=${it}>${it}</option>`)}</select></${Field}>
        <p class="detail">${t("setup.agent.new.text")}</p>
        <div class="toolbar"><button class="primary">${t("setup.agent.new.submit")}</button></div>
      </form>
    </${Dialog}>`;
}

/** Return the entries of a new agent with a workspace and a conversation at the console of its own. */
export function entriesFor(document, home, name, model) {
  const free = (wanted, taken) => {
    for (let number = 1; ; number += 1) {
      const candidate = number === 1 ? wanted : `${wanted}_${number}`;
      if (!taken.includes(candidate)) return candidate;
    }
  };
  const names = (section) => Object.keys(document[section] ?? {});
  const gateways = document.gateways ?? {};
  const existing = Object.keys(gateways).find((it) => gateways[it].type === "console");
  const gateway = existing ?? free("console", names("gateways"));
  const users = Object.values(document.dms ?? {}).map((it) => it.user_id);
  const [workspace, dm] = [free(name, names("workspaces")), free(name, names("dms"))];
  return [
    ...(existing ? [] : [["gateways", gateway, {type: "console"}]]),
    ["workspaces", workspace, {path: `${home}/workspaces/${workspace}`}],
    ["dms", dm, {gateway, user_id: free(`operator-${name}`, users), admin: true}],
    ["agents", name, {defaults: {workspace, llm: model, dm}}],
  ];
}
