/* What the schema of config.json says about the setting at the cursor. */
import {get} from "../app/api.js";
import {html, useEffect, useMemo, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {pathAt} from "./json-text.js";

export function SettingHelp({text, place}) {
  const [schema, setSchema] = useState(null);
  useEffect(() => {
    get("v1/config/schema").then(setSchema).catch(() => {}); // the editor works without it
  }, []);
  const path = useMemo(() => pathAt(text, place), [text, place]);
  const setting = schema && path.length > 0 ? findSetting(schema, path) : null;
  return html`<div class="setup-help" id="setting-help">
    ${path.length > 0 && html`<code>${path.join(".")}</code> `}
    <span lang=${setting?.description ? "en" : undefined}>${setting?.description ?? t(path.length ? "setup.help.none" : "setup.help.start")}</span>
    ${setting?.default !== undefined && setting.default !== null && html` <span>${t("setup.help.default")} <code>${JSON.stringify(setting.default)}</code></span>`}
    ${setting?.names.length > 0 && html`<div>${t("setup.help.settings")} ${setting.names.map((it, at) => html`${at > 0 && ", "}<code>${it}</code>`)}</div>`}
  </div>`;
}

/** Return what the schema says at a path: `{description, default, names}`; `names` are the settings below it. */
export function findSetting(schema, path) {
  let nodes = [schema];
  for (const step of path) {
    nodes = nodes.flatMap((node) => expand(schema, node)).flatMap((node) => below(node, step));
  }
  const all = nodes.flatMap((node) => [node, ...expand(schema, node)]);
  return {
    description: all.find((it) => it.description)?.description,
    default: all.find((it) => it.default !== undefined)?.default,
    names: [...new Set(all.flatMap((it) => Object.keys(it.properties ?? {})))],
  };
}

/** The alternatives of a node, with references resolved. */
function expand(schema, node) {
  const inner = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])];
  if (node.$ref) inner.push(schema.$defs[node.$ref.split("/").at(-1)]);
  return [node, ...inner.filter(Boolean).flatMap((it) => expand(schema, it))];
}

function below(node, step) {
  if (typeof step === "number") return [node.items ?? node.prefixItems?.[step]].filter(Boolean);
  if (Object.hasOwn(node.properties ?? {}, step)) return [node.properties[step]];
  const patterns = Object.entries(node.patternProperties ?? {}).filter(([pattern]) => new RegExp(pattern).test(step));
  const others = typeof node.additionalProperties === "object" ? [node.additionalProperties] : [];
  return [...patterns.map(([, value]) => value), ...others];
}
