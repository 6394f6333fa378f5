// Which setting would have helped a group, by its own history, and what its deployments cost. Hidden where nothing is said.
"use strict";
const Advice = (() => {
  const { safe, clock, day, counted, zoneName } = Format;
  const { byId, element, button, isLink } = Elements;

  // A section of the docs: a link where its address is known, else its path.
  const section = page => isLink(page) ? element("a", "source, and when not to follow it", { href: page, rel: "noreferrer" }) : element("small", safe(page, 300));
  function row(list, name, ...nodes) {
    const value = element("dd");
    value.append(...nodes);
    list.append(element("dt", name), value);
  }
  function finding(one, { doc, zone }, markEvent) {
    const made = element("li"), list = element("dl"), known = one.evidence.map(id => doc.events.find(event => event.id === id)).filter(Boolean);
    made.append(element("strong", one.kind), element("span", ` ${safe(one.text, 800)}.`));
    row(list, "set", element("code", safe(one.setting, 200)), ` ${safe(one.value, 300)}`);
    if (one.saves.length) row(list, "saves", one.saves.map(text => safe(text, 200)).join("; "));
    if (one.assumed.length) row(list, "assumed", one.assumed.map(text => safe(text, 200)).join(", "));
    if (one.events) row(list, "events", `${one.events}${known.length ? ", such as " : ""}`, ...known.map(event => button(clock(event.time_ms, zone), () => markEvent(event), { "aria-label": `Show the event ${event.name} of ${clock(event.time_ms, zone)}` })));
    row(list, "unless", section(one.page));
    made.append(list);
    return made;
  }
  function show(state, markEvent) {
    const { advice } = state.doc, box = byId("advice");
    box.classList.toggle("hidden", !advice);
    if (!advice) return;
    const { findings, left_out, deployments } = advice, at = ms => `${day(ms, state.zone)} ${clock(ms, state.zone)}`, list = element("ol"), nodes = [];
    byId("advice-title").textContent = findings.length ? `Advice: ${findings.map(one => one.kind).join(", ")}` : "What deployments cost";
    nodes.push(element("p", `By the history from ${at(advice.since_ms)} to ${at(advice.until_ms)} ${zoneName(advice.since_ms, state.zone)}, of which no record is missing.`, { class: "quiet" }));
    if (deployments) nodes.push(element("p", `${safe(deployments, 400)}.`));
    list.append(...findings.map(one => finding(one, state, markEvent)));
    if (findings.length) nodes.push(list);
    if (left_out) nodes.push(element("p", `${counted(left_out, "finding")} of less effect: not shown.`, { class: "quiet" }));
    byId("advice-parts").replaceChildren(...nodes);
  }

  return { show };
})();
