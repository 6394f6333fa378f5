// What the reader has chosen, in the fragment of the address: a link, Back and a reload lead to the same view.
// A browser sends no fragment to a server, so the names of groups and the words of a search stay out of its logs.
"use strict";
const Address = (() => {
  // Browsers refuse more than some hundred changes of an address in half a minute.
  const PAUSE_MS = 200;
  const read = () => new URLSearchParams(location.hash.slice(1));
  let values = read(), timer = null, last = -PAUSE_MS;

  const get = name => values.get(name) || "";
  // Milliseconds or a count; null: the address has none.
  const number = name => /^\d{1,15}$/.test(get(name)) ? Number(get(name)) : null;
  function fragment(changes = {}) {
    const next = new URLSearchParams(values);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") next.delete(name); else next.set(name, value);
    }
    const text = next.toString();
    return text ? `#${text}` : "";
  }
  function write() {
    timer = null; last = performance.now();
    if (location.hash !== fragment()) history.replaceState(null, "", location.pathname + location.search + fragment());
  }
  // What is empty or null goes from the address.
  function set(changes) {
    values = new URLSearchParams(fragment(changes).slice(1));
    if (performance.now() - last > PAUSE_MS && timer === null) { write(); return; }
    if (timer === null) timer = setTimeout(write, PAUSE_MS);
  }
  // A value that must not stay in the address; null: there is none.
  function take(name) {
    const value = read().get(name);
    values.delete(name);
    if (value !== null) write();
    return value;
  }
  const link = (changes = {}) => location.href.split("#")[0] + fragment(changes);
  // `act` shows what the address says, after Back or another link to this page.
  function listen(act) {
    addEventListener("hashchange", () => {
      clearTimeout(timer);
      values = read(); timer = null;
      act();
    });
    addEventListener("pagehide", () => { if (timer !== null) write(); });
  }

  return { get, number, set, take, fragment, link, listen };
})();
