// A group's time as a strip: rebalances below; above them what was wrong, by its severity. Incidents of many groups.
"use strict";
const Strips = (() => {
  const SVG = "http://www.w3.org/2000/svg", HEIGHT = 22;
  const COLOURS = { ERROR: "--bad", WARN: "--warn", INFO: "--info" };

  // `spans` are { severity, since_ms, until_ms }; `rebalances` are [since_ms, width_ms, count]. Nothing is known before `known`.
  function picture(since, until, spans, rebalances, label, known = null) {
    const drawn = document.createElementNS(SVG, "svg"), span = Math.max(until - since, 1);
    const put = (x, y, w, h, colour, opacity) => {
      const rect = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ x, y, width: w, height: h, opacity })) rect.setAttribute(key, value);
      rect.style.fill = `var(${colour})`;
      drawn.append(rect);
    };
    for (const [key, value] of Object.entries({ viewBox: `0 0 1000 ${HEIGHT}`, preserveAspectRatio: "none", class: "strip", role: "img", "aria-label": label })) drawn.setAttribute(key, value);
    const unknown = known === null ? 0 : 1000 * (Math.min(known, until) - since) / span;
    if (unknown > 0) put(0, 0, unknown, HEIGHT, "--line", 0.7);
    const most = rebalances.reduce((all, [, , count]) => Math.max(all, count), 4);
    for (const [at, width, count] of rebalances) {
      if (!count) continue;
      const h = 5 + 9 * count / most;
      put(1000 * (at - since) / span, HEIGHT - 1 - h, Math.max(1000 * width / span - 1, 2), h, "--muted", 0.75);
    }
    // A moment is taller than a time, so that it is seen beside one.
    for (const one of spans) {
      const width = 1000 * (one.until_ms - one.since_ms) / span;
      put(1000 * (one.since_ms - since) / span, width ? 1 : 0, Math.max(width, 5), width ? 6 : 11, COLOURS[one.severity], 0.9);
    }
    return drawn;
  }

  // The time axis above strips: at most some moments, at full minutes, hours or days.
  function axis(since, until, zone, most = 8) {
    const STEPS = [1, 5, 15, 30, 60, 180, 360, 720, 1440, 2880, 10080, 43200, 525600].map(minutes => minutes * 60000);
    const span = Math.max(until - since, 1), step = STEPS.find(one => span / one <= most) || span, made = Elements.element("span", null, { class: "axis", "aria-hidden": "true" });
    const offset = zone === "local" ? new Date(since).getTimezoneOffset() * 60000 : 0;
    for (let at = Math.ceil((since - offset) / step) * step + offset; at < until; at += step) {
      // A label needs more of a narrow axis, and would stand in the next column.
      if ((at - since) / span > 1 - 0.6 / most) break;
      const label = Elements.element("span", step < 86400000 ? Format.clock(at, zone).slice(0, 5) : Format.day(at, zone).slice(5));
      label.style.left = `${100 * (at - since) / span}%`;
      made.append(label);
    }
    return made;
  }

  // What began in many groups at once, as an item of a list.
  function incident({ severity, incident: { text, since_ms, until_ms, first, command, runbook } }, zone) {
    const item = Elements.element("li"), tone = severity.toLowerCase(), step = Elements.element("div", null, { class: "quiet" });
    item.append(Elements.element("span", null, { class: `tone ${tone}`, role: "img", "aria-label": severity }));
    if (until_ms === null) item.append(Elements.element("span", "still going", { class: `badge ${tone}` }), " ");
    step.append(Elements.element("strong", "Do first: "), Format.safe(first, 600), " ", Elements.element("code", Format.safe(command, 300)));
    if (Elements.isLink(runbook)) step.append(" ", Elements.element("a", "Runbook", { href: runbook, rel: "noreferrer" }));
    const time = Elements.element("div", `${until_ms === null ? `since ${Format.day(since_ms, zone)} ${Format.clock(since_ms, zone)}` : `${Format.rangeText(since_ms, until_ms, zone)} (${Format.lasted(until_ms - since_ms)})`} ${Format.zoneName(since_ms, zone)}`, { class: "quiet" });
    item.append(Format.safe(text, 600), time, step);
    return item;
  }

  // What rolling restarts cost: of all groups, and behind it that of each team. Nothing where there were none.
  function deployments(box, [all, ...teams], page) {
    const { element, isLink } = Elements, more = element("ul"), isOpen = Boolean(box.querySelector("details[open]"));
    box.replaceChildren();
    if (!all) return;
    const said = element(teams.length ? "summary" : "p", `${Format.safe(all, 600)}.`), whole = element(teams.length ? "details" : "div");
    whole.append(said);
    if (teams.length) { more.append(...teams.map(text => element("li", Format.safe(text, 400)))); whole.append(more); whole.open = isOpen; }
    if (isLink(page)) said.append(" ", element("a", "How they are counted", { href: page, rel: "noreferrer" }));
    box.append(whole);
  }

  return { picture, axis, incident, deployments };
})();
