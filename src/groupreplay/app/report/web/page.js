// The page of a report: draws the document of its data island, or the overview of all groups and the ones in full.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const overview = data.strips ? data : null, documents = overview ? overview.timelines : [data];
  const { safe, zoneName, counted, rangeText } = Format;
  const { byId, element } = Elements;
  let stripRows = 100;

  const times = count => count > 1 ? ` ×${count}` : "", named = counts => Object.entries(counts).map(([name, count]) => `${name}${times(count)}`);
  const stripText = strip => [...(strip.losses ? [`offsets were lost${times(strip.losses)}`] : []), ...named(strip.conditions), ...named(strip.warnings), ...(strip.slow_leaders ? [`slow leader${times(strip.slow_leaders)}`] : []), counted(strip.rebalance_count, "rebalance")].join(", ");
  function stripPicture(strip) {
    const width = overview.bucket_ms, rebalances = strip.rebalances.map((count, at) => [overview.since_ms + at * width, width, count]);
    return Strips.picture(overview.since_ms, overview.until_ms, strip.spans, rebalances, stripText(strip));
  }
  function stripRow(strip, place) {
    const row = element("tr"), name = element("td", null, { class: "name" }), picture = element("td", null, { class: "wide" });
    name.append(element("span", null, { class: `tone ${strip.tone}`, role: "img", "aria-label": strip.tone }));
    name.append(element(place === undefined ? "span" : "a", safe(strip.group_id) || "(empty)", place === undefined ? {} : { href: `#g${place}` }));
    if (strip.in_full) picture.append(stripPicture(strip));
    row.append(name, element("td", strip.group_type), picture, element("td", stripText(strip), { class: "text" }), element("td", String(strip.moved)));
    return row;
  }
  const toneOf = severity => severity.toLowerCase();
  function incidentRow({ severity, incident }) {
    const row = element("li"), open = incident.until_ms === null ? "; it still lasts" : "";
    row.append(element("span", null, { class: `tone ${toneOf(severity)}`, role: "img", "aria-label": severity }), element("span", `${safe(incident.text, 600)}${open}. `));
    row.append(element("span", `Do first: ${safe(incident.first, 600)} `), element("code", safe(incident.command, 300)));
    return row;
  }
  function showOverview() {
    const { zone } = GroupView.state;
    byId("overview").classList.remove("hidden"); byId("group").classList.add("hidden");
    byId("title").textContent = "Consumer groups";
    document.title = "Consumer groups: what happened";
    byId("when").textContent = `${counted(overview.strips.length, "group")}, ${rangeText(overview.since_ms, overview.until_ms, zone)} ${zoneName(overview.since_ms, zone)}; the worst ones first`;
    const text = byId("group-filter").value.trim().toLowerCase(), full = new Map(documents.map((one, index) => [one.group_id, index]));
    const found = overview.strips.filter(strip => strip.group_id.toLowerCase().includes(text) && (!byId("only-wrong").checked || strip.tone !== "ok"));
    byId("strip-count").textContent = `${counted(found.length, "group")}; ${documents.length} can be opened`;
    byId("strips").replaceChildren(...found.slice(0, stripRows).map(strip => stripRow(strip, full.get(strip.group_id))));
    byId("more-strips").classList.toggle("hidden", found.length <= stripRows);
    byId("incidents").replaceChildren(...overview.incidents.map(incidentRow));
    byId("all-remarks").replaceChildren(...overview.remarks.map(one => element("li", safe(one.text, 600))));
    GroupView.showFoot(overview.source);
  }
  function open(index) {
    if (!documents[index]) return;
    byId("group").classList.remove("hidden"); byId("overview").classList.add("hidden");
    byId("back").classList.toggle("hidden", !overview);
    GroupView.open(documents[index]);
    scrollTo(0, 0);
  }
  function route() {
    const found = /^#g(\d+)$/.exec(location.hash);
    if (!overview) open(0);
    else if (found && documents[Number(found[1])]) open(Number(found[1]));
    else showOverview();
  }
  function setZone(zone) {
    GroupView.setZone(zone);
    if (overview && byId("group").classList.contains("hidden")) showOverview();
  }

  GroupView.listen();
  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => setZone(each.dataset.zone));
  byId("group-filter").addEventListener("input", showOverview);
  byId("only-wrong").addEventListener("change", showOverview);
  byId("more-strips").addEventListener("click", () => { stripRows += 500; showOverview(); });
  addEventListener("hashchange", route);
  route();
  document.documentElement.dataset.ready = "true";
})();
