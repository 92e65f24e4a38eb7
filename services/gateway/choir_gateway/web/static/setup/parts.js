/* Parts of the set-up page: a button that asks first, a command to copy, and sentences with commands. */
import {copyText} from "../app/code-block.js";
import {html, useState} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {ActionButton, Dialog, showInvisible} from "../cockpit/kit.js";

/** A button that asks before its action; `text` says what goes along. */
export function ConfirmButton({title, text, label, action, done, children}) {
  const [isOpen, setOpen] = useState(false);
  async function run() {
    await action();
    setOpen(false);
  }
  return html`<button aria-label=${label} onClick=${() => setOpen(true)}>${children}</button>
    <${Dialog} isOpen=${isOpen} title=${title} onClose=${() => setOpen(false)}>
      <p>${text}</p>
      <div class="toolbar setup-answers"><button onClick=${() => setOpen(false)}>${t("setup.cancel")}</button>
        <${ActionButton} className="danger" action=${run} done=${done}>${children}</${ActionButton}></div>
    </${Dialog}>`;
}

/** A command to type on Choir's machine, or another text to copy. */
export function Command({text}) {
  async function copy() {
    await copyText(text);
    notify(t("code.copied"));
  }
  return html`<div class="setup-command"><code tabindex="0">${text}</code>
    <button class="quiet" aria-label=${t("setup.copy", {text})} onClick=${copy}><${Icon} name="copy" /></button></div>`;
}

/** A sentence of Choir whose commands and settings are between backquotes. */
export function Sentence({text}) {
  return text.split("`").map((part, at) => (at % 2 ? html`<code key=${at}>${showInvisible(part)}</code>` : showInvisible(part)));
}

/** Submit a form: its fields as strings, without spaces around them. */
export function readForm(event) {
  event.preventDefault();
  return Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]));
}
