// Elements of a page: made, arranged, copied. Text reaches the page by textContent only, never as HTML.
"use strict";
const Elements = (() => {
  const byId = id => document.getElementById(id);
  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined && text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
  function button(text, act, attributes = {}) {
    const made = element("button", text, { type: "button", ...attributes });
    made.addEventListener("click", act);
    return made;
  }
  // Makes these nodes the children of a parent. Nodes that stay are not moved, so the focus stays in them.
  function arrange(parent, nodes) {
    const wanted = new Set(nodes);
    for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
    let at = parent.firstChild;
    for (const node of nodes) {
      if (node === at) at = at.nextSibling;
      else parent.insertBefore(node, at);
    }
  }
  const isLink = text => typeof text === "string" && /^https?:\/\/[^\s]+$/.test(text);
  function announce(text) {
    byId("status").textContent = text;
    setTimeout(() => { byId("status").textContent = ""; }, 4000);
  }
  function copy(text) {
    const done = () => announce("copied"), area = element("textarea", text, { class: "visually-hidden" });
    if (navigator.clipboard && isSecureContext) { navigator.clipboard.writeText(text).then(done, () => announce("could not copy")); return; }
    document.body.append(area);
    area.select();
    announce(document.execCommand("copy") ? "copied" : "could not copy");
    area.remove();
  }
  // The buttons of the time zone show which one holds.
  function showZone(zone) {
    for (const each of document.querySelectorAll("[data-zone]")) each.setAttribute("aria-pressed", String(each.dataset.zone === zone));
  }

  return { byId, element, button, arrange, isLink, announce, copy, showZone };
})();
