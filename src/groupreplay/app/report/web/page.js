// The page of a report: draws the document of its data island, or the overview of all groups and the ones in full.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const documents = data.strips ? data.timelines : [data], places = new Map(documents.map((doc, place) => [doc.group_id, place]));
  const { byId } = Elements;

  function open(place) {
    byId("group").classList.remove("hidden"); byId("overview").classList.add("hidden");
    byId("back").classList.toggle("hidden", !data.strips);
    byId("back").href = Address.fragment({ group: null, ...GroupView.NOTHING }) || "#";
    GroupView.open(documents[place]);
    scrollTo(0, 0);
  }
  function route() {
    const place = places.get(Address.get("group"));
    if (!data.strips) open(0);
    else if (place !== undefined) open(place);
    else Overview.show();
  }
  function setZone(zone) {
    GroupView.setZone(zone);
    if (data.strips && byId("group").classList.contains("hidden")) Overview.show();
  }

  GroupView.listen();
  if (data.strips) Overview.listen(data, places);
  for (const each of document.querySelectorAll("[data-zone]")) each.addEventListener("click", () => setZone(each.dataset.zone));
  Address.listen(route);
  route();
  document.documentElement.dataset.ready = "true";
})();
