/* Texts of the guides, so that they can be read in the page. Pure. */
import {addressOf} from "../app/router.js";

export const GUIDES = [
  "web", "conversations", "people", "agents", "telegram", "discord", "slack", "matrix", "email", "whatsapp", "signal",
  "webhook", "hooks", "jobs", "harnesses", "schedules", "memory", "providers", "local-models", "voice", "console",
  "openai", "python-client", "mcp", "mcp-server", "skills", "tools", "import", "install", "administration", "backup",
  "upgrade", "docker", "kubernetes", "config", "memory-abilities", "performance",
];
const PICTURE = /!\[[^\]]*\]\([^)\s]+\)/g;
const LINK = /\[([^\]]*)\]\(([^)\s]+)\)/g;

/** Return a guide without pictures; its links lead to guides of this page, or to addresses outside, or are texts. */
export function prepareGuide(text, page) {
  return text.replace(PICTURE, "").replace(LINK, (whole, words, target) => {
    if (/^https?:/.test(target)) return whole;
    const name = target.split("#")[0].replace(/\.md$/, "");
    return GUIDES.includes(name) ? `[${words}](${page}${addressOf("setup", "guides", name)})` : words;
  });
}
