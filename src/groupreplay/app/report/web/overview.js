// All groups of a report: a row for each, the worst first, with what is wrong and because of whom, below one time axis.
"use strict";
const Overview = (() => {
  const { safe, zoneName, counted, rangeText, sentence } = Format;
  const { byId, element, button, copy } = Elements;
  // Rows of groups with the same worst thing; the others are behind a button.
  const FOLDED = 12, STEP = 500;
  const SORTS = { group: (a, b) => a.group_id < b.group_id ? -1 : 1, rebalances: (a, b) => b.rebalance_count - a.rebalance_count, moved: (a, b) => b.moved - a.moved, advice: (a, b) => (b.advice || 0) - (a.advice || 0) };
  let overview = null, places = new Map(), unfolded = new Map();

  const times = count => count > 1 ? ` ×${count}` : "", named = counts => Object.entries(counts).map(([name, count]) => `${name}${times(count)}`);
  const stripText = strip => [...(strip.losses ? [`offsets were lost${times(strip.losses)}`] : []), ...named(strip.conditions), ...named(strip.warnings), ...(strip.slow_leaders ? [`slow leader${times(strip.slow_leaders)}`] : []), counted(strip.rebalance_count, "rebalance")].join(", ");
  function row(strip) {
    const { since_ms, until_ms, bucket_ms } = overview, made = element("tr"), name = element("td", null, { class: "name" }), picture = element("td", null, { class: "wide" }), what = element("td", null, { class: "text" }), place = places.has(strip.group_id);
    name.append(element("span", null, { class: `tone ${strip.tone}`, role: "img", "aria-label": strip.tone }));
    name.append(element(place ? "a" : "span", safe(strip.group_id) || "(empty)", place ? { href: Address.fragment({ group: strip.group_id }) } : {}));
    if (strip.spans.length || strip.rebalances.length) picture.append(Strips.picture(since_ms, until_ms, strip.spans, strip.rebalances.map((count, at) => [since_ms + at * bucket_ms, bucket_ms, count]), stripText(strip)));
    const held = strip.spans.find(span => span.name === strip.still);
    if (strip.still) what.append(element("span", strip.still === strip.leading ? "still going" : `${strip.still} goes on`, { class: `badge ${held ? held.severity.toLowerCase() : strip.tone}` }), " ");
    what.append(safe(sentence(strip.parts, overview, GroupView.state.zone), 600) || stripText(strip));
    if (strip.text) what.append(element("div", stripText(strip), { class: "quiet" }));
    made.append(name, element("td", strip.group_type), element("td", strip.state === null ? "gone" : strip.state), element("td", strip.members === null ? "–" : String(strip.members), { class: "number" }), picture, what, element("td", String(strip.moved), { class: "number" }), element("td", strip.advice ? String(strip.advice) : "", { class: "number advised" }));
    return made;
  }
  const matches = (strip, text) => [strip.group_id, strip.group_type, strip.state || "", strip.text, ...Object.keys(strip.conditions), ...Object.keys(strip.warnings), ...strip.names].some(one => one.toLowerCase().includes(text));
  const keyOf = one => `${one.tone} ${one.leading}`;
  // The rows, and behind those of one kind a button for the others of it.
  function rows(strips, fold) {
    const shown = [], left = new Map();
    for (const strip of strips) {
      const key = keyOf(strip), most = fold ? unfolded.get(key) || FOLDED : unfolded.get("") || STEP, of = left.get(fold ? key : "") || { count: 0, last: null, strip };
      of.count += 1;
      if (of.count <= most) { of.last = row(strip); shown.push(of.last); }
      left.set(fold ? key : "", of);
    }
    for (const [key, of] of left) {
      const most = unfolded.get(key) || (fold ? FOLDED : STEP), more = of.count - most;
      if (more <= 0) continue;
      const line = element("tr", null, { class: "fold" }), cell = element("td", null, { colspan: 8 });
      cell.append(button(`Show ${more > STEP ? `${STEP} of ${more}` : more} more${fold ? ` like this (${of.strip.leading || "healthy"})` : ""}`, () => { unfolded.set(key, most + STEP); show(); }));
      line.append(cell);
      shown.splice(shown.indexOf(of.last) + 1, 0, line);
    }
    return shown;
  }
  function show() {
    const { zone } = GroupView.state, text = Address.get("groups").trim().toLowerCase(), sort = SORTS[Address.get("sort")];
    byId("overview").classList.remove("hidden"); byId("group").classList.add("hidden"); byId("back").classList.add("hidden");
    byId("title").textContent = "Consumer groups";
    document.title = "Consumer groups: what happened";
    byId("when").textContent = `${counted(overview.strips.length, "group")}, ${rangeText(overview.since_ms, overview.until_ms, zone)} ${zoneName(overview.since_ms, zone)}`;
    byId("counts").replaceChildren(...overview.counts.map(one => element("li", one.text, { class: one.tone })));
    if (byId("group-filter").value !== Address.get("groups")) byId("group-filter").value = Address.get("groups");
    byId("only-wrong").checked = Address.get("wrong") === "1";
    byId("strip-sort").value = sort ? Address.get("sort") : "";
    const found = overview.strips.filter(strip => (!text || matches(strip, text)) && (!byId("only-wrong").checked || strip.tone !== "ok"));
    if (sort) found.sort(sort);
    byId("strip-count").textContent = `${counted(found.length, "group")}; ${places.size} can be opened`;
    byId("strip-axis").replaceChildren(Strips.axis(overview.since_ms, overview.until_ms, zone));
    byId("strips").replaceChildren(...rows(found, !text && !sort));
    byId("incidents").replaceChildren(...overview.incidents.map(one => Strips.incident(one, zone)));
    Strips.deployments(byId("deployments"), overview.deployments);
    byId("all-remarks").replaceChildren(...overview.remarks.map(one => element("li", safe(one.text, 600))));
    GroupView.showFoot(overview.source);
  }
  function listen(data, places_of) {
    overview = data; places = places_of;
    // A column in which no group has anything says nothing.
    if (!overview.strips.some(strip => strip.advice)) {
      byId("strips").closest("table").classList.add("unadvised");
      byId("strip-sort").querySelector("[value=advice]").remove();
    }
    byId("group-filter").addEventListener("input", () => { Address.set({ groups: byId("group-filter").value }); show(); });
    byId("only-wrong").addEventListener("change", () => { Address.set({ wrong: byId("only-wrong").checked ? "1" : null }); show(); });
    byId("strip-sort").addEventListener("change", () => { Address.set({ sort: byId("strip-sort").value }); show(); });
    byId("overview-link").addEventListener("click", () => copy(Address.link()));
    addEventListener("beforeprint", () => { for (const strip of overview.strips) unfolded.set(keyOf(strip), Infinity); if (!byId("overview").classList.contains("hidden")) show(); });
    addEventListener("afterprint", () => { unfolded = new Map(); if (!byId("overview").classList.contains("hidden")) show(); });
  }

  return { show, listen };
})();
