/* The decision on a request, bound to the digest that was shown, and the rollback of an applied one. */
import {post} from "../app/api.js";
import {html, useState} from "../app/html.js";
import {t} from "../app/texts.js";
import {ActionButton, Dialog} from "../cockpit/kit.js";
import {Spelled} from "./change.js";
import {formFields, QuestionForm, typedValues} from "./form.js";
import {riskNotes, scopeText, spelledCharacters} from "./texts.js";

const DEFAULT_DAYS = 30;
const MAX_DAYS = 3650;

export function DecisionBar({request, reload}) {
  const [scope, setScope] = useState("once");
  const [days, setDays] = useState(DEFAULT_DAYS);
  const [hasLooked, setLooked] = useState(false);
  const [values, setValues] = useState({});
  const fields = formFields(request);
  const isIncomplete = fields.some((field) => field.isRequired && !values[field.name]);
  const needsLook = riskNotes(request).length > 0 || spelledCharacters(request).length > 0;

  async function decide(verdict, more = {}) {
    // control refuses the decision if the request has another digest by now
    const decision = {digest: request.digest, ...more};
    if (verdict === "approve" && fields.length > 0) decision.values = typedValues(values);
    if (verdict === "approve") Object.assign(decision, {scope}, scope === "always" ? {days} : {});
    try {
      await post(`v1/approvals/${encodeURIComponent(request.approval_id)}/${verdict}`, decision);
    } finally {
      await reload();
    }
  }

  return html`<div class="decision" role="group" aria-label=${t("approvals.decision")}>
    ${needsLook && html`<label class="look"><input type="checkbox" checked=${hasLooked} onChange=${(event) => setLooked(event.target.checked)} />
      ${t("approvals.looked")}</label>`}
    ${request.scopes.length > 1 && html`<label class="toolbar">${t("approvals.scope")}
      <select value=${scope} onChange=${(event) => setScope(event.target.value)}>
        ${request.scopes.map((it) => html`<option key=${it} value=${it}>${t(`approvals.scope.${it}`)}</option>`)}</select></label>`}
    ${scope !== "once" && html`<p class="decision-scope"><${Spelled} text=${scopeText(request)} /></p>`}
    ${scope === "always" && html`<label class="toolbar">${t("approvals.days")}
      <input type="number" min="1" max=${MAX_DAYS} value=${days} onInput=${(event) => setDays(Number(event.target.value))} /></label>`}
    ${fields.length > 0 && html`<${QuestionForm} fields=${fields} values=${values} onChange=${setValues} />`}
    <div class="decision-buttons">
      ${request.request_type === "mcp_question" && html`<${ActionButton} action=${() => decide("reject", {dismiss: true})}
        done=${t("approvals.dismissed")}>${t("approvals.dismiss")}</${ActionButton}>`}
      <${ActionButton} action=${() => decide("reject")} done=${t("approvals.rejected")}>${t("approvals.reject")}</${ActionButton}>
      <${ActionButton} className="primary" action=${() => decide("approve")} done=${t("approvals.approved")}
        disabled=${!request.intact || isIncomplete || (needsLook && !hasLooked)}>${t("approvals.approve")}</${ActionButton}>
    </div>
  </div>`;
}

export function RollbackBar({request, reload}) {
  const [isOpen, setOpen] = useState(false);

  async function rollBack() {
    try {
      await post(`v1/approvals/${encodeURIComponent(request.approval_id)}/rollback`);
    } finally {
      setOpen(false);
      await reload();
    }
  }

  return html`<div class="decision" role="group" aria-label=${t("approvals.rollback")}>
    <p>${t("approvals.rollback.hint")}</p>
    <div class="decision-buttons"><button class="danger" onClick=${() => setOpen(true)}>${t("approvals.rollback")}</button></div>
    <${Dialog} isOpen=${isOpen} title=${t("approvals.rollback.title")} onClose=${() => setOpen(false)}>
      <p>${t(`approvals.rollback.what.${request.request_type === "config_change" ? "config" : "repo"}`)}</p>
      <p class="detail">${t("approvals.rollback.refused")}</p>
      <div class="toolbar"><${ActionButton} className="danger" action=${rollBack} done=${t("approvals.rollback.begun")}>${
        t("approvals.rollback")}</${ActionButton}>
        <button onClick=${() => setOpen(false)}>${t("approvals.cancel")}</button></div>
    </${Dialog}>
  </div>`;
}
