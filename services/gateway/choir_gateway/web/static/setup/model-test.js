/* The test call of a model: a button, and what it has shown. */
import {send} from "../app/api.js";
import {html} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {ActionButton, Badge, Details, showInvisible} from "../cockpit/kit.js";
import {formatDuration} from "../cockpit/formats.js";
import {Sentence} from "./parts.js";

const TIMEOUT_MS = 200_000; // a server may load the model first
const KINDS = {ok: "good", warn: "warning", fail: "bad"};

export function TestButton({name, onResult}) {
  async function run() {
    const response = await send("POST", `v1/models/${encodeURIComponent(name)}/test`, {timeoutMs: TIMEOUT_MS});
    onResult(await response.json());
  }
  return html`<${ActionButton} label=${t("setup.test.label", {name})} action=${run}>${t("setup.test")}</${ActionButton}>`;
}

/** The newest result of each model. */
export function TestResults({results}) {
  return html`<div role="status"><ul class="setup-list">${results.map((it) => html`<li class="panel" key=${it.name} data-outcome=${it.outcome}>
    <h3>${it.name}<${Badge} kind=${KINDS[it.outcome]}>${t(`setup.test.${it.outcome}`)}</${Badge}></h3>
    <p><${Sentence} text=${serverText(it.detail)} /></p>
    <${Details} items=${[
      [t("setup.test.answered"), t(it.answered ? "yes" : "no")],
      [t("setup.test.time"), it.duration_ms !== null && it.duration_ms !== undefined ? formatDuration(it.duration_ms) : undefined],
      [t("setup.test.model"), it.model && html`<code>${showInvisible(it.model)}</code>`],
    ]} />
  </li>`)}</ul></div>`;
}
