/* The field for a new message, with its draft and its files. */
import {send} from "../app/api.js";
import {html, useEffect, useLayoutEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {recall, remember} from "../app/settings.js";
import {formatSize, t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {keepTrying} from "../cockpit/resource.js";
import {newKey} from "./keys.js";
import {findNewestCorrectable, rootOf} from "./revision.js";
import {useVoice, VoiceBar, VoiceButton} from "./voice-button.js";

const MAX_FILES = 10;
const MAX_TEXT = 100_000;
const UPLOAD_MS = 600_000;
const TOO_MANY = 429;
const HAS_TOUCH = matchMedia("(pointer: coarse)").matches;

export function Composer({conversation, handle}) {
  const name = `draft:${conversation.dm}`;
  const [text, setText] = useState(() => recall(name, ""));
  const [files, setFiles] = useState([]);
  const field = useRef();
  const picker = useRef();
  const before = useRef(null);
  const isUploading = files.some((it) => !it.ref);
  const canSend = !isUploading && (text.trim() !== "" || files.length > 0);
  const isWorking = conversation.isWorking.value;

  const editing = conversation.editing.value;
  const voice = useVoice(sendVoice);

  handle.current = {addFiles};
  useEffect(() => { if (!HAS_TOUCH) field.current.focus(); }, []);
  useEffect(() => {
    // what was being written comes back after the correction
    if (editing) {
      before.current ??= {text, files};
      setText(editing.text);
      setFiles(editing.files.map((file) => ({id: newKey(), ...file})));
      field.current.focus();
    } else if (before.current) {
      setText(before.current.text);
      setFiles(before.current.files);
      before.current = null;
    }
  }, [editing]);
  useLayoutEffect(() => {
    const {style, scrollHeight} = ((field.current.style.height = "auto"), field.current);
    style.height = `${scrollHeight}px`;
  }, [text]);

  const isRecording = voice.seconds !== null;
  const wasRecording = useRef(false);
  useEffect(() => {
    if (wasRecording.current && !isRecording && !HAS_TOUCH) field.current.focus();
    wasRecording.current = isRecording;
  }, [isRecording]);

  function change(value) {
    setText(value);
    if (!editing) remember(name, value);
  }

  async function addFiles(list) {
    const chosen = [...list].slice(0, MAX_FILES - files.length);
    if (chosen.length < list.length) notify(t("files.limit", {count: MAX_FILES}));
    await Promise.all(chosen.map(upload));
    field.current?.focus();
  }

  async function upload(file) {
    const id = newKey();
    const fileName = file.name || "file";
    setFiles((all) => [...all, {id, name: fileName, size: file.size}]);
    try {
      const put = () => send("PUT", `${conversation.path}/files?name=${encodeURIComponent(fileName)}`, {
        body: file, headers: {"Content-Type": file.type || "application/octet-stream"}, timeoutMs: UPLOAD_MS,
      });
      const response = await keepTrying(put, {
        isWanted: () => true,
        onFailure: (error) => { if (error.status !== TOO_MANY) throw error; }, // others of this browser come first
      });
      const stored = await response.json();
      setFiles((all) => all.map((it) => (it.id === id ? {...it, ...stored} : it)));
      return stored;
    } catch (error) {
      setFiles((all) => all.filter((it) => it.id !== id));
      notify(t("files.failed", {name: fileName, problem: error.message}));
      return null;
    }
  }

  /** Send what was recorded as a message of its own; a text that is being written stays. */
  async function sendVoice() {
    const file = await voice.finish();
    const stored = file && await upload(file);
    if (!stored) return;
    setFiles((all) => all.filter((it) => it.ref !== stored.ref));
    conversation.say("", [stored]);
  }

  function submit(event) {
    event?.preventDefault();
    if (!canSend) return;
    conversation.say(text.trim(), files.map(({id, ...file}) => file), editing ? rootOf(editing) : null);
    if (editing) {
      conversation.editing.value = null;
    } else {
      change("");
      setFiles([]);
    }
    field.current.focus();
  }

  function onKeyDown(event) {
    if (event.key === "ArrowUp" && text === "" && !editing) {
      event.preventDefault();
      conversation.editing.value = findNewestCorrectable(conversation.items.value) ?? null;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || HAS_TOUCH) return;
    event.preventDefault();
    submit();
  }

  function paste(event) {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    addFiles(event.clipboardData.files);
  }

  return html`<form class="composer" onSubmit=${submit}>
    <div class="box">
      ${editing && html`<div class="correcting"><${Icon} name="edit" /><span>${t("composer.correcting")}</span>
        <button type="button" class="quiet" aria-label=${t("composer.correcting.cancel")} title=${`${t("composer.correcting.cancel")} (Esc)`}
          onClick=${() => { conversation.editing.value = null; }}><${Icon} name="close" /></button></div>`}
      ${files.length > 0 && html`<ul class="chosen" aria-label=${t("files")}>${files.map((file) => html`<li key=${file.id} data-busy=${!file.ref}>
        <${Icon} name="file" /><span class="name">${file.name}</span><span class="size">${file.ref ? formatSize(file.size) : t("files.uploading")}</span>
        <button type="button" class="quiet" aria-label=${t("files.remove", {name: file.name})}
          onClick=${() => setFiles((all) => all.filter((it) => it !== file))}><${Icon} name="close" /></button></li>`)}</ul>`}
      <textarea ref=${field} rows="1" value=${text} maxlength=${MAX_TEXT} aria-label=${t("composer.label")} dir="auto"
        placeholder=${t("composer.label")} enterkeyhint=${HAS_TOUCH ? "enter" : "send"}
        onInput=${(event) => change(event.target.value)} onKeyDown=${onKeyDown} onPaste=${paste}></textarea>
      ${isRecording ? html`<${VoiceBar} voice=${voice} onSend=${sendVoice} />` : html`<div class="tools">
        <input ref=${picker} type="file" multiple hidden onChange=${(event) => { addFiles(event.target.files); event.target.value = ""; }} />
        <button type="button" class="quiet" aria-label=${t("files.add")} title=${t("files.add")} onClick=${() => picker.current.click()}><${Icon} name="attach" /></button>
        <${VoiceButton} voice=${voice} />
        ${!HAS_TOUCH && html`<span class="hint" aria-hidden="true">${isWorking ? t("composer.hint.stop") : t("composer.hint")}</span>`}
        ${isWorking && !text.trim()
          ? html`<button type="button" class="round" aria-label=${t("stop")} title=${`${t("stop")} (Esc)`}
              onClick=${() => conversation.stop().catch((error) => notify(error.message))}><${Icon} name="stop" /></button>`
          : html`<button class="round primary" aria-label=${t("send")} title=${t("send")} disabled=${!canSend}><${Icon} name="send" /></button>`}
      </div>`}
    </div>
  </form>`;
}
