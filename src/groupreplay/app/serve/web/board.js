// The board: what holds now, all groups, and what comes next, of one cluster at a time.
"use strict";
(() => {
  const { safe, clock, lasted, counted } = Format;
  const { byId, element, arrange } = Elements;
  const { state, keyed, empty, moment, shownName } = BoardParts;
  const { age } = Knowledge;
  // Equal conditions from so many on are folded, behind the first ones.
  const FOLDED = 5, SHOWN = 3, unfolded = new Set();
  // Nothing can be opened on paper.
  let printing = false;
  // Rows on paper, groups and strips of one request.
  const PRINTED = 1000, MOST_READ = 500, MOST_STRIPS = 50;
  const PAGE = 25, EVENTS = 40, STRIP_MS = 86400000, WEEKS_MS = 15 * 86400000;
  let clusters = [], conditions = null, shownConditions = 12, page = { after: [], groups: [], found: null, query: null }, strips = new Map(), days = null, chosenDay = null, latest = [], severities = new Map();
  const facets = { state: new Set(), type: new Set(), risk: new Set() };
  const own = parameters => ({ ...(state.several ? { cluster: state.cluster } : {}), ...parameters });
  const chosen = () => clusters.find(one => one.name === state.cluster);

  // Runs a read; a refused token ends everything, other errors are shown where the data would be.
  async function tried(id, read) {
    try { await read(); } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      if (error.status === 401) { Live.askForToken(error); return; }
      if (id) empty(id, `Not known: ${error.message}.`);
      throw error;
    }
  }

  // ---- clusters and the job

  const readClusters = Live.reader(() => tried(null, async () => {
    let found;
    try { found = await Live.get("/api/clusters"); } catch (error) {
      // The stream may be open all the same: nothing else says that this page is old.
      byId("stale").textContent = `Not read: ${error.message}. Nothing here is newer than ${state.as_of === null ? "what was shown before" : moment(state.as_of)}.`;
      byId("stale").classList.remove("hidden");
      throw error;
    }
    byId("stale").classList.add("hidden");
    takeClusters(found);
  }), 2000);
  function takeClusters(found) {
    clusters = found.clusters;
    state.several = clusters.length > 1;
    if (!chosen()) state.cluster = (clusters.find(one => one.name === new URLSearchParams(location.search).get("cluster")) || clusters[0]).name;
    Live.setNow(chosen().now_ms); state.as_of = chosen().known_until_ms;
    showClusters(); showJob(); showHeadline(); BoardParts.showAges();
    byId("to-incidents").href = `/incidents${state.several ? `?${new URLSearchParams({ cluster: state.cluster })}` : ""}`;
    document.documentElement.dataset.ready = "true";
  }
  const known = Knowledge.wasRead, doubt = one => Knowledge.doubt(one, state.zone);
  function showClusters() {
    byId("clusters").classList.toggle("hidden", !state.several);
    keyed(byId("clusters"), clusters.map(one => ({ name: one.name, counts: one.conditions, groups: one.job.groups, doubt: doubt(one), chosen: one.name === state.cluster })), one => one.name, one => {
      const tone = one.doubt && one.doubt.tone === "error" || one.counts.ERROR ? "error" : one.doubt || one.counts.WARN ? "warn" : "ok";
      const made = Elements.button(null, () => choose(one.name), { class: "cluster", "aria-pressed": String(one.chosen) });
      const counts = ["ERROR", "WARN", "INFO"].filter(name => one.counts[name]).map(name => `${one.counts[name]} ${name}`).join(", ");
      made.append(element("span", null, { class: `tone ${tone}` }), element("strong", safe(one.name, 60)), element("span", [counts || "no condition", counted(one.groups, "group"), ...(one.doubt ? [one.doubt.short] : [])].join(" · "), { class: "quiet" }));
      return made;
    });
  }
  // What the reader has chosen: each control by its name in the address.
  const CHOICES = { search: "search", state: "state", type: "type", risk: "risk", sort: "sort", severity: "severity", topic: "topic-search" };
  const byDefault = { sort: "risk", severity: "INFO" };
  function remember() {
    Address.set({ ...Object.fromEntries(Object.entries(CHOICES).map(([name, id]) => [name, byId(id).value === byDefault[name] ? null : byId(id).value.trim()])), after: page.after.at(-1) });
  }
  function restore() {
    for (const [name, id] of Object.entries(CHOICES)) {
      const control = byId(id), value = Address.get(name) || byDefault[name] || "";
      // The values of a filter come with the groups: one that no group has now is kept.
      if (control.tagName === "SELECT" && ![...control.options].some(option => option.value === value)) control.append(element("option", safe(value, 60) || "all", { value }));
      control.value = value;
    }
    const after = Address.number("after");
    page.after = after === null ? [] : Array.from({ length: Math.ceil(after / PAGE) }, (_, at) => String(after - (Math.ceil(after / PAGE) - 1 - at) * PAGE));
  }
  function choose(name) {
    if (name === state.cluster) return;
    state.cluster = name; Live.setNow(chosen().now_ms); state.as_of = chosen().known_until_ms;
    history.replaceState(null, "", `/?${new URLSearchParams({ cluster: name })}${location.hash}`);
    conditions = null; page = { after: [], groups: [], found: null, query: null }; strips = new Map(); days = null; latest = []; severities = new Map();
    for (const one of Object.values(facets)) one.clear();
    Strips.deployments(byId("deployments"), []);
    begin();
  }
  function showJob() {
    const one = chosen(), job = one.job, why = doubt(one);
    // Of the job itself this server knows what it has read: up to the last answer of Kafka.
    const at = ms => ms === null ? "–" : `${moment(ms)}${one.kafka.answered_ms === null ? "" : ` (${age(one.kafka.answered_ms - ms)} before ${clock(one.kafka.answered_ms, state.zone)})`}`;
    const facts = [["state", why ? why.short : "up, caught up"], ["Kafka", answersText(one.kafka)], ["offsets topic", one.log_kafka && answersText(one.log_kafka)], ["phase", job.phase], ["caught up to", at(one.caught_up_ms)], ["heartbeat", at(job.heartbeat_ms)], ["groups", job.groups],
      ["batch", job.batch ? `${job.batch.rows} records in ${lasted(job.batch.seconds * 1000)}` : null], ["lag", job.lag_offsets === null ? null : counted(job.lag_offsets, "record")], ["started", job.started_ms === null ? null : at(job.started_ms)],
      ["restarts", job.restarts], ["release", job.version], ["host", job.host], ["prober", proberText(job.prober)], ["rules", job.rules_error],
      ["history here", one.history_error ? `in trouble: ${one.history_error}` : one.history_since_ms === null ? "no events yet" : `from ${moment(one.history_since_ms)} on, at most ${lasted(one.history_ms)}`],
      ["cluster", one.cluster_id]].filter(([, value]) => value !== null && value !== undefined && value !== "");
    keyed(byId("job-facts"), facts.flatMap(([name, value]) => [["dt", name, name], ["dd", name, safe(value, 300)]]), item => item[0] + item[1], ([kind, , text]) => element(kind, text));
    keyed(byId("job-conditions"), job.conditions, item => `${item.name} ${item.what}`, item => element("li", `${item.severity} ${item.name}: ${safe(item.what, 200)}`, { class: item.severity }));
  }
  const answersText = ({ answered_ms, error }) => error ? `no answer${answered_ms === null ? "" : ` since ${moment(answered_ms)}`}` : answered_ms === null ? "not asked yet" : `answered ${clock(answered_ms, state.zone)}`;
  function proberText(prober) {
    if (!prober) return "none: classic groups that rebalance are not asked for";
    if (typeof prober !== "object") return String(prober);
    return Object.entries(prober).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => /_ms$/.test(name) && value > 1e12 ? `${name.slice(0, -3).replace(/_/g, " ")} ${clock(value, state.zone)}` : `${name.replace(/_/g, " ")} ${value}`).join(", ");
  }

  // ---- what holds

  const readConditions = Live.reader(() => tried("conditions-empty", async () => {
    const found = await Live.get("/api/conditions", own({}));
    conditions = found.conditions;
    byId("counts").replaceChildren(...found.groups.map(one => element("li", one.text, { class: one.tone })));
    showConditions(); showHeadline();
  }), 800);
  const conditionKey = one => `${one.condition_id} ${one.group_id}`;
  function showConditions() {
    const rows = folded(conditions).slice(0, printing ? Infinity : shownConditions);
    keyed(byId("conditions"), rows, one => one.fold ? `fold ${one.fold}` : conditionKey(one), one => one.fold ? BoardParts.foldRow(one, () => { unfolded.add(one.fold); showConditions(); }) : BoardParts.conditionRow(one));
    byId("conditions").closest("table").classList.toggle("hidden", !conditions.length);
    const left = folded(conditions).length - shownConditions;
    byId("more-conditions").classList.toggle("hidden", left <= 0);
    byId("more-conditions").textContent = `Show ${Math.min(100, left)} more of ${conditions.length}`;
    empty("conditions-empty", conditions.length ? "" : doubt(chosen()) ? "No condition is known to hold." : "No condition holds.");
    announce();
  }
  // Conditions of one name and severity: more than some are one row, where the first of them would stand.
  function folded(all) {
    const kind = one => `${one.severity} ${one.name}`, sets = new Map();
    for (const one of all) sets.set(kind(one), [...(sets.get(kind(one)) || []), one]);
    const isFolded = one => !printing && sets.get(kind(one)).length > FOLDED && !unfolded.has(kind(one));
    return all.filter(one => !isFolded(one) || sets.get(kind(one)).indexOf(one) < SHOWN || sets.get(kind(one)).indexOf(one) === SHOWN)
      .map(one => isFolded(one) && sets.get(kind(one)).indexOf(one) === SHOWN ? { fold: kind(one), severity: one.severity, name: one.name, others: sets.get(kind(one)).slice(SHOWN).map(({ label, group_id, since_ms }) => ({ label: label === undefined ? group_id : label, group_id, since_ms })) } : one);
  }
  // Says a condition that is new, for readers who do not see the table.
  function announce() {
    const before = severities;
    severities = new Map(conditions.map(one => [conditionKey(one), one.severity]));
    const fresh = before.size ? conditions.filter(one => one.severity !== "INFO" && before.get(conditionKey(one)) !== one.severity) : [];
    if (fresh.length) byId("news").textContent = fresh.slice(0, 3).map(one => `${one.severity}: ${safe(one.summary || one.name, 200)}`).join(" ");
  }
  function showHeadline() {
    const one = chosen();
    if (!one || conditions === null) return;
    const why = doubt(one), groups = severity => new Set(conditions.filter(each => each.severity === severity).map(each => each.group_id)), errors = groups("ERROR"), warns = groups("WARN");
    for (const each of errors) warns.delete(each);
    const listed = set => { const names = [...set].slice(0, 3).map(shownName); return `${names.join(", ")}${set.size > 3 ? ` and ${set.size - 3} more` : ""}`; };
    const lines = [];
    if (why) lines.push([why.tone, `${why.text}${Knowledge.asOfText("What is shown of groups is", one, state.zone)}`]);
    if (errors.size) lines.push(["error", `${counted(errors.size, "group")} in an error: ${listed(errors)}`]);
    if (warns.size) lines.push(["warn", `${counted(warns.size, "group")} with a warning: ${listed(warns)}`]);
    const infos = groups("INFO");
    if (!lines.length && infos.size) lines.push(["info", `No warning in ${counted(one.job.groups, "group")}, ${infos.size} with a condition of severity INFO; caught up to ${clock(one.caught_up_ms, state.zone)}`]);
    else if (!lines.length) lines.push(["ok", `Nothing is wrong now: ${counted(one.job.groups, "group")}, no condition holds, caught up to ${clock(one.caught_up_ms, state.zone)}`]);
    else if (!errors.size && !warns.size && known(one)) lines.push(["info", `No warning holds, as far as is known, in ${counted(one.job.groups, "group")}.`]);
    byId("headline").className = `verdict ${lines[0][0]}`;
    keyed(byId("headline"), lines, line => line[0] + lines.indexOf(line), ([tone, text]) => { const made = element("p", null, { class: tone }); made.append(element("span", text)); return made; });
    document.title = `${errors.size ? `(${errors.size}) ` : ""}Consumer groups${state.several ? ` of ${safe(state.cluster, 40)}` : ""}`;
  }

  // ---- groups

  const readGroups = Live.reader(() => tried("groups-empty", async () => {
    const query = { ...choice(), limit: PAGE, cursor: page.after.at(-1) }, found = await Live.get("/api/groups", own(query));
    page = { ...page, found, query };
    if (printing) return;
    showGroups(found, query);
    readStrips();
  }), 1500);
  const choice = () => Object.fromEntries(["search", "state", "type", "risk", "sort"].map(id => [id, byId(id).value.trim()]));
  const readStrips = Live.reader(() => tried(null, async () => {
    const labels = page.groups.map(one => one.label);
    if (!labels.length) return;
    const found = await Live.get("/api/strips", stripsOf(labels, lastDay()));
    if (printing) return;
    strips = new Map();
    takeStrips(found);
    showStrips();
  }), 5000);
  const lastDay = () => Math.round(state.as_of === null ? Live.now() : state.as_of);
  const stripsOf = (labels, until) => own({ since: Math.max(0, until - STRIP_MS), until, groups: labels, limit: labels.length });
  function takeStrips(found) {
    byId("strip-axis").replaceChildren(Strips.axis(found.since_ms, found.until_ms, state.zone, 4));
    for (const one of found.strips) strips.set(one.group_id, { one, since: found.since_ms, until: found.until_ms });
  }
  // All groups that the filter keeps, with their strips: on paper nobody can turn a page of the table.
  function printGroups() {
    const query = { ...choice(), limit: MOST_READ }, groups = [];
    try {
      let found = { next: null };
      do {
        found = Live.getAtOnce("/api/groups", own({ ...query, cursor: found.next }));
        groups.push(...found.groups);
      } while (found.next && groups.length < PRINTED);
      const until = lastDay(), labels = groups.map(one => one.label);
      for (let at = 0; at < labels.length; at += MOST_STRIPS) takeStrips(Live.getAtOnce("/api/strips", stripsOf(labels.slice(at, at + MOST_STRIPS), until)));
      showGroups({ ...found, groups }, query);
      if (found.next) byId("groups-count").textContent += `. The others are not on this paper: search for fewer, or take them from /api/groups.`;
    } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      byId("groups-count").textContent += `. The others are not on this paper: ${error.message}.`;
    }
  }
  function showGroups(found, query) {
    page.groups = found.groups;
    showFacets(found.facets || {});
    byId("commits-title").textContent = found.commits_until_ms === null ? "commits" : `commits, ${clock(found.commits_since_ms, state.zone).slice(0, 5)} to ${clock(found.commits_until_ms, state.zone)}`;
    keyed(byId("group-rows"), page.groups, one => one.label, BoardParts.groupRow);
    showStrips();
    const first = Number(query.cursor || 0), filtered = query.search || query.state || query.type || query.risk;
    byId("groups-count").textContent = page.groups.length ? `${first + 1} to ${first + page.groups.length} of ${found.matching}${found.matching < found.total ? ` that match, ${found.total} in all` : ""}` : "";
    byId("previous").disabled = !page.after.length; byId("next").disabled = !found.next;
    byId("group-rows").closest("table").classList.toggle("hidden", !page.groups.length);
    empty("groups-empty", page.groups.length ? "" : filtered ? `None of ${counted(found.total, "group")} matches.` : known(chosen()) ? "The job knows no group." : `Nothing is known of groups: ${chosen().job.error}.`);
  }
  function showStrips() {
    for (const row of byId("group-rows").children) {
      const group = row.querySelector("a.group"), found = strips.get(decodeURIComponent(group.pathname.split("/")[2])), place = row.querySelector("td.wide");
      if (!found) continue;
      const known_ms = chosen().history_since_ms, form = JSON.stringify([found.one, known_ms]) + Math.floor(found.until / 60000);
      if (place.dataset.form === form) continue;
      place.dataset.form = form;
      arrange(place, [BoardParts.strip(found.one, found.since, found.until, known_ms)]);
    }
  }
  function showFacets(found) {
    const names = { state: "all", type: "all", risk: "all" };
    for (const [name, all] of Object.entries(names)) {
      const before = facets[name].size, select = byId(name);
      for (const value of Object.keys(found[name] || {})) if (value) facets[name].add(value);
      if (facets[name].size === before && select.options.length) continue;
      const value = select.value, fixed = name === "risk" ? [["any", "any condition"], ["ERROR", "errors"], ["WARN", "warnings"]] : [];
      select.replaceChildren(...[["", all], ...fixed, ...[...facets[name]].sort().map(one => [one, safe(one, 60)])].map(([one, text]) => element("option", text, { value: one })));
      select.value = value;
    }
  }

  // ---- cards

  const readExpiring = Live.reader(() => tried("days-empty", async () => {
    days = (await Live.get("/api/expiring", own({ until: Math.round((state.as_of === null ? Live.now() : state.as_of) + WEEKS_MS) }))).days;
    showDays();
  }), 20000);
  function showDays() {
    const { nodes, byDay } = BoardParts.calendar(days, chosenDay, at => { chosenDay = chosenDay === at ? null : at; showDays(); });
    byId("days").replaceChildren(...nodes);
    const found = byDay.get(chosenDay === null ? Math.min(...byDay.keys()) : chosenDay);
    keyed(byId("day-groups"), found ? [...found.groups].sort((a, b) => a.expires_ms - b.expires_ms).slice(0, 8) : [], one => one.group_id, BoardParts.expiryItem);
    empty("days-empty", byDay.size ? "" : "No offset expires in the next two weeks.");
  }
  const readTopics = Live.reader(() => tried("topics-empty", async () => {
    const search = byId("topic-search").value.trim(), found = await Live.get("/api/topics", own({ search, limit: 5 }));
    keyed(byId("topic-rows"), found.topics, one => one.topic, BoardParts.topicPart);
    const more = (found.matching || 0) - found.topics.length;
    empty("topics-empty", more > 0 ? `and ${counted(more, "topic")} more: type more of the name` : found.topics.length ? "" : search ? "No member subscribes to a topic of this name." : "No member subscribes to a topic.");
  }), 1000);
  const readCommitters = Live.reader(() => tried("committers-empty", async () => {
    const found = await Live.get("/api/committers", own({ limit: 10 })), most = Math.max(1, ...found.committers.map(one => one.commits));
    keyed(byId("committer-rows"), found.committers.map(one => ({ ...one, share: one.commits / most })), one => one.group_id, BoardParts.committerRow);
    empty("committers-empty", found.error ? `Not known: ${safe(found.error, 300)}` : found.committers.length ? `From ${clock(found.since_ms, state.zone)} to ${clock(found.until_ms, state.zone)}${found.complete ? "" : "; not all partitions were read: the other groups are missing"}.` : found.complete ? `Nobody committed from ${clock(found.since_ms, state.zone)} to ${clock(found.until_ms, state.zone)}.` : "Not known: no partition was read to its end.");
  }), 15000);

  const readDeployments = Live.reader(() => tried(null, async () => {
    const found = await Live.get("/api/deployments", own({})), [all, ...teams] = found.texts, left = found.left_out ? `; ${counted(found.left_out, "group")} had too many rebalances to be looked at` : "";
    Strips.deployments(byId("deployments"), all ? [`Last 7 days: ${all}${left}`, ...teams] : [], found.page);
  }), 30000);

  // ---- events

  const readEvents = Live.reader(() => tried("latest-empty", async () => {
    latest = (await Live.get("/api/events", own({ limit: EVENTS, min_severity: byId("severity").value }))).events;
    showEvents();
  }), 1000);
  function showEvents() {
    keyed(byId("latest"), latest, one => one.event.id, BoardParts.eventItem);
    empty("latest-empty", latest.length ? "" : "The history has no such event.");
  }
  let waiting = null;
  function took(one) {
    const severity = Live.severityOf(one.event);
    if (byId("severity").value === "INFO" || severity !== "INFO") {
      latest = [one, ...latest.filter(each => each.event.id !== one.event.id)].slice(0, EVENTS);
      if (waiting === null) waiting = setTimeout(() => { waiting = null; if (!document.hidden) showEvents(); }, 250);
    }
    if (severity !== "INFO" || (one.event.data && one.event.data.condition_id)) readConditions();
    readGroups();
  }
  function readAll() { readClusters(); readOfCluster(); }
  function readOfCluster() { readConditions(); readGroups(); readEvents(); readExpiring(); readTopics(); readCommitters(); readDeployments(); }
  let restored = false;
  async function begin() {
    if (!restored) { restored = true; restore(); }
    // The cluster must be known before anything else is read.
    try { takeClusters(await Live.get("/api/clusters")); } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      if (error.status === 401) { Live.askForToken(error); return; }
      byId("headline").className = "verdict error";
      byId("headline").replaceChildren(element("p", `Nothing is known: ${error.message}. This page tries again every few seconds.`, { class: "error" }));
      setTimeout(begin, 3000);
      return;
    }
    Live.connect(own({}), { opened: back => { if (back) readAll(); }, event: took, reset: readAll });
    readOfCluster();
  }
  function setZone(zone) {
    state.zone = zone;
    Elements.showZone(zone);
    if (chosen()) readAll();
  }

  function print(on) {
    printing = on;
    if (conditions !== null) showConditions();
    if (page.found === null) return;
    if (on) printGroups(); else showGroups(page.found, page.query);
  }
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  Live.listen(begin);
  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => setZone(each.dataset.zone));
  function filtered() { page.after = []; remember(); readGroups(); }
  Address.listen(() => { restore(); readAll(); });
  byId("copy-link").addEventListener("click", () => Elements.copy(Address.link()));
  // Places of the page are no part of what was chosen.
  for (const each of document.querySelectorAll("nav a[href^='#']")) each.addEventListener("click", event => { event.preventDefault(); document.querySelector(each.getAttribute("href")).scrollIntoView(); });
  for (const id of ["state", "type", "risk", "sort"]) byId(id).addEventListener("change", filtered);
  byId("search").addEventListener("input", filtered);
  byId("next").addEventListener("click", () => { if (page.found && page.found.next) page.after.push(page.found.next); remember(); readGroups(); });
  byId("previous").addEventListener("click", () => { page.after.pop(); remember(); readGroups(); });
  byId("severity").addEventListener("change", () => { remember(); readEvents(); });
  byId("topic-search").addEventListener("input", () => { remember(); readTopics(); });
  byId("more-conditions").addEventListener("click", () => { shownConditions += 100; showConditions(); });
  document.addEventListener("keydown", event => { if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); byId("search").focus(); } });
  setInterval(() => { if (!document.hidden) Live.showBar(state.zone); }, 1000);
  setInterval(() => { if (chosen()) { readClusters(); readConditions(); readGroups(); } }, 5000);
  setInterval(() => { if (chosen()) { readExpiring(); readTopics(); readCommitters(); readStrips(); readDeployments(); } }, 30000);
  begin();
})();
