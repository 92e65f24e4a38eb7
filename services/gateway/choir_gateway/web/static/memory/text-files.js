/* Files as texts: only UTF-8 is taken, because a wrong guess would be remembered. */
import {formatNumber} from "../cockpit/formats.js";
import {t} from "../app/texts.js";

const MAX_CHARACTERS = 200_000;
const MAX_BYTES = 4 * MAX_CHARACTERS;

/** Return the text of a file; throws an error that says why it cannot be added. */
export async function readTextFile(file) {
  if (file.size > MAX_BYTES) throw new Error(t("memory.upload.long", {max: formatNumber(MAX_CHARACTERS)}));
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch {
    throw new Error(t("memory.upload.binary"));
  }
  text = text.replaceAll("\0", "");
  if (!text) throw new Error(t("memory.upload.empty"));
  // the limit counts characters, not halves of them
  if ([...text].length > MAX_CHARACTERS) throw new Error(t("memory.upload.long", {max: formatNumber(MAX_CHARACTERS)}));
  return text;
}
