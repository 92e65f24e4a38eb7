/* config.json: edit the text, save it, see what would change, and apply exactly that. */
import {get, post, send} from "../app/api.js";
import {html, useEffect, useRef, useState} from "../app/html.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, Badge, Section, Waiting} from "../cockpit/kit.js";
import {IDLE_MS, useResource} from "../cockpit/resource.js";
import {Difference, Report} from "./difference.js";
import {discardDraft, draft, edit, file, isOutdated, readFile, saveDraft} from "./draft.js";
import {ConfirmButton} from "./parts.js";
import {SettingHelp} from "./setting-help.js";

const LOAD_TIMEOUT_MS = 90_000; // control waits a minute for repositories that do not answer
const REPORT_MS = 1_000;
const REPORT_TRIES = 30;

export function ConfigTab() {
  const active = useResource("v1/config", {everyMs: IDLE_MS});
  const [problem, setProblem] = useState(null);
  const [difference, setDifference] = useState(null);
  const [report, setReport] = useState(null);
  const [place, setPlace] = useState(0);
  const isOpen = useRef(true);
  useEffect(() => {
    readFile().catch(setProblem);
    return () => { isOpen.current = false; };
  }, []);
  useEffect(() => {
    if (active.data?.staged && !difference) get("v1/config/diff").then(setDifference).catch(() => {});
  }, [active.data?.staged]);

  async function compare() {
    setProblem(null);
    setReport(null);
    setDifference(null); // what was staged before is not what is in the editor
    try {
      await saveDraft();
      const loaded = await send("POST", "v1/config/load", {timeoutMs: LOAD_TIMEOUT_MS});
      setDifference(await loaded.json());
    } catch (error) {
      setProblem(error);
    }
  }

  async function apply() {
    const applied = await post("v1/config/apply", {digest: difference.digest});
    setDifference(null);
    notify(t("setup.config.applied", {version: applied.version}));
    active.reload();
    await follow(applied.report);
  }

  /** Show who has the new version, until all have it. */
  async function follow(first) {
    setReport(first);
    let current = first;
    for (let tries = 0; tries < REPORT_TRIES && isOpen.current && !isSettled(current); tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, REPORT_MS));
      current = await get("v1/config/report");
      setReport(current);
    }
  }

  async function discard() {
    setProblem(null);
    await discardDraft();
  }

  const text = draft.value ?? file.value?.text;
  return html`<${Section} title="config.json" detail=${active.data && t("setup.config.version", {version: active.data.version})}
      actions=${draft.value !== null && html`<${Badge} kind="warning">${t("setup.config.edited")}</${Badge}>`}>
      <p class="detail">${t("setup.config.text", {path: file.value?.path ?? "config.json"})}</p>
      <${Waiting} resource=${active} />
      ${active.data?.note && html`<p class="problem">${t("setup.config.notActive")} ${serverText(active.data.note)}</p>`}
      ${text !== undefined && html`<label class="field"><span>${t("setup.config.label")}</span>
        <textarea class="setup-editor" rows="18" spellcheck=${false} autocapitalize="off" autocomplete="off" value=${text}
          aria-describedby="setting-help" onInput=${(event) => edit(event.target.value)}
          onSelect=${(event) => setPlace(event.target.selectionStart)} onKeyUp=${(event) => setPlace(event.target.selectionStart)}
          onClick=${(event) => setPlace(event.target.selectionStart)}></textarea></label>
        <${SettingHelp} text=${text} place=${place} />`}
      ${isOutdated.value && html`<p class="setup-note" role="status">${t("setup.config.outdated")}</p>`}
      ${problem && html`<p class="problem setup-problem" role="alert">${problem.message}</p>`}
      <div class="toolbar">
        <${ActionButton} className="primary" disabled=${text === undefined} action=${compare}>${t(draft.value === null ? "setup.config.compare" : "setup.config.save")}</${ActionButton}>
        ${draft.value !== null && html`<${ConfirmButton} title=${t("setup.config.discard.title")} text=${t("setup.config.discard.text")}
          action=${discard}>${t("setup.config.discard")}</${ConfirmButton}>`}
      </div>
    </${Section}>
    ${difference && html`<${Difference} difference=${difference} isEdited=${draft.value !== null} apply=${apply} />`}
    ${report && html`<${Report} report=${report} />`}`;
}

function isSettled(report) {
  return [...report.agents, report.gateway].every((it) => it.state !== "waiting");
}
