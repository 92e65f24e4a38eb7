/* Files of a message: pictures inline, sound to play, all others as links that download them. */
import {download, send} from "../app/api.js";
import {html, useEffect, useRef, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {formatSize, t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {keepTrying} from "../cockpit/resource.js";

// Pixels only: an SVG can contain scripts, and is downloaded.
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const SOUNDS = [
  "audio/ogg", "audio/opus", "audio/webm", "audio/mpeg", "audio/mp4", "audio/wav", "audio/x-wav", "audio/vnd.wave",
  "audio/flac",
];
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
  if (SOUNDS.includes(typeOf(file))) return html`<${Sound} file=${file} path=${path} />`;
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

/** Return the type of a file without parameters. */
function typeOf(file) {
  return file.mime.split(";")[0].trim().toLowerCase();
}

/** A voice message or another sound; loaded when it is played first. */
function Sound({file, path}) {
  const [address, setAddress] = useState("");
  const [isLoading, setLoading] = useState(false);
  useEffect(() => () => { if (address) URL.revokeObjectURL(address); }, [address]);

  async function play() {
    setLoading(true);
    try {
      const bytes = await (await send("GET", path, {timeoutMs: 0})).arrayBuffer();
      setAddress(URL.createObjectURL(new Blob([bytes], {type: typeOf(file)})));
    } catch (error) {
      notify(error.message);
    }
    setLoading(false);
  }

  const name = t(file.kind === "voice" ? "voice.message" : "voice.sound", {name: file.name.replace(DIRECTIONS, "")});
  return html`<div class="sound">${address
    ? html`<audio controls autoplay src=${address} aria-label=${name}></audio>`
    : html`<button class="file" aria-label=${t("voice.play", {name})} disabled=${isLoading} onClick=${play}><${Icon} name="play" />
        <span class="name" dir="auto">${name}</span></button>`}
    <${Download} file=${file} path=${path}><span class="size">${formatSize(file.size ?? 0)}</span><//></div>`;
}

function Picture({file, path, onFailure}) {
  const [address, setAddress] = useState("");
  const dialog = useRef();
  useEffect(() => {
    let made = "";
    let isCurrent = true;
    (async () => {
      const bytes = await keepTrying(async () => (await send("GET", path)).arrayBuffer(), {
        isWanted: () => isCurrent,
        onFailure: (error) => { if (!error.isTemporary) onFailure(); },
      });
      if (!isCurrent || !bytes) return;
      // the type is one of the list above, whatever the bytes are
      made = URL.createObjectURL(new Blob([bytes], {type: file.mime}));
      setAddress(made);
    })();
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
