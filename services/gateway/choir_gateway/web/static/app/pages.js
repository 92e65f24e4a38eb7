/* The pages of the application. To add one: a folder with a module that exports `Page`, and a row here.

   `roles` are those that see it; the server decides in any case what a session may do. A page's modules are
   loaded when it is opened first, except those of the chat. `count` is a signal with the number of things there
   that wait for the user, and `watch` keeps it current until the function that it returns is called. */
import {pendingCount, watchRequests} from "../approvals/requests.js";
import * as chat from "../chat/page.js";

export const PAGES = [
  {name: "chat", icon: "chat", title: "page.chat", roles: null, load: async () => chat.Page},
  {name: "now", icon: "now", title: "page.now", roles: ["operator"], load: async () => (await import("../now/page.js")).Page},
  {
    name: "approvals", icon: "approvals", title: "page.approvals", roles: ["operator"], count: pendingCount, watch: watchRequests,
    load: async () => (await import("../approvals/page.js")).Page,
  },
  {name: "log", icon: "log", title: "page.log", roles: ["operator"], load: async () => (await import("../log/page.js")).Page},
  {name: "memory", icon: "memory", title: "page.memory", roles: ["operator"], load: async () => (await import("../memory/page.js")).Page},
  {name: "cost", icon: "cost", title: "page.cost", roles: ["operator"], load: async () => (await import("../cost/page.js")).Page},
  {name: "setup", icon: "setup", title: "page.setup", roles: ["operator"], load: async () => (await import("../setup/page.js")).Page},
];

export function pagesFor(role) {
  return PAGES.filter((page) => page.roles === null || page.roles.includes(role));
}
