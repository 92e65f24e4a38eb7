/* The pages of the application. To add one: a folder with a module that exports `Page`, and a row here.

   `roles` are those that see it; the server decides in any case what a session may do. A page's modules are
   loaded when it is opened first, except those of the chat. */
import * as chat from "../chat/page.js";

export const PAGES = [
  {name: "chat", icon: "chat", title: "page.chat", roles: null, load: async () => chat.Page},
  {name: "log", icon: "log", title: "page.log", roles: ["operator"], load: async () => (await import("../log/page.js")).Page},
  {name: "cost", icon: "cost", title: "page.cost", roles: ["operator"], load: async () => (await import("../cost/page.js")).Page},
];

export function pagesFor(role) {
  return PAGES.filter((page) => page.roles === null || page.roles.includes(role));
}
