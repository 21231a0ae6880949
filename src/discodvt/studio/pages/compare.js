// Two versions place by place of their plans; what differs is marked.
import { at, chip, el } from "./dom.js";

export function renderCompared(places) {
  at("compare-region").hidden = !places;
  if (!places) return;
  const cell = (which, place) =>
    el("td", { class: place.same ? "" : "differs", dir: "auto" }, place.texts[which].trim());
  at("compared").replaceChildren(
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...["Code", "Before", "Now"].map(name => el("th", { scope: "col" }, name)))),
      el(
        "tbody",
        {},
        ...places.map(place =>
          el("tr", {}, el("th", { scope: "row" }, ...codes(place)), cell(0, place), cell(1, place)),
        ),
      ),
    ),
  );
}

function codes({ codes: [before, now] }) {
  if (before < 0 && now < 0) return ["past the plan"];
  const shown = code => (code < 0 ? el("span", {}, "–") : chip(code));
  return before === now ? [shown(now)] : [shown(before), " → ", shown(now)];
}
