/* The dialog before a session is stored as a file: what is in it, and what was removed. */
import {html, useEffect, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {formatNumber} from "../cockpit/formats.js";
import {ActionButton, Dialog} from "../cockpit/kit.js";
import {exportSession, saveFile} from "./export.js";

export function ExportDialog({id, isOpen, onClose}) {
  const [state, setState] = useState({});
  useEffect(() => setState({}), [isOpen]);

  async function run() {
    setState({share: 0});
    const file = await exportSession(id, (share) => setState({share}));
    saveFile(file.name, file.text);
    setState({done: file});
  }

  return html`<${Dialog} isOpen=${isOpen} title=${t("log.export.title")} onClose=${onClose}>
    <p>${t("log.export.contains")}</p>
    <p>${t("log.export.redacted")}</p>
    <p><strong>${t("log.export.warning")}</strong></p>
    <p role="status">${state.done ? t("log.export.done", {name: state.done.name, count: formatNumber(state.done.events), masked: formatNumber(state.done.masked)})
      : state.share !== undefined && html`<progress max="1" value=${state.share} aria-label=${t("log.export.progress")}></progress>`}</p>
    <div class="buttons"><${ActionButton} className="primary" action=${run}>${t("log.export.store")}<//>
      <button onClick=${onClose}>${t("close")}</button></div>
  <//>`;
}
