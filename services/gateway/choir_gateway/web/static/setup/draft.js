/* The text of config.json in the editor. It survives a change of the tab, and is stored only when the user saves it. */
import {get, send} from "../app/api.js";
import {signal} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {t} from "../app/texts.js";
import {addEntry} from "./json-text.js";

/** The file as it was read: `{path, text, digest}`. */
export const file = signal(null);
/** The edited text; null without edits. */
export const draft = signal(null);

/** Read the file, unless it is being edited: what is saved must replace exactly what was edited. */
export async function readFile() {
  if (draft.value !== null) return;
  const read = await get("v1/config/file");
  // an edit that began meanwhile is one of the text that was shown
  if (draft.value === null) file.value = read;
}

export async function discardDraft() {
  draft.value = null;
  await readFile();
}

export function edit(text) {
  draft.value = text === file.value.text ? null : text;
}

/** Store the edited text. Fails if the file was changed since it was read. */
export async function saveDraft() {
  if (draft.value === null) return;
  const {text, digest} = {text: draft.value, digest: file.value.digest};
  const response = await send("PUT", "v1/config/file", {json: {text, digest}});
  file.value = await response.json();
  // what was typed meanwhile stays an edit
  if (draft.value === text) draft.value = null;
}

/** Return the document in the editor; throws with a sentence for people if it is no JSON. */
export async function readDocument() {
  await readFile();
  try {
    return JSON.parse(draft.value ?? file.value.text);
  } catch {
    throw new Error(t("setup.config.broken"));
  }
}

/** Add entries `[section, name, value]` to the text in the editor, and show it. */
export async function propose(entries) {
  await readDocument();
  let text = draft.value ?? file.value.text;
  try {
    for (const [section, name, value] of entries) text = addEntry(text, section, name, value);
  } catch (error) {
    throw new Error(error instanceof RangeError ? t("setup.config.taken", {name: error.message}) : t("setup.config.broken"));
  }
  draft.value = text;
  location.hash = addressOf("setup", "config");
}
