/* Addresses of an agent's memory: of the routes and of this page. */
import {addressOf} from "../app/router.js";

/** The path of a route below `/v1/agents/AGENT`. */
export function agentPath(agent, ...parts) {
  return ["v1", "agents", agent, ...parts].map(encodeURIComponent).join("/");
}

/** A path with its parameters; those without a value are left out, and lists are repeated. */
export function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null && one !== "" && one !== false) query.append(name, String(one));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export function documentAddress(agent, id) {
  return addressOf("memory", agent, "document", id);
}

export function logAddress(session) {
  return addressOf("log", session);
}
