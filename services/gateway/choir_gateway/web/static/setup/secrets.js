/* Secrets: their names and uses. A value can be stored, never shown; no component keeps it. */
import {post, send} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, Badge, DataTable, Dialog, Empty, Field, Section, Waiting, showInvisible} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {Report} from "./difference.js";

const NAME = "[A-Za-z0-9][A-Za-z0-9_.\\-]{0,63}";

export function SecretsTab() {
  const secrets = useResource("v1/secrets");
  const [name, setName] = useState(null); // of the secret in the form; "" for a new one
  const [isStored, setStored] = useState(false);
  const [result, setResult] = useState(null);

  async function apply() {
    setResult(await post("v1/secrets/apply"));
    setStored(false);
    secrets.reload();
  }

  function stored() {
    setName(null);
    setStored(true);
    setResult(null);
    secrets.reload();
  }

  const items = secrets.data?.items;
  return html`<${Section} title=${t("setup.secrets")} actions=${html`
      <${ActionButton} action=${apply}>${t("setup.secrets.apply")}</${ActionButton}>
      <button class="primary" onClick=${() => setName("")}>${t("setup.secret.new")}</button>`}>
      <p class="detail">${t("setup.secrets.text")}</p>
      ${isStored && html`<p class="setup-note" role="status">${t("setup.secrets.waiting")}</p>`}
      ${result && html`<${Result} result=${result} />`}
      <${Waiting} resource=${secrets} />
      ${items?.length === 0 && html`<${Empty}>${t("setup.secrets.none")}</${Empty}>`}
      ${items?.length > 0 && html`<${DataTable} label=${t("setup.secrets")} rows=${items} rowKey=${(it) => it.name} columns=${[
        {key: "name", title: t("setup.secret.name"), render: (it) => html`<code>${showInvisible(it.name)}</code>`},
        {key: "set", title: t("setup.secret.state"), render: (it) => html`<${Badge} kind=${it.set ? "good" : "bad"}>${t(it.set ? "setup.secret.set" : "setup.secret.missing")}</${Badge}>`},
        {key: "used_by", title: t("setup.secret.usedBy"), render: (it) => it.used_by.map((use) => html`<div key=${use}><code>${showInvisible(use)}</code></div>`)},
        {key: "action", title: html`<span class="hidden">${t("setup.secret.value")}</span>`, align: "end", render: (it) => html`<button
          aria-label=${t(it.set ? "setup.secret.replace.label" : "setup.secret.store.label", {name: it.name})} onClick=${() => setName(it.name)}>${t(it.set ? "setup.secret.replace" : "setup.secret.store")}</button>`},
      ]} />`}
    </${Section}>
    ${result && html`<${Report} report=${result.report} />`}
    <${ValueForm} name=${name} close=${() => setName(null)} onStored=${stored} />`;
}

function ValueForm({name, close, onStored}) {
  const [problem, setProblem] = useState("");
  async function submit(event) {
    event.preventDefault();
    const form = event.target;
    const stored = form.elements.name.value.trim();
    setProblem("");
    try {
      // the value is in the form only, and gone with it
      await send("PUT", `v1/secrets/${encodeURIComponent(stored)}`, {json: {value: form.elements.value.value}});
      form.reset();
      notify(t("setup.secret.stored", {name: stored}));
      onStored();
    } catch (error) {
      setProblem(error.message);
    }
  }

  return html`<${Dialog} isOpen=${name !== null} title=${t(name ? "setup.secret.store.title" : "setup.secret.new")} onClose=${() => { setProblem(""); close(); }}>
    <form class="form" onSubmit=${submit} autocomplete="off">
      <${Field} label=${t("setup.secret.name")} hint=${name ? "" : t("setup.secret.name.hint")}>
        <input name="name" required pattern=${NAME} defaultValue=${name} readonly=${Boolean(name)} autocomplete="off" spellcheck=${false} /></${Field}>
      <${Field} label=${t("setup.secret.value")} hint=${t("setup.secret.value.hint")}>
        <input name="value" type="password" required autocomplete="new-password" spellcheck=${false} /></${Field}>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="toolbar"><button class="primary">${t("setup.secret.store")}</button></div>
    </form>
  </${Dialog}>`;
}

function Result({result}) {
  const groups = ["added", "changed", "removed", "overridden", "at_restart", "missing"].filter((it) => result[it].length);
  return html`<div class="setup-note" role="status">
    <p>${groups.some((it) => ["added", "changed", "removed"].includes(it)) ? t("setup.secrets.applied") : t("setup.secrets.unchanged")}</p>
    ${groups.map((it) => html`<p key=${it}>${t(`setup.secrets.${it}`)} ${result[it].map((name) => html`<code key=${name}>${showInvisible(name)}</code> `)}</p>`)}
  </div>`;
}
