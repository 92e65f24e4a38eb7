/* The text of config.json in the editor. It survives a change of the tab and a reload of the page, and is stored at
   the server only when the user saves it. */
import {get, send} from "../app/api.js";
import {computed, signal} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {recallInTab, rememberInTab} from "../app/settings.js";
import {t} from "../app/texts.js";
import {addEntry} from "./json-text.js";

const KEPT = "config-draft";

/** The file as it was read: `{path, text, digest}`. */
export const file = signal(null);
/** The edited text; null without edits. */
export const draft = signal(null);
/** The digest of the text that was edited, which is what a save replaces. */
const base = signal(null);
/** Whether the file was changed by somebody else since the edit began. */
export const isOutdated = computed(() => draft.value !== null && base.value !== file.value?.digest);

/** Set the edited text, and keep it for a reload: in this tab only, until the user signs out. */
function setDraft(text) {
  if (text !== null && draft.value === null) base.value = file.value.digest;
  draft.value = text;
  rememberInTab(KEPT, text === null ? null : {text, digest: base.value});
}

/** Read the file, unless it is being edited: what is saved must replace exactly what was edited. */
export async function readFile() {
  if (draft.value !== null) return;
  const read = await get("v1/config/file");
  // an edit that began meanwhile is one of the text that was shown
  if (draft.value !== null) return;
  file.value = read;
  const kept = recallInTab(KEPT, null);
  if (kept && kept.text !== read.text) [base.value, draft.value] = [kept.digest, kept.text];
}

export async function discardDraft() {
  setDraft(null);
  await readFile();
}

export function edit(text) {
  setDraft(text === file.value.text ? null : text);
}

/** Store the edited text. Fails if the file was changed since the edit began. */
export async function saveDraft() {
  if (draft.value === null) return;
  const {text, digest} = {text: draft.value, digest: base.value};
  const response = await send("PUT", "v1/config/file", {json: {text, digest}});
  file.value = await response.json();
  base.value = file.value.digest;
  // what was typed meanwhile stays an edit
  setDraft(draft.value === text ? null : draft.value);
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
  setDraft(text);
  location.hash = addressOf("setup", "config");
}
