/* Whether the agent's conversation is remembered, and whether the agent is shown memories. */
import {send} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, Badge, Dialog, Section, Waiting} from "../cockpit/kit.js";
import {useResource} from "../cockpit/resource.js";
import {named} from "./labels.js";
import {agentPath} from "./paths.js";

const MODES = ["local", "synced", "incognito"];
const RECALL = ["default", "on", "off"];

export function ModeSwitch({agent}) {
  const memory = useResource(agentPath(agent, "memory", "mode"));
  const [wanted, setWanted] = useState(null);
  async function put(what, body) {
    await send("PUT", agentPath(agent, "memory", what), {json: body});
    notify(t("memory.mode.switched"));
    memory.reload();
  }
  const setRecall = (recall) => put("recall", {recall});
  const setMode = async () => {
    const mode = wanted;
    setWanted(null);
    await put("mode", {mode});
  };
  const {data} = memory;
  return html`<${Section} title=${t("memory.mode")} detail=${data && t("memory.mode.of", {dm: data.dm})}>
    <${Waiting} resource=${memory} />
    ${data && html`<div class="cards">
      <${Choice} label=${t("memory.mode.mode")} title=${t("memory.mode.mode")} about=${named("mode.about", data.mode)} values=${MODES} value=${data.mode}
        group="mode.name" onChoose=${setWanted} />
      <${Choice} label=${t("memory.mode.recall")} title=${html`${t("memory.mode.recall")} <${Badge} kind=${data.recall ? "good" : "warning"}>${t(data.recall ? "memory.recall.is_on" : "memory.recall.is_off")}<//>`}
        about=${t("memory.recall.about")} values=${RECALL} value=${data.recall_setting} group="recall"
        onChoose=${(it) => setRecall(it).catch((error) => notify(error.message))} /></div>`}
    <${Dialog} isOpen=${wanted !== null} title=${t("memory.mode.switch")} onClose=${() => setWanted(null)}>
      <p>${wanted && named("mode.about", wanted)}</p>
      <p>${data?.session_id ? t("memory.mode.restarts", {agent}) : t("memory.mode.next")}</p>
      <div class="buttons"><${ActionButton} className="primary" action=${setMode}>${t("memory.mode.confirm", {mode: named("mode.name", wanted)})}<//>
        <button onClick=${() => setWanted(null)}>${t("memory.cancel")}</button></div><//><//>`;
}

function Choice({label, title, about, values, value, group, onChoose}) {
  return html`<div class="panel"><h3>${title}</h3><div class="memory-switch" role="group" aria-label=${label}>
    ${values.map((it) => html`<button key=${it} aria-pressed=${it === value} onClick=${() => { if (it !== value) onChoose(it); }}>${named(group, it)}</button>`)}</div>
    <p class="detail">${about}</p></div>`;
}
