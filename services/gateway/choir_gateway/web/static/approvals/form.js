/* The values that a question of an MCP server asks for, by their names; what they mean is in the lines above. */
import {html} from "../app/html.js";
import {t} from "../app/texts.js";

/** The fields of a question with a form: `{name, options, isRequired}`; none of any other request. */
export function formFields(request) {
  const form = request.request_type === "mcp_question" ? request.payload.form : null;
  const required = form?.required ?? [];
  return Object.entries(form?.properties ?? {}).map(([name, field]) => ({
    name, options: field.type === "array" ? [] : optionsOf(field), isRequired: required.includes(name) && field.default === undefined,
  }));
}

/** The values that were typed; the server's defaults stand for the others. */
export function typedValues(values) {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
}

export function QuestionForm({fields, values, onChange}) {
  return html`<fieldset class="question-form"><legend>${t("approvals.values")}</legend>
    ${fields.map((field) => html`<label key=${field.name} class="toolbar"><code>${field.name}</code>
      <${Input} field=${field} value=${values[field.name] ?? ""} onInput=${(event) => onChange({...values, [field.name]: event.target.value})} />
    </label>`)}</fieldset>`;
}

function Input({field, value, onInput}) {
  if (field.options.length === 0) return html`<input type="text" autocomplete="off" value=${value} required=${field.isRequired} onInput=${onInput} />`;
  return html`<select value=${value} onChange=${onInput}><option value=""></option>
    ${field.options.map((it) => html`<option key=${it} value=${it}>${it}</option>`)}</select>`;
}

function optionsOf(field) {
  if (field.type === "boolean") return ["true", "false"];
  return (field.enum ?? field.oneOf ?? field.anyOf ?? []).map((it) => (typeof it === "object" ? it.const : it));
}
