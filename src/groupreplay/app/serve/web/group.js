// The page of one group while things happen: its timeline is read again after each event, and its axis follows the time.
"use strict";
(() => {
  const { safe, clock, counted } = Format;
  const { byId, element } = Elements;
  const label = decodeURIComponent(location.pathname.slice("/groups/".length)), asked = new URLSearchParams(location.search);
  const own = asked.get("cluster") ? { cluster: asked.get("cluster") } : {};
  // A document is read again every few seconds: an older one says that something is wrong.
  const LENGTH_MS = 3600000, AROUND_MS = 1800000, SHORTEST_MS = 60000, TICK_MS = 1000, OLD_MS = 20000;
  const at = asked.has("at") ? Number(asked.get("at")) : null, since = asked.has("since") ? Number(asked.get("since")) : null, until = asked.has("until") ? Number(asked.get("until")) : null;
  // A page that follows from a moment on, until a length is chosen.
  let from_moment = since !== null && until === null;
  let following = at === null && until === null, length_ms = Address.number("length") || LENGTH_MS, span = null, group, cluster = null, opened = false, streaming = false, added = new Map(), marked = false;
  // The span of a page that does not follow; a page that follows has its end at this moment.
  if (at !== null) span = [at - AROUND_MS, at + AROUND_MS];
  else if (since !== null && until !== null) span = [since, until];
  // The reader's own zoom, with as much around it.
  function zoomed() {
    const from = Address.number("since"), to = Address.number("until");
    if (from === null || to === null || to <= from) return false;
    following = false; from_moment = false;
    span = [from - (to - from), to + (to - from)];
    return true;
  }
  zoomed();
  const path = `/api/groups/${encodeURIComponent(label)}`;
  const { state } = GroupView;

  function bounds() {
    const now = Math.round(Live.now());
    if (span) return [span[0], Math.min(span[1], now)];
    return [from_moment ? since : now - length_ms, now];
  }
  async function tried(read) {
    try { await read(); } catch (error) {
      if (!(error instanceof Live.Failure)) throw error;
      if (error.status === 401) { Live.askForToken(error); return; }
      byId("reading").textContent = error.status === 404 ? "" : `Not read: ${error.message}.`;
      if (!opened) nothing(error.status === 404 ? `There is no group ${safe(label, 200)} in the job's topics and in the log of this cluster now.` : `Nothing is known of this group: ${error.message}.`);
      throw error;
    }
  }
  function nothing(text) {
    byId("title").textContent = safe(label) || "(empty group id)";
    byId("group-empty").textContent = text;
    document.documentElement.dataset.ready = "true";
  }

  // ---- reading

  const readDocument = Live.reader(() => tried(async () => {
    // The time to ask for is that of the server's clock.
    if (!cluster) await clusterKnown();
    const [from, to] = bounds(), fixed = span && span[1] <= to;
    const doc = await Live.get(`${path}/timeline`, { ...own, since: Math.max(0, Math.round(from)), until: fixed ? Math.round(to) : null });
    await pictureKnown;
    byId("reading").textContent = "";
    take(doc);
  }), 1500);
  const readGroup = Live.reader(() => tried(async () => {
    try { group = (await Live.get(path, own)).group; } catch (error) {
      if (!(error instanceof Live.Failure) || error.status !== 404 || !opened) throw error;
      group = null;
    }
    showNow();
  }), 1000);
  // The library of the picture is the last script of the page.
  const pictureKnown = new Promise(done => document.readyState === "loading" ? addEventListener("DOMContentLoaded", done) : done());
  // Two that need it at once ask once.
  let asking = null;
  const clusterKnown = () => asking ||= askClusters().finally(() => { asking = null; });
  async function askClusters() {
    const found = await Live.get("/api/clusters");
    cluster = found.clusters.find(one => one.name === own.cluster) || found.clusters[0];
    Live.setNow(cluster.now_ms);
    byId("cluster-name").textContent = `cluster ${safe(cluster.name, 80)}`;
    byId("back").href = own.cluster ? `/?${new URLSearchParams(own)}` : "/";
    showState(); showNow();
  }
  const readClusters = Live.reader(() => tried(clusterKnown), 2000);

  function take(doc) {
    // Events that came by the stream and that the document does not have yet.
    const known = new Set(doc.events.map(event => event.id));
    for (const id of [...added.keys()]) if (known.has(id) || added.get(id).time_ms < doc.since_ms) added.delete(id);
    const merged = { ...doc, events: joined(doc.events) };
    byId("group-empty").textContent = "";
    byId("group").classList.remove("hidden");
    if (!opened) {
      opened = true;
      state.end_ms = following ? Live.now() : null;
      GroupView.open(merged);
      if (following) GroupView.frame(Live.now() - length(), Live.now());
      if (at !== null && !marked) { marked = true; markNearest(); }
    } else {
      GroupView.update(merged);
      if (following) move();
    }
    showState(); showNow();
    document.documentElement.dataset.ready = "true";
  }
  const joined = events => [...events, ...added.values()].sort((a, b) => a.time_ms - b.time_ms);
  // The axis begins with what is known, if that is later than the length that was chosen; a moment that was asked for stays.
  function length() {
    const now = Live.now(), first = state.doc && state.doc.known_since_ms;
    if (from_moment && !span) return now - since;
    return first ? Math.min(length_ms, Math.max((now - first) * 1.05, SHORTEST_MS)) : length_ms;
  }
  function markNearest() {
    const found = state.doc.events.reduce((best, event) => best && Math.abs(best.time_ms - at) <= Math.abs(event.time_ms - at) ? best : event, null);
    if (found) { state.marked = found.id; GroupView.frame(at - AROUND_MS / 3, at + AROUND_MS / 3); }
  }
  // An event of the stream as a row of the table, at once; the picture follows with the next document.
  function took({ event, text }) {
    const cause = event.data && event.data.cause || {};
    const one = { id: event.id, time_ms: Date.parse(event.time), name: Live.nameOf(event), severity: Live.severityOf(event), text: text || "",
      topic: cause.topic ?? null, partition: cause.partition ?? null, offset: cause.offset ?? null, slot: null, cut: false, body: event };
    if (state.doc && !state.doc.events.some(each => each.id === one.id)) {
      added.set(one.id, one);
      state.doc = { ...state.doc, events: joined(state.doc.events.filter(each => !added.has(each.id))) };
      if (following) move(); else GroupView.later();
      EventTable.show(state);
      byId("news").textContent = `${one.severity === "INFO" ? "" : `${one.severity}: `}${safe(one.text || one.name, 200)}`;
    }
    if (!span || span[1] > Live.now()) readDocument();
    readGroup();
  }

  // ---- what the group is now

  function showNow() {
    // Undefined: not asked yet; null: the job's topics have none.
    if (!cluster || group === undefined) return;
    if (group === null) {
      // Its topics may not have been read yet, or again.
      const known = Knowledge.wasRead(cluster) && !cluster.kafka.error && !cluster.error;
      byId("group-now").replaceChildren(element("span", known ? `the job has no such group ${Knowledge.asOf(cluster, state.zone)}` : "not known whether the group exists", { class: "badge strong" }), element("span", lastCommit()));
      byId("group-why").replaceChildren();
      return;
    }
    const parts = [group.state, counted(group.members || 0, "member"), ...(group.generation === null ? [] : [`generation ${group.generation}`])], commit = lastCommit();
    const nodes = [element("strong", `${parts.join(", ")}${commit ? `; ${commit}` : ""}`, { id: "now-sentence" })];
    for (const one of group.conditions) {
      nodes.push(element("span", `${one.name} ${Knowledge.heldFor(one.since_ms, cluster, state.zone)}`, { class: `badge ${one.severity === "ERROR" ? "error" : one.severity === "WARN" ? "warn" : ""}`, title: safe(one.summary || "", 400) }));
    }
    if (!group.conditions.length) nodes.push(element("span", Knowledge.doubt(cluster, state.zone) ? "no condition is known to hold" : "no condition holds", { class: "badge ok" }));
    byId("group-now").replaceChildren(...nodes, element("span", Knowledge.asOf(cluster, state.zone), { class: "quiet" }));
    // The diagnosis below says more of what the document has: a line here would push it down.
    const drawn = new Set(state.doc ? state.doc.conditions.filter(bar => bar.until_ms === null).map(bar => bar.name) : []);
    byId("group-why").replaceChildren(...group.conditions.filter(one => one.severity !== "INFO" && one.summary && !drawn.has(one.name)).slice(0, 3).map(one => element("li", `When it was reported: ${safe(one.summary, 600)}`, { class: one.severity })));
  }
  // The newest commit in the log, with the time up to which the log was read: what came later is not known.
  function lastCommit() {
    const { doc } = state, unread = doc && Unread.ofLog(doc);
    if (!doc || unread && unread.since_ms === null) return doc ? `last commit: ${Unread.WORDS[unread.reason]}` : "";
    const known = clock(doc.known_until_ms, state.zone);
    if (doc.last_commit_ms === null) return `no commit in the log up to ${known}`;
    return `last commit ${Format.lasted(Math.max(0, doc.known_until_ms - doc.last_commit_ms))} before ${known}`;
  }
  function showState() {
    const why = cluster && Knowledge.doubt(cluster, state.zone), down = why && why.tone === "error";
    byId("live-state").textContent = !streaming ? "not connected" : !cluster ? "" : down ? `connected, but: ${why.short}` : `live, caught up to ${cluster.caught_up_ms === null ? "nothing yet" : clock(cluster.caught_up_ms, state.zone)}`;
    byId("stale").classList.toggle("hidden", !why);
    if (why) byId("stale").textContent = `${why.text}${Knowledge.asOfText("Conditions and events are", cluster, state.zone)}${state.doc && opened ? ` Members, partitions and commits are as of ${Knowledge.moment(state.doc.known_until_ms, state.zone)}.` : ""}`;
    if (state.view) showGaps(why);
    byId("follow").setAttribute("aria-pressed", String(following));
    for (const each of document.querySelectorAll("[data-length]")) each.setAttribute("aria-pressed", String(following && !from_moment && Number(each.dataset.length) === length_ms));
    document.documentElement.dataset.following = String(following);
  }

  // Why the picture ends before now; a document that was just read needs no reason.
  function showGaps(why) {
    const log = cluster && (cluster.log_kafka || cluster.kafka), old = Live.now() - state.doc.known_until_ms > OLD_MS;
    const gap = !following ? null : log && log.error ? Unread.WORDS.unreachable : !streaming && old ? "this page has no connection" : old ? "not read yet" : null;
    const eventsGap = !following ? null : why ? why.short : gap;
    if (state.view.gap === gap && state.view.eventsGap === eventsGap) return;
    Object.assign(state.view, { gap, eventsGap });
    GroupView.later();
  }

  // ---- following

  // The axis goes on until now. States and owners end where the log was read to: it is not known that they go on.
  function move() {
    const now = Live.now();
    state.end_ms = Math.round(now);
    GroupView.frame(Math.round(now - length()), Math.round(now));
  }
  function follow() {
    following = true; span = null;
    Address.set({ since: null, until: null, length: length_ms === LENGTH_MS ? null : length_ms });
    if (state.doc) { move(); }
    readDocument(); showState();
  }
  function stop() {
    if (!following) return;
    following = false;
    showState();
  }
  GroupView.hooks.moved = stop;
  // Redraws when the axis has moved by a pixel.
  function tick() {
    if (document.hidden) return;
    Live.showBar(state.zone);
    if (opened) showState();
    if (!following || !opened) return;
    const pixel_ms = length() / Math.max(state.view.width, 1);
    if (Live.now() - state.view.until >= pixel_ms) move();
  }
  function show(length_wanted) {
    length_ms = length_wanted; from_moment = false;
    follow();
  }
  function earlier() {
    const [from, to] = span || bounds();
    following = false; opened = false;
    span = [from - (to - from), to];
    Address.set({ since: Math.round(span[0]), until: Math.round(span[1]) });
    byId("reading").textContent = "reading …";
    readDocument(); showState();
  }

  function begin() {
    Live.connect({ ...own, group: label.replace(/[[*?]/g, "[$&]") }, {
      opened: back => { streaming = true; showState(); if (back) readAll(); },
      event: took, reset: readAll,
    });
    readAll();
  }
  function readAll() { readClusters(); readGroup(); readDocument(); }
  function setZone(zone) {
    GroupView.setZone(zone);
    showState(); showNow();
  }

  Address.listen(() => {
    const length_wanted = Address.number("length") || LENGTH_MS;
    opened = false;
    if (zoomed()) readDocument(); else show(length_wanted);
  });
  state.newestFirst = true;
  // A page that follows a group begins with now.
  byId("group").prepend(byId("present"));
  // On a phone they would push the verdict off the screen.
  byId("present").open = !matchMedia("(max-width: 700px)").matches;
  GroupView.listen();
  Live.listen(begin);
  byId("title").textContent = safe(label) || "(empty group id)";
  document.title = safe(label, 60);
  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => setZone(each.dataset.zone));
  for (const each of document.querySelectorAll("[data-length]")) each.addEventListener("click", () => show(Number(each.dataset.length)));
  byId("follow").addEventListener("click", follow);
  byId("earlier").addEventListener("click", earlier);
  setInterval(tick, TICK_MS);
  setInterval(() => { readClusters(); readGroup(); if (following) readDocument(); }, 5000);
  new MutationObserver(() => { streaming = document.documentElement.dataset.stream === "open"; showState(); }).observe(document.documentElement, { attributeFilter: ["data-stream"] });
  begin();
})();
