// Renders a page as Markdown and numbers its interactive elements. Evaluated by script.py in an isolated world,
// where the page's scripts cannot replace built-in functions. The DOM elements are shared with the page, so a
// property that a page can shadow by an element's name is never read from them directly.
globalThis.choir ??= (() => {
  const getter = (type, name) => {
    const read = Object.getOwnPropertyDescriptor(type.prototype, name).get;
    return (thing) => read.call(thing);
  };
  const first = getter(Node, "firstChild");
  const next = getter(Node, "nextSibling");
  const above = getter(Node, "parentNode");
  const kindOf = getter(Node, "nodeType");
  const valueOf = getter(Node, "nodeValue");
  const connected = getter(Node, "isConnected");
  const contentOf = getter(Node, "textContent");
  const documentOf = getter(Node, "ownerDocument");
  const tagOf = getter(Element, "localName");
  const shadowOf = getter(Element, "shadowRoot");
  const rootOf = getter(Document, "documentElement");
  const viewOf = getter(Document, "defaultView");
  const attribute = (element, name) => Element.prototype.getAttribute.call(element, name);
  const has = (element, name) => Element.prototype.hasAttribute.call(element, name);
  const boxOf = (element) => Element.prototype.getBoundingClientRect.call(element);
  const holds = (one, other) => Node.prototype.contains.call(one, other);
  const findIn = (element, query) => Element.prototype.querySelector.call(element, query);
  const near = (element, query) => Element.prototype.closest.call(element, query);

  const MAX_TEXT = 2000000;
  const MAX_NODES = 200000;
  const SKIPPED = new Set(["script", "style", "noscript", "template", "head", "svg", "canvas", "object",
    "embed", "datalist"]);
  const PRESSED = new Set(["button", "link", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "option",
    "switch", "checkbox", "radio", "treeitem", "combobox"]);
  const CLUTTER = new Set(["nav", "footer", "aside"]);
  const CLUTTER_ROLES = new Set(["navigation", "contentinfo", "complementary", "banner"]);
  const SET_WHOLE = new Set(["date", "time", "datetime-local", "month", "week", "color", "range"]);
  const FORM = "a[href],button,input,select,textarea";
  const SPACED = new Set(["p", "ul", "ol", "table", "blockquote", "figure", "form", "fieldset"]);

  const numbers = new WeakMap();
  const things = new Map();
  let last = 0;

  const numberOf = (element) => {
    if (!numbers.has(element)) {
      last += 1;
      numbers.set(element, last);
      things.set(last, new WeakRef(element));
    }
    return numbers.get(element);
  };
  const thing = (number) => {
    const element = things.get(number)?.deref();
    return element && connected(element) ? element : null;
  };
  // a page's text must not look like one of our element numbers
  const tame = (text) => String(text ?? "").replace(/\[(?=\s*\d+\s*:)/g, "(");
  const squeeze = (text, most) => {
    const flat = tame(text).replace(/\s+/g, " ").trim();
    return flat.length > most ? `${flat.slice(0, most)}…` : flat;
  };
  const quoted = (text, most) => `"${squeeze(text, most).replace(/"/g, "'")}"`;
  const styleOf = (element) => getComputedStyle(element);

  const addressOf = (element) => {
    try {
      return new URL(attribute(element, "href"), documentOf(element).baseURI);
    } catch {
      return null;
    }
  };
  const shownAddress = (element) => {
    const address = addressOf(element);
    if (!address || address.protocol === "javascript:") return "";
    const own = address.origin === location.origin;
    return squeeze(own ? address.pathname + address.search + address.hash : address.href, 200);
  };

  const labelOf = (element) => {
    const named = attribute(element, "aria-label");
    if (named) return named;
    const by = attribute(element, "aria-labelledby");
    if (by) {
      const other = Document.prototype.getElementById.call(documentOf(element), by.split(/\s+/)[0]);
      if (other) return contentOf(other);
    }
    if ("input select textarea".split(" ").includes(tagOf(element)) && element.labels?.length) {
      const words = contentOf(element.labels[0]).trim();
      if (words) return words;
    }
    return attribute(element, "placeholder") || attribute(element, "title")
      || attribute(element, "name") || "";
  };
  const sayingOf = (element) => {
    const named = attribute(element, "aria-label");
    if (named) return named;
    const words = HTMLElement.prototype.isPrototypeOf(element) ? element.innerText : contentOf(element);
    if (words && words.trim()) return words;
    const picture = findIn(element, "img[alt],svg title");
    return (picture && (attribute(picture, "alt") || contentOf(picture)))
      || attribute(element, "title") || attribute(element, "value") || "";
  };
  const isOff = (element) => element.disabled === true || attribute(element, "aria-disabled") === "true";

  class Writer {
    constructor(options) {
      this.options = options;
      this.out = "";
      this.gap = 0;
      this.space = false;
      this.stuck = false;
      this.flat = 0;
      this.mute = 0;
      this.prefix = "";
      this.depth = 0;
      this.nodes = 0;
      this.leftOut = 0;
    }
    put(text, stick = false) {
      if (!text || this.out.length > MAX_TEXT) return;
      if (this.gap && this.out) this.out += "\n".repeat(this.gap) + this.prefix;
      else if (!this.out) this.out = this.prefix;
      else if (this.space && !/\s$/.test(this.out)) this.out += " ";
      this.gap = 0;
      this.space = false;
      this.stuck = stick;
      this.out += text;
    }
    line(count) {
      if (this.stuck) return;
      if (this.flat) this.space = true;
      else this.gap = Math.max(this.gap, count);
    }
    close(text) {
      this.gap = 0;
      this.space = false;
      this.stuck = false;
      this.out += text;
    }
    words(node) {
      const text = tame(valueOf(node));
      if (this.mute || !text) return;
      if (/^\s/.test(text)) this.space = true;
      const flat = text.replace(/\s+/g, " ").trim();
      this.put(flat);
      if (flat && /\s$/.test(text)) this.space = true;
    }
    children(node) {
      for (let child = first(node); child; child = next(child)) this.node(child);
    }
    node(node) {
      this.nodes += 1;
      if (this.nodes > MAX_NODES || this.out.length > MAX_TEXT) return;
      if (kindOf(node) === 3) this.words(node);
      else if (kindOf(node) === 1) this.element(node);
      else if (kindOf(node) === 11) this.children(node);
    }
    element(element) {
      const tag = tagOf(element);
      if (SKIPPED.has(tag)) return;
      const style = styleOf(element);
      if (tag === "label" && this.label(element)) return;
      if (style.display === "none" || style.visibility !== "visible") return;
      if (this.options.seen && !this.isSeen(element, style)) return;
      if (!this.options.whole && this.isClutter(element, tag)) {
        this.leftOut += 1;
        return;
      }
      const special = this[`on_${tag}`];
      if (special) special.call(this, element, style);
      else this.other(element, tag, style);
    }
    isSeen(element, style) {
      if (style.display === "contents") return true;
      const box = boxOf(element);
      if (!box.width && !box.height) return true;
      const view = viewOf(documentOf(element));
      return box.bottom > 0 && box.top < view.innerHeight;
    }
    isClutter(element, tag) {
      if (CLUTTER.has(tag) || CLUTTER_ROLES.has(attribute(element, "role"))) return true;
      return tag === "header" && !near(element, "main,article");
    }
    other(element, tag, style) {
      const editable = attribute(element, "contenteditable");
      const role = attribute(element, "role");
      if (editable !== null && editable !== "false") return this.field(element, "text area", contentOf(element));
      if (tag === "summary") return this.pressable(element, "summary");
      if (PRESSED.has(role)) return this.pressable(element, role);
      if (this.isPressable(element, style)) return this.pressable(element, "press");
      this.flow(element, tag, style);
    }
    isPressable(element, style) {
      if (findIn(element, FORM)) return false;
      if (has(element, "onclick")) return true;
      if (style.cursor !== "pointer" || !contentOf(element).trim()) return false;
      const parent = above(element);
      return !!parent && kindOf(parent) === 1 && styleOf(parent).cursor !== "pointer";
    }
    pressable(element, kind) {
      const words = sayingOf(element);
      const state = attribute(element, "aria-checked") ?? attribute(element, "aria-selected");
      const after = `${state === "true" ? ", on" : ""}${isOff(element) ? ", disabled" : ""}`;
      const block = styleOf(element).display !== "inline";
      if (words.length <= 200) {
        this.space = true;
        this.put(`[${numberOf(element)}: ${kind} ${quoted(words, 200)}${after}]`);
        this.space = true;
        return;
      }
      if (block) this.line(1);
      this.put(`[${numberOf(element)}: ${kind}${after}] `, true);
      this.inner(element);
      if (block) this.line(1);
    }
    field(element, kind, value) {
      const held = value ? `, holds ${quoted(value, 300)}` : ", empty";
      const off = isOff(element) ? ", disabled" : "";
      this.space = true;
      this.put(`[${numberOf(element)}: ${kind} ${quoted(labelOf(element), 150)}${held}${off}]`);
      this.space = true;
    }
    tick(element, input, kind, words) {
      const off = isOff(input) ? ", disabled" : "";
      this.space = true;
      this.put(`[${numberOf(element)}: ${kind} ${quoted(words, 200)}, ${input.checked ? "on" : "off"}${off}]`);
      this.space = true;
    }
    inner(element) {
      const shadow = shadowOf(element);
      this.children(shadow ?? element);
    }
    flow(element, tag, style) {
      const inline = style.display.startsWith("inline") || style.display === "contents"
        || style.display.startsWith("table-cell");
      const gap = SPACED.has(tag) ? 2 : 1;
      if (!inline) this.line(gap);
      else if (style.display.startsWith("table-cell")) this.space = true;
      this.inner(element);
      if (!inline) this.line(gap);
      else if (style.display.startsWith("table-cell")) this.space = true;
    }
    heading(element, level) {
      this.line(2);
      const at = this.out.length;
      this.put(`${"#".repeat(level)} `, true);
      this.flat += 1;
      this.inner(element);
      this.flat -= 1;
      if (this.stuck) this.out = this.out.slice(0, at);
      this.stuck = false;
      this.line(2);
    }
    // a visible control renders its own label; a hidden control is clicked by its label
    label(element) {
      const control = element.control;
      if (!control || styleOf(element).display === "none") return false;
      const type = (attribute(control, "type") || "text").toLowerCase();
      const hidden = styleOf(control).display === "none" || styleOf(control).visibility !== "visible";
      if (hidden && tagOf(control) === "input" && (type === "checkbox" || type === "radio")) {
        this.tick(element, control, type, contentOf(element));
        return true;
      }
      if (hidden || attribute(control, "aria-label")) return false;
      this.mute += 1;
      this.inner(element);
      this.mute -= 1;
      return true;
    }
    on_a(element, style) {
      if (!has(element, "href")) return this.other(element, "span", style);
      const address = shownAddress(element);
      const muted = this.mute;
      this.mute = 0;
      if (style.display !== "inline") this.line(1);
      this.put(`[${numberOf(element)}: `, true);
      this.flat += 1;
      this.inner(element);
      this.flat -= 1;
      if (this.stuck) this.put(squeeze(sayingOf(element), 100) || "link");
      this.close(address ? `](${address})` : "]");
      if (style.display !== "inline") this.line(1);
      this.mute = muted;
    }
    on_button(element) {
      this.pressable(element, "button");
    }
    on_input(element) {
      const type = (attribute(element, "type") || "text").toLowerCase();
      if (type === "hidden") return;
      if (["submit", "button", "reset", "image"].includes(type)) {
        const words = element.value || labelOf(element) || attribute(element, "alt") || type;
        this.space = true;
        this.put(`[${numberOf(element)}: button ${quoted(words, 200)}${isOff(element) ? ", disabled" : ""}]`);
        this.space = true;
        return;
      }
      if (type === "checkbox" || type === "radio") return this.tick(element, element, type, labelOf(element));
      if (type === "file") return this.put(`(a file field ${quoted(labelOf(element), 150)}: cannot be filled in)`);
      const value = type === "password" && element.value ? "•••" : element.value;
      this.field(element, type === "text" ? "field" : `${type} field`, value);
    }
    on_textarea(element) {
      this.field(element, "text area", element.value);
    }
    on_select(element) {
      const options = Array.from(element.options);
      const chosen = options.filter((option) => option.selected).map((option) => quoted(option.text, 80));
      const offered = options.slice(0, 40).map((option) => quoted(option.text, 80)).join(", ");
      const more = options.length > 40 ? `, and ${options.length - 40} more` : "";
      const off = isOff(element) ? ", disabled" : "";
      this.space = true;
      this.put(`[${numberOf(element)}: list ${quoted(labelOf(element), 150)}, chosen ${chosen.join(", ") || "none"}`
        + `; of ${offered}${more}${off}]`);
      this.space = true;
    }
    on_h1(element) { this.heading(element, 1); }
    on_h2(element) { this.heading(element, 2); }
    on_h3(element) { this.heading(element, 3); }
    on_h4(element) { this.heading(element, 4); }
    on_h5(element) { this.heading(element, 5); }
    on_h6(element) { this.heading(element, 6); }
    on_br() { this.line(1); }
    on_hr() { this.line(2); this.put("---"); this.line(2); }
    on_img(element) {
      const words = squeeze(attribute(element, "alt"), 200);
      if (words && !this.mute) this.put(`![${words}]`);
    }
    on_video(element) { this.put("(a video)"); }
    on_audio(element) { this.put("(a sound)"); }
    on_pre(element) {
      this.line(2);
      this.put(`\`\`\`\n${tame(element.innerText).trimEnd()}\n\`\`\``);
      this.line(2);
    }
    on_code(element) {
      const words = squeeze(contentOf(element), 500);
      if (words) this.put(`\`${words}\``);
    }
    on_blockquote(element) {
      this.line(2);
      const kept = this.prefix;
      this.prefix += "> ";
      this.inner(element);
      this.prefix = kept;
      this.line(2);
    }
    on_ul(element, style) { this.list(element, style); }
    on_ol(element, style) { this.list(element, style); }
    on_menu(element, style) { this.list(element, style); }
    list(element) {
      this.line(this.depth ? 1 : 2);
      this.depth += 1;
      this.inner(element);
      this.depth -= 1;
      this.line(this.depth ? 1 : 2);
    }
    on_li(element) {
      this.line(1);
      const kept = this.prefix;
      const at = this.out.length;
      this.put(`${"  ".repeat(Math.max(0, this.depth - 1))}- `, true);
      this.inner(element);
      if (this.stuck) this.out = this.out.slice(0, at);
      this.stuck = false;
      this.prefix = kept;
      this.line(1);
    }
    on_table(element, style) {
      const layout = attribute(element, "role") === "presentation" || findIn(element, "table") || this.flat;
      this.line(2);
      this.rows = layout ? null : { head: false };
      this.inner(element);
      this.rows = null;
      this.line(2);
    }
    on_tr(element) {
      this.line(1);
      if (!this.rows) {
        this.inner(element);
        return this.line(1);
      }
      const at = this.out.length;
      let cells = 0;
      let heads = 0;
      this.flat += 1;
      for (let child = first(element); child; child = next(child)) {
        if (kindOf(child) !== 1 || styleOf(child).display === "none") continue;
        this.flat -= cells ? 0 : 1;
        this.put(cells ? " | " : "| ", true);
        this.flat += cells ? 0 : 1;
        this.inner(child);
        this.stuck = false;
        this.space = false;
        cells += 1;
        heads += tagOf(child) === "th" ? 1 : 0;
      }
      this.flat -= 1;
      if (!cells) return;
      this.close(" |");
      if (heads === cells && !this.rows.head) this.out += `\n${this.prefix}|${" --- |".repeat(cells)}`;
      this.rows.head = true;
      this.line(1);
    }
    on_details(element, style) {
      if (has(element, "open")) return this.flow(element, "div", style);
      const summary = findIn(element, "summary");
      this.line(1);
      if (summary) this.element(summary);
      this.line(1);
    }
    on_slot(element) {
      const given = element.assignedNodes({ flatten: true });
      if (!given.length) return this.children(element);
      for (const node of given) this.node(node);
    }
    on_iframe(element) {
      const box = boxOf(element);
      if (box.width < 50 || box.height < 50) return;
      let inside = null;
      try {
        inside = element.contentDocument;
      } catch {
        inside = null;
      }
      this.line(2);
      if (inside && rootOf(inside)) this.node(rootOf(inside));
      else this.put(`(a frame of ${shownFrame(element)}: not shown, open it to read it)`);
      this.line(2);
    }
  }
  const shownFrame = (element) => {
    try {
      return squeeze(new URL(attribute(element, "src"), document.baseURI).href, 200);
    } catch {
      return "nothing";
    }
  };

  const written = (options) => {
    const writer = new Writer(options);
    const root = rootOf(document);
    if (root) writer.node(root);
    return writer;
  };
  const read = (options) => {
    let writer = written({ ...options, whole: true });
    const seen = writer.out.length;
    let leftOut = 0;
    if (!options.whole && !options.seen && seen > options.short) {
      const shorter = written({ ...options, whole: false });
      if (shorter.out.length > seen * options.share) {
        leftOut = shorter.leftOut;
        writer = shorter;
      }
    }
    const page = rootOf(document);
    return {
      title: squeeze(document.title, 500),
      text: writer.out,
      left_out: leftOut,
      scripted: !!(page && findIn(page, "script")),
      y: Math.round(scrollY),
      view: innerHeight,
      height: page ? page.scrollHeight : 0,
    };
  };

  // the element hit at a point, through shadow roots and frames of the same origin
  const hitAt = (element, x, y) => {
    let scope = Node.prototype.getRootNode.call(element);
    return scope.elementFromPoint ? scope.elementFromPoint(x, y) : null;
  };
  const offsetOf = (element) => {
    let x = 0;
    let y = 0;
    for (let view = viewOf(documentOf(element)); view && view !== globalThis && view.frameElement;) {
      const box = boxOf(view.frameElement);
      x += box.left + view.frameElement.clientLeft;
      y += box.top + view.frameElement.clientTop;
      view = view.parent;
    }
    return { x, y };
  };
  const point = (number) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    if (isOff(element)) return { fault: "disabled" };
    Element.prototype.scrollIntoView.call(element, { block: "center", inline: "center", behavior: "instant" });
    const boxes = Array.from(Element.prototype.getClientRects.call(element));
    const box = boxes.find((one) => one.width > 0 && one.height > 0);
    if (!box) return { fault: "unseen" };
    const x = box.left + box.width / 2;
    const y = box.top + box.height / 2;
    const hit = hitAt(element, x, y);
    const covered = hit && hit !== element && !holds(element, hit) && !holds(hit, element)
      && near(hit, "label")?.control !== element;
    const offset = offsetOf(element);
    return {
      x: x + offset.x,
      y: y + offset.y,
      by: covered ? squeeze(sayingOf(hit) || tagOf(hit), 100) || tagOf(hit) : "",
      tick: tagOf(element) === "input" && ["checkbox", "radio"].includes(element.type),
      tab: near(element, "a[href]")?.getAttribute("target") === "_blank",
    };
  };
  const press = (number) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    HTMLElement.prototype.click.call(element);
    return {};
  };
  const setValue = (element, value) => {
    const types = { input: HTMLInputElement, textarea: HTMLTextAreaElement };
    const set = Object.getOwnPropertyDescriptor(types[tagOf(element)].prototype, "value").set;
    set.call(element, value);
    element.dispatchEvent(new Event("input", { bubbles: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const focus = (number, text) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    if (isOff(element) || element.readOnly === true) return { fault: "disabled" };
    const tag = tagOf(element);
    const editable = element.isContentEditable === true;
    if (tag !== "input" && tag !== "textarea" && !editable) return { fault: "no field" };
    if (tag === "input" && ["checkbox", "radio", "submit", "button", "reset", "image", "file"].includes(element.type)) {
      return { fault: "no field" };
    }
    Element.prototype.scrollIntoView.call(element, { block: "center", behavior: "instant" });
    HTMLElement.prototype.focus.call(element);
    if (tag === "input" && SET_WHOLE.has(element.type)) {
      setValue(element, text);
      return { done: true };
    }
    if (editable) getSelection().selectAllChildren(element);
    else element.select();
    return { done: false };
  };
  const held = (number) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    if (element.type === "password") return { value: element.value ? "•••" : "" };
    return { value: squeeze(element.isContentEditable ? contentOf(element) : element.value, 300) };
  };
  const select = (number, wanted) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    if (tagOf(element) !== "select") return { fault: "no list" };
    if (isOff(element)) return { fault: "disabled" };
    if (!element.multiple && wanted.length !== 1) return { fault: "one" };
    const options = Array.from(element.options);
    const plain = (text) => text.replace(/\s+/g, " ").trim();
    const chosen = wanted.map((want) => options.find((option) => squeeze(option.text, 80).replace(/"/g, "'") === want
      || plain(option.text) === plain(want) || option.value === want));
    const missing = wanted.filter((_, place) => !chosen[place]);
    if (missing.length) return { fault: "no option", value: missing.join(", ") };
    for (const option of options) option.selected = chosen.includes(option);
    element.dispatchEvent(new Event("input", { bubbles: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
    return { value: chosen.map((option) => squeeze(option.text, 80)).join(", ") };
  };
  const link = (number) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    const anchor = near(element, "a[href]");
    return { value: anchor ? addressOf(anchor)?.href ?? "" : "" };
  };
  const box = (number) => {
    const element = thing(number);
    if (!element) return { fault: "gone" };
    Element.prototype.scrollIntoView.call(element, { block: "center", inline: "center", behavior: "instant" });
    const found = boxOf(element);
    const offset = offsetOf(element);
    if (!found.width || !found.height) return { fault: "unseen" };
    return { x: found.left + offset.x, y: found.top + offset.y, width: found.width, height: found.height };
  };
  const scroll = (to) => {
    const page = rootOf(document);
    const height = page ? page.scrollHeight : 0;
    const places = { top: 0, bottom: height, down: scrollY + innerHeight * 0.9, up: scrollY - innerHeight * 0.9 };
    scrollTo({ top: places[to], behavior: "instant" });
    return {};
  };
  return { read, point, press, focus, held, select, link, box, scroll };
})();
