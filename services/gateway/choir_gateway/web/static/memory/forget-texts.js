/* What an erasure takes along, in sentences: pure. */
import {t} from "../app/texts.js";
import {formatDateTime, formatNumber} from "../cockpit/formats.js";
import {named} from "./labels.js";

/** Return sentences about everything that a preview says, besides its list of documents. */
export function consequences(report) {
  const {memory} = report;
  const lines = [];
  const kinds = Object.entries(memory.counts).map(([kind, count]) => `${named("kind", kind)} ${formatNumber(count)}`);
  if (memory.total) lines.push(t("memory.forget.total", {count: formatNumber(memory.total), kinds: kinds.join(", ")}));
  const hidden = memory.total - memory.documents.length;
  if (hidden > 0) lines.push(t("memory.forget.hidden", {count: formatNumber(hidden)}));
  if (report.message_count) lines.push(t("memory.forget.conversation", {count: formatNumber(report.message_count)}));
  if (memory.supported) lines.push(t("memory.forget.supported", {count: formatNumber(memory.supported)}));
  if (memory.restored) lines.push(t("memory.forget.restored", {count: formatNumber(memory.restored)}));
  if (report.logs.length) lines.push(t("memory.forget.logs", {count: formatNumber(report.logs.length)}));
  if (report.conversation !== "kept") lines.push(named("conversation", outcome(report)));
  if (report.restarts) lines.push(t("memory.forget.restarts", {agent: report.agent_id}));
  if (report.earlier_until) lines.push(t("memory.forget.earlier", {at: formatDateTime(report.earlier_until)}));
  if (report.unsearched) lines.push(t("memory.forget.unsearched"));
  return lines;
}

function outcome(report) {
  return report.conversation === "summary" && !report.summary_chars ? "no_summary" : report.conversation;
}
