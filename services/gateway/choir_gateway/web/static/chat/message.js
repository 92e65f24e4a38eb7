/* One message. */
import {copyText} from "../app/code-block.js";
import {html, useMemo} from "../app/html.js";
import {Icon} from "../app/icons.js";
import {Markdown} from "../app/markdown.js";
import {formatTime, language, t} from "../app/texts.js";
import {notify} from "../app/toast.js";
import {Attachments} from "./attachments.js";

// Choir's own messages and errors are plain text
const PLAIN_KINDS = ["notice", "error"];

/** `canCorrect`: a button writes a correction. `isCorrected`: a later message corrects this one. `question`: the
 *  user's message that a button sends again, for another answer than this one. */
export function Message({item, conversation, canCorrect, isCorrected, question = null}) {
  // the element of an unchanged message is not compared again, whatever else changes
  const isBusy = conversation.pressed.value.has(item.id);
  return useMemo(
    () => render(item, conversation, isBusy, {canCorrect, isCorrected, question}),
    [item, isBusy, canCorrect, isCorrected, question],
  );
}

function render(item, conversation, isBusy, revision) {
  if (item.side === "local") {
    return html`<article class="message notice"><div class="plain" dir="auto">${item.text}</div></article>`;
  }
  const isPlain = item.side === "user" || PLAIN_KINDS.includes(item.kind);
  const kind = item.side === "user" ? (item.text.startsWith("/") ? "user command" : "user") : PLAIN_KINDS.includes(item.kind) ? item.kind : "agent";
  return html`<article class=${`message ${kind}`} data-state=${item.state} data-corrected=${revision.isCorrected ? "yes" : undefined}
      aria-label=${label(item)}>
    <div class=${item.buttons.length ? "body card" : "body"}>
      ${item.text && (isPlain ? html`<div class="plain" dir="auto">${item.text}</div>` : html`<${Markdown} text=${item.text} />`)}
      <${Attachments} item=${item} conversation=${conversation} />
      ${item.buttons.length > 0 && html`<div class="buttons">${item.buttons.map((button, n) => html`<button key=${button.data}
        class=${n === 0 ? "primary" : ""} disabled=${isBusy} onClick=${() => press(item, button, conversation)}>${button.label}</button>`)}</div>`}
    </div>
    <${Footer} item=${item} conversation=${conversation} ...${revision} />
  </article>`;
}

function label(item) {
  return t(item.side === "user" ? "message.yours" : "message.agents", {time: formatTime(item.at), agent: item.sender});
}

async function press(item, button, conversation) {
  notify(await conversation.press(item, button));
}

function Footer({item, conversation, canCorrect, isCorrected, question}) {
  if (item.state === "failed") {
    return html`<footer class="failed"><span role="alert">${t("message.failed", {problem: item.problem})}</span>
      <button class="quiet" onClick=${() => conversation.retry(item)}>${t("message.retry")}</button>
      <button class="quiet" onClick=${() => conversation.discard(item)}>${t("message.discard")}</button></footer>`;
  }
  const state = item.state === "waiting" ? t("message.waiting") : "";
  return html`<footer><time datetime=${item.at} title=${new Date(item.at).toLocaleString(language.value)}>${formatTime(item.at)}</time>
    ${state && html`<span>${state}</span>`}
    ${item.edits && !isCorrected && html`<span>${t("message.correction")}</span>`}
    ${isCorrected && html`<span>${t("message.corrected")}</span>`}
    ${canCorrect && html`<button class="quiet on-hover" aria-label=${t("message.edit")} title=${t("message.edit.about")}
      onClick=${() => { conversation.editing.value = item; }}><${Icon} name="edit" /></button>`}
    ${item.side === "agent" && item.text && html`<button class="quiet on-hover" aria-label=${t("message.copy")} title=${t("message.copy")}
      onClick=${async () => { await copyText(item.text); notify(t("code.copied")); }}><${Icon} name="copy" /></button>`}
    ${question && html`<button class="quiet on-hover" aria-label=${t("message.repeat")} title=${t("message.repeat.about")}
      onClick=${() => conversation.say(question.text, question.files)}><${Icon} name="repeat" /></button>`}</footer>`;
}
