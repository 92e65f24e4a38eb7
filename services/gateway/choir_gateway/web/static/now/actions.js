/* What the operator does to a lane: an instruction for its next safe point, and cancelling its work. */
import {post} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, Dialog, Field} from "../cockpit/kit.js";

const MAX_TEXT = 100_000;

export function InstructDialog({isOpen, agent, lane, onClose}) {
  const [text, setText] = useState("");
  // a job is told by the conversation that it works for
  const dm = lane.isJob ? lane.job?.dm : lane.name;

  async function send() {
    if (lane.isJob && !dm) throw new Error(t("now.instruct.unknown"));
    const words = lane.isJob ? t("now.instruct.prefix", {job: lane.name, text: text.trim()}) : text.trim();
    const {note} = await post(addressFor(agent, "inject"), {text: words, ...(dm ? {dm} : {})});
    notify(note);
    setText("");
    onClose();
  }

  return html`<${Dialog} isOpen=${isOpen} title=${t("now.instruct.title", {name: lane.name || agent.agent_id})} onClose=${onClose}>
    <${Field} label=${t("now.instruct.text")} hint=${t(lane.isJob ? "now.instruct.hint.job" : "now.instruct.hint")}>
      <textarea rows="4" maxlength=${MAX_TEXT} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></${Field}>
    <div class="toolbar"><${ActionButton} className="primary" action=${send} disabled=${!text.trim()}>${t("send")}</${ActionButton}></div>
  </${Dialog}>`;
}

export function CancelDialog({isOpen, agent, lane, onClose}) {
  async function cancel() {
    try {
      const {note} = await post(addressFor(agent, "cancel"), lane.isJob ? {job: lane.name} : {dm: lane.name});
      notify(note);
    } finally {
      onClose();
    }
  }

  return html`<${Dialog} isOpen=${isOpen} title=${t(lane.isJob ? "now.cancel.job.title" : "now.cancel.turn.title", {name: lane.name})} onClose=${onClose}>
    <p>${t(lane.isJob ? "now.cancel.job.what" : "now.cancel.turn.what")}</p>
    <div class="toolbar"><${ActionButton} className="danger" action=${cancel}>${t(lane.isJob ? "now.cancel.job" : "now.cancel.turn")}</${ActionButton}>
      <button onClick=${onClose}>${t("now.cancel.not")}</button></div>
  </${Dialog}>`;
}

function addressFor(agent, action) {
  return `v1/agents/${encodeURIComponent(agent.agent_id)}/${action}`;
}
