/* The check of a log: its hash chain, the signatures, and the anchors. */
import {get} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {addressOf} from "../app/router.js";
import {serverText} from "../app/sentences.js";
import {t} from "../app/texts.js";
import {formatDateTime, formatNumber} from "../cockpit/formats.js";
import {ActionButton, Badge, Details} from "../cockpit/kit.js";

export function Verification({id}) {
  const [result, setResult] = useState(null);

  async function verify() {
    // the head at the time of the check has the hash to compare
    const path = `v1/sessions/${encodeURIComponent(id)}`;
    const verification = await get(`${path}/verify`);
    const session = await get(path);
    const hash = session.head_rev === verification.head_rev ? session.head_hash : await hashOf(path, verification.head_rev);
    setResult({...verification, hash, at: Date.now()});
  }

  return html`<section class="panel log-verification" data-ok=${result ? String(result.ok) : undefined}>
    <div class="log-verification-head"><h2>${t("log.verify.title")}</h2>
      <span role="status">${result && html`<${Badge} kind=${result.ok ? "good" : "bad"}>${t(result.ok ? "log.verify.ok" : "log.verify.broken")}<//>`}</span>
      <${ActionButton} action=${verify}>${t("log.verify")}<//></div>
    ${result ? html`<${Result} id=${id} result=${result} />` : html`<p class="detail">${t("log.verify.hint")}</p>`}
  </section>`;
}

async function hashOf(path, rev) {
  if (rev < 1) return "";
  const page = await get(`${path}/events?after=${rev - 1}&limit=1`);
  return page.items[0]?.hash ?? "";
}

function Result({id, result}) {
  const signed = result.signed_from === null ? t("log.verify.unsigned")
    : result.signed_from === 1 ? t("log.verify.all_signed") : t("log.verify.signed_from", {rev: formatNumber(result.signed_from)});
  return html`${!result.ok && html`<p class="problem">${result.broken_at === null ? serverText(result.reason) : html`<a
      href=${addressOf("log", id, String(result.broken_at))}>${t("log.verify.at", {rev: formatNumber(result.broken_at)})}</a>: ${serverText(result.reason)}`}</p>
    <p>${t("log.verify.advice")}</p>`}
    <${Details} items=${[
      [t("log.verify.checked"), formatDateTime(result.at)],
      [t("log.events"), formatNumber(result.events)],
      [t("log.verify.hash"), result.ok && result.hash && html`<code>${result.hash}</code>`],
      [t("log.verify.signatures"), result.ok && signed],
      [t("log.verify.anchors"), formatNumber(result.anchors)],
      [t("log.verify.erased"), result.erased_at && formatDateTime(result.erased_at)],
      [t("log.verify.erased_events"), result.erased_payloads ? formatNumber(result.erased_payloads) : ""],
      [t("log.verify.unknown_keys"), result.unknown_keys.join(", ")],
    ].map(([name, value]) => [name, value || ""])} />`;
}
