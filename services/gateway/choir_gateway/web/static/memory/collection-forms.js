/* Forms that add files to a collection, or let it follow a folder. */
import {post, send} from "../app/api.js";
import {html, useRef, useState} from "../app/html.js";
import {formatSize, t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Field, Section, showInvisible} from "../cockpit/kit.js";
import {agentPath, withQuery} from "./paths.js";

const UPLOAD_MS = 15 * 60_000; // a large file over a slow line, and the reading of its text

/** `name` is the collection that is shown; without one the forms ask for it. */
export function AddForms({agent, name, names, onChange}) {
  return html`<${Section} title=${t("memory.collection.add")}>
    <div class="cards"><${Upload} agent=${agent} name=${name} names=${names} onChange=${onChange} />
      <${FollowFolder} agent=${agent} name=${name} onChange=${onChange} /></div><//>`;
}

function Upload({agent, name, names, onChange}) {
  const [files, setFiles] = useState([]); // {file, state, detail}
  const [isBusy, setBusy] = useState(false);
  const [isOver, setOver] = useState(false);
  const picker = useRef();

  function add(chosen) {
    setFiles([...chosen].map((file) => ({file, state: "ready", detail: formatSize(file.size)})));
  }

  async function upload(event) {
    event.preventDefault();
    const collection = name ?? new FormData(event.target).get("collection").trim();
    setBusy(true);
    // one after the other: each is read and stored by itself, and one that is refused keeps no other
    for (const [index, entry] of files.entries()) {
      if (entry.state === "done") continue;
      const mark = (state, detail) => setFiles((old) => old.map((it, at) => (at === index ? {...it, state, detail} : it)));
      mark("busy", t("memory.upload.busy"));
      try {
        const path = withQuery(agentPath(agent, "collections", collection, "files"), {name: nameOf(entry.file)});
        const headers = {"Content-Type": "application/octet-stream"};
        const added = await (await send("PUT", path, {body: entry.file, headers, timeoutMs: UPLOAD_MS})).json();
        mark("done", t(`memory.upload.${added.operation}`, {parts: added.chunks}));
      } catch (error) {
        mark("failed", error.message);
      }
    }
    setBusy(false);
    onChange();
  }

  return html`<form class="panel memory-upload" data-over=${isOver ? "yes" : "no"} onSubmit=${upload}
      onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(event) => { event.preventDefault(); setOver(false); add(event.dataTransfer.files); }}>
    <h3>${t("memory.upload")}</h3><p class="detail">${t("memory.upload.about")}</p>
    ${name === undefined && html`<${Field} label=${t("memory.collection.name")}><input name="collection" list="memory-collections" required maxlength="100" /><//>
      <datalist id="memory-collections">${names.map((it) => html`<option key=${it} value=${it} />`)}</datalist>`}
    <${Field} label=${t("memory.upload.files")}><input ref=${picker} type="file" multiple onChange=${(event) => add(event.target.files)} /><//>
    ${files.length > 0 && html`<ul class="memory-files" aria-live="polite">${files.map((it, index) => html`<li key=${index} data-state=${it.state}>
      <span class="name" dir="auto">${showInvisible(it.file.name)}</span><span class="detail">${it.detail}</span></li>`)}</ul>`}
    <div class="buttons"><button class="primary" disabled=${isBusy || files.length === 0} aria-busy=${isBusy}>${t("memory.upload.submit")}</button></div>
  </form>`;
}

/** The name of a file, of which the end says what kind it is. */
function nameOf(file) {
  return [...file.name].slice(-200).join("");
}

function FollowFolder({agent, name, onChange}) {
  const [problem, setProblem] = useState("");
  async function follow(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    const collection = name ?? form.get("collection").trim();
    setProblem("");
    try {
      await post(agentPath(agent, "collections", collection, "folder"), {folder: form.get("folder").trim()});
      notify(t("memory.folder.followed"));
      event.target.reset();
      onChange();
    } catch (error) {
      setProblem(error.message);
    }
  }
  return html`<form class="panel" onSubmit=${follow}>
    <h3>${t("memory.folder")}</h3><p class="detail">${t("memory.folder.about")}</p>
    ${name === undefined && html`<${Field} label=${t("memory.collection.name")}><input name="collection" required maxlength="100" /><//>`}
    <${Field} label=${t("memory.folder.path")} hint=${t("memory.folder.hint")}><input name="folder" required pattern="/.*" placeholder="/home/ann/notes" spellcheck=${false} /><//>
    <p class="problem" role="alert">${problem}</p>
    <div class="buttons"><button>${t("memory.folder.submit")}</button></div>
  </form>`;
}
