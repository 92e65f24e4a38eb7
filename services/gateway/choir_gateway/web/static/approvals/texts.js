/* What a request asks for, how far it is, and what to look at before a decision. Pure apart from the language. */
import {findText, t} from "../app/texts.js";
import {deciderName} from "../cockpit/formats.js";

const STATE_KINDS = {
  pending: "warning", approved: "busy", applying: "busy", reverting: "busy", applied: "good",
  failed: "bad", rejected: "plain", expired: "plain", rolled_back: "plain",
};
const TYPES = ["call", "mcp_tools", "mcp_question", "config_change", "skill", "tool", "repo_change"];
const SPELLED = /<U\+([0-9A-F]{4,6})>/g;
// Scripts whose letters look like those of others: name, first and last number.
const SCRIPTS = [
  ["greek", 0x370, 0x3ff], ["cyrillic", 0x400, 0x52f], ["armenian", 0x530, 0x58f], ["cherokee", 0x13a0, 0x13ff],
  ["fullwidth", 0xff01, 0xff5e], ["mathematical", 0x1d400, 0x1d7ff],
];

/** What a character is called: one that hides or reorders words by its name, a letter by its script, else nothing. */
function characterName(number) {
  const code = parseInt(number, 16);
  const script = SCRIPTS.find(([, first, last]) => code >= first && code <= last);
  return findText(`approvals.character.${number}`)
    ?? (script ? `${String.fromCodePoint(code)} (${t(`approvals.script.${script[0]}`)})` : "");
}

/** Whether an approval has an effect of its own, which can be rolled back; a call just runs. */
export function isProposal(request) {
  return !["call", "mcp_tools", "mcp_question"].includes(request.request_type);
}

/** Whether the effect of an approval is being made or undone now. */
export function isUnderWay(request) {
  return isProposal(request) && ["approved", "applying", "reverting"].includes(request.state);
}

export function stateKind(request) {
  return STATE_KINDS[request.state] ?? "plain";
}

export function stateText(request) {
  // a question that a person closed has expired for its server, but not for lack of time
  if (request.state === "expired" && request.decided_by && request.decided_by !== "timeout") return t("approvals.state.dismissed");
  return t(`approvals.state.${request.state}`);
}

/** What kind of request it is, in a word or two. */
export function typeText(request) {
  return TYPES.includes(request.request_type) ? t(`approvals.type.${request.request_type}`) : request.request_type;
}

/** What is asked, in a sentence. */
export function questionText(request) {
  const key = TYPES.includes(request.request_type) ? request.request_type : "other";
  return t(`approvals.asks.${key}`, {agent: request.agent_id});
}

/** Who decided: the browsers of the operator are named as the page Set-up and `choirctl web sessions` name them. */
export function deciderText(request) {
  return request.decided_by === "timeout" ? t("approvals.by.timeout") : deciderName(request.decided_by ?? "");
}

/** The characters of a request that are spelled out: `{number, name, count}`, the most frequent first. */
export function spelledCharacters(request) {
  const counts = new Map();
  for (const text of [request.subject, ...request.lines.map((line) => line.text)]) {
    for (const [, number] of text.matchAll(SPELLED)) counts.set(number, (counts.get(number) ?? 0) + 1);
  }
  return [...counts].sort(([, one], [, other]) => other - one)
    .map(([number, count]) => ({number, count, name: characterName(number)}));
}

/** The parts of a line: texts, and `{number}` for a character that is spelled out. */
export function splitSpelled(text) {
  return text.split(SPELLED).map((part, at) => (at % 2 ? {number: part} : part)).filter((part) => part !== "");
}

/** What an approval allows beyond this one call. */
export function scopeText(request) {
  const what = request.destinations.length
    ? t("approvals.scope.destinations", {tool: request.subject, destinations: request.destinations.join(", ")})
    : t("approvals.scope.equal");
  return request.hosts.length ? `${what} ${t("approvals.scope.hosts", {hosts: request.hosts.join(", ")})}` : what;
}

/** What to look at before a decision: `{kind, text}`, without what concerns the characters. */
export function riskNotes(request) {
  const notes = [];
  if (!request.intact) notes.push({kind: "bad", text: t("approvals.note.changed")});
  if (request.hosts.length) notes.push({kind: "warning", text: t("approvals.note.hosts", {hosts: request.hosts.join(", ")})});
  if (request.request_type === "mcp_question") notes.push({kind: "warning", text: t("approvals.note.question")});
  if (request.request_type === "repo_change") notes.push({kind: "warning", text: t("approvals.note.repo")});
  if (request.request_type === "skill") notes.push({kind: "warning", text: t("approvals.note.skill")});
  return notes;
}
