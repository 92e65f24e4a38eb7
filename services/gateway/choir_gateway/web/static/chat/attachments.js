/* Files of a message: pictures inline, all others as links that download them. */
import {download, send} from "../app/api.js";
import {html, useEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {formatSize, t} from "../app/texts.js";
import {notify} from "../app/toast.js";

// Pixels only: an SVG can contain scripts, and is downloaded.
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const MAX_PICTURE = 20_000_000; // bytes

export function Attachments({item, conversation}) {
  if (item.files.length === 0) return null;
  return html`<div class="files">${item.files.map((file) => html`<${File} key=${file.ref} file=${file}
    path=${pathOf(item, file, conversation)} />`)}</div>`;
}

function pathOf(item, file, conversation) {
  if (item.outboxId) return `${conversation.path}/messages/${item.outboxId}/files/${encodeURIComponent(file.ref)}`;
  return `${conversation.path}/files/${encodeURIComponent(file.ref.split("/").at(-1))}`;
}

function File({file, path}) {
  const isPicture = PICTURES.includes(file.mime) && (file.size ?? 0) <= MAX_PICTURE;
  const [hasFailed, setFailed] = useState(false);
  if (isPicture && !hasFailed) return html`<${Picture} file=${file} path=${path} onFailure=${() => setFailed(true)} />`;
  return html`<${Download} file=${file} path=${path}>
    <span class="size">${file.size === null || file.size === undefined ? "" : formatSize(file.size)}</span><//>`;
}

// characters that change the direction of a text would let a name look like another type of file
const DIRECTIONS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function Download({file, path, children}) {
  const name = file.name.replace(DIRECTIONS, "");
  const store = (event) => {
    event.stopPropagation();
    download(path, name).catch((error) => notify(error.message));
  };
  return html`<button class="file" onClick=${store}><${Icon} name="file" />
    <span class="name" dir="auto">${name}</span>${children}</button>`;
}

function Picture({file, path, onFailure}) {
  const [address, setAddress] = useState("");
  const dialog = useRef();
  useEffect(() => {
    let made = "";
    let isCurrent = true;
    (async () => {
      const bytes = await (await send("GET", path)).arrayBuffer();
      if (!isCurrent) return;
      // the type is one of the list above, whatever the bytes are
      made = URL.createObjectURL(new Blob([bytes], {type: file.mime}));
      setAddress(made);
    })().catch(onFailure);
    return () => {
      isCurrent = false;
      if (made) URL.revokeObjectURL(made);
    };
  }, [path]);
  const image = address && html`<img src=${address} alt=${file.name} onError=${onFailure} />`;
  return html`<button class="picture" aria-label=${t("picture.open", {name: file.name})} disabled=${!address}
      onClick=${() => dialog.current.showModal()}>${image}</button>
    <dialog class="lightbox" ref=${dialog} aria-label=${file.name} onClick=${() => dialog.current.close()}>${image}
      <${Download} file=${file} path=${path} />
    </dialog>`;
}
