// What went wrong in the last days, also what is over: the newest first, each with the sentence of its diagnosis.
"use strict";
(() => {
  const { safe, lasted, counted, rangeText } = Format;
  const { byId, element, isLink } = Elements;
  const { state, keyed, empty, moment, groupLink } = BoardParts;
  // Rows of a page, of paper, and of one request.
  const PAGE = 25, PRINTED = 1000, MOST_READ = 50;
  let shown = null, printing = false;

  const cluster = new URLSearchParams(location.search).get("cluster"), own = cluster ? { cluster } : {};
  const offset = () => Address.number("after") || 0;
  function row(one, until_ms) {
    const made = element("tr", null, { class: one.severity }), what = element("td", null, { class: "text" }), group = element("td", null, { class: "name" }), began = element("td", null, { class: "time" });
    const at = one.until_ms === null || one.until_ms === one.since_ms ? { at: one.since_ms } : { since: one.since_ms - 60000, until: one.until_ms + 60000 };
    group.append(groupLink(one.label, one.group_id));
    began.append(groupLink(one.label, moment(one.since_ms), at));
    if (one.until_ms === null) what.append(element("span", "still going", { class: `badge ${one.severity.toLowerCase()}` }), " ");
    what.append(element("span", safe(one.text ? Format.sentence(one.parts, { since_ms: one.since_ms, until_ms: one.until_ms === null ? until_ms : one.until_ms + 1 }, state.zone) : one.name, 600)));
    if (one.do_first) {
      const step = element("div", null, { class: "quiet" });
      step.append(element("strong", "Do first: "), safe(one.do_first, 400), " ", element("code", safe(one.command || "", 400)));
      if (isLink(one.runbook)) step.append(" ", element("a", "Runbook", { href: one.runbook, rel: "noreferrer" }));
      what.append(step);
    }
    what.append(element("div", [one.name, one.cause && `cause: ${one.cause.replace(/_/g, " ")}`].filter(Boolean).join(", "), { class: "quiet" }));
    made.append(element("td", one.severity, { class: "severity" }), began, element("td", one.until_ms === null ? "–" : one.until_ms === one.since_ms ? "a moment" : lasted(one.until_ms - one.since_ms), { class: "number" }), group, what);
    return made;
  }
  const read = Live.reader(async () => {
    try {
      shown = { found: await Live.get("/api/incidents", { ...choice(), limit: PAGE, cursor: offset() || null }), first: offset() };
      if (!printing) show(shown.found, shown.first);
    } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      if (error.status === 401) { Live.askForToken(error); return; }
      empty("episodes-empty", `Not known: ${error.message}.`);
      throw error;
    }
  }, 2000);
  const choice = () => ({ ...own, search: Address.get("search"), min_severity: Address.get("severity") || "WARN" });
  // All that the filter keeps: on paper nobody can turn a page of the table.
  function print() {
    const episodes = [];
    try {
      let found = { next: null };
      do {
        found = Live.getAtOnce("/api/incidents", { ...choice(), limit: MOST_READ, cursor: found.next });
        episodes.push(...found.episodes);
      } while (found.next && episodes.length < PRINTED);
      show({ ...found, episodes }, 0);
      if (found.next) byId("episodes-count").textContent += ". The others are not on this paper: search for fewer, or take them from /api/incidents.";
    } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      byId("episodes-count").textContent += `. The others are not on this paper: ${error.message}.`;
    }
  }
  function show(found, first) {
    byId("when").textContent = rangeText(found.since_ms, found.until_ms, state.zone);
    byId("across").classList.toggle("hidden", !found.incidents.length);
    byId("incidents").replaceChildren(...found.incidents.map(one => Strips.incident(one, state.zone)));
    keyed(byId("episodes"), found.episodes, one => `${one.label} ${one.name} ${one.since_ms}`, one => row(one, found.until_ms));
    byId("episodes").closest("table").classList.toggle("hidden", !found.episodes.length);
    byId("episodes-count").textContent = found.episodes.length ? `${first + 1} to ${first + found.episodes.length} of ${found.matching}` : "";
    empty("episodes-empty", found.episodes.length ? "" : Address.get("search") ? "Nothing that matches went wrong." : "Nothing went wrong, as far as the history goes.");
    byId("previous").disabled = !first; byId("next").disabled = !found.next;
    byId("cluster-name").textContent = cluster ? `cluster ${safe(cluster, 80)}` : "";
    byId("back").href = cluster ? `/?${new URLSearchParams(own)}` : "/";
    document.title = `${counted(found.matching, "incident")} of the last days`;
    document.documentElement.dataset.ready = "true";
  }
  function restore() {
    byId("search").value = Address.get("search");
    byId("severity").value = Address.get("severity") || "WARN";
    read();
  }
  function choose(changes) { Address.set({ after: null, ...changes }); read(); }
  function begin() {
    state.cluster = cluster || ""; state.several = Boolean(cluster);
    Live.connect(own, { opened: back => { if (back) read(); }, event: ({ event }) => { if (Live.severityOf(event) !== "INFO") read(); }, reset: read });
    restore();
  }
  addEventListener("beforeprint", () => { printing = true; if (shown) print(); });
  addEventListener("afterprint", () => { printing = false; if (shown) show(shown.found, shown.first); });
  Address.listen(restore);
  Live.listen(begin);
  byId("search").addEventListener("input", () => choose({ search: byId("search").value.trim() }));
  byId("severity").addEventListener("change", () => choose({ severity: byId("severity").value === "WARN" ? null : byId("severity").value }));
  byId("next").addEventListener("click", () => shown && shown.found.next && choose({ after: shown.found.next }));
  byId("previous").addEventListener("click", () => choose({ after: offset() > PAGE ? String(offset() - PAGE) : null }));
  byId("copy-link").addEventListener("click", () => Elements.copy(Address.link()));
  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => { state.zone = each.dataset.zone; Elements.showZone(state.zone); read(); });
  setInterval(() => { if (!document.hidden) Live.showBar(state.zone); }, 1000);
  begin();
})();
