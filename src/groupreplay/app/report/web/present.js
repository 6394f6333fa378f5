// Who is in the group at the end of what is known, and each partition with its offset and its owner.
"use strict";
const Present = (() => {
  const { safe, day, clock, moment, counted } = Format;
  const { byId, element, button } = Elements;
  const ROWS = 100;
  let all = false;

  function show({ doc, zone, printing }) {
    const { present } = doc, box = byId("present");
    box.classList.toggle("hidden", !present);
    if (!present) return;
    const { members, partitions } = present, most = all || printing ? Infinity : ROWS, at = ms => ms === null ? "" : moment(ms, present.at_ms, present.at_ms, zone);
    const total = `${counted(members.length, "member")}, ${counted(partitions.length, "partition")} at ${day(present.at_ms, zone)} ${clock(present.at_ms, zone)}${present.left_out ? `; ${present.left_out} more rows are left out` : ""}`;
    byId("present-title").textContent = total;
    const nodes = [table("Members", ["member", "client id", "host", "since", "partitions"], members.slice(0, most).map(one => [one.name, one.client_id, one.client_host, `${one.is_bound ? "before " : ""}${at(one.since_ms)}`, one.partitions || "none"])),
      table("Partitions", ["partition", "offset", "last commit", "owner"], partitions.slice(0, most).map(one => [`${one.topic}-${one.partition}`, one.offset === null ? "not known" : String(one.offset), at(one.committed_ms), one.owner === null ? "nobody" : one.owner]))];
    if (Math.max(members.length, partitions.length) > most) nodes.push(button("Show all rows", () => { all = true; show({ doc, zone, printing }); }, { class: "no-print" }));
    byId("present-tables").replaceChildren(...nodes);
  }
  function table(name, heads, rows) {
    const made = element("table"), head = element("tr"), body = element("tbody"), top = element("thead"), holder = element("div", null, { class: "scroll", role: "region", tabindex: "0", "aria-label": name });
    head.append(...heads.map(text => element("th", text, { scope: "col" })));
    for (const cells of rows) {
      const row = element("tr");
      row.append(...cells.map(text => element("td", safe(text, 600))));
      body.append(row);
    }
    top.append(head);
    made.append(element("caption", name, { class: "visually-hidden" }), top, body);
    holder.append(made);
    return holder;
  }

  return { show };
})();
