// What can be done at a place of the plan: other codes with the prior's probability, draw again, rewrite, wish.
import { chip, el } from "./dom.js";

const MARKERS = ["because", "so", "although", "then", "before", "after", "as", "and", "also", "still"];

export function codePanel({ story, place, alternatives, dictionary, busy, marker }, act) {
  const button = (label, key, run, title) =>
    el(
      "button",
      { type: "button", disabled: busy, title, on: { click: run } },
      label,
      key ? el("kbd", { "aria-hidden": "true" }, key) : null,
    );
  const wishes = el(
    "select",
    {
      "aria-label": "Relation to wish for",
      class: "wish-marker",
      on: { change: event => act.marker(event.target.value) },
    },
    ...MARKERS.map(each => el("option", { selected: each === marker }, each)),
  );
  return el(
    "div",
    { class: "panel", role: "group", "aria-label": `Place ${place + 1}` },
    el(
      "div",
      { class: "acts" },
      button(
        "Rewrite from here",
        "⇧↵",
        () => act.edit({ kind: "rewrite", place }),
        "The same plan, other words from here on",
      ),
      button(
        "Draw this code again",
        "R",
        () => act.edit({ kind: "resample", place }),
        "The prior draws another code here",
      ),
      button(
        "New plan from here",
        "N",
        () => act.edit({ kind: "redraw", place }),
        "All codes from here on are drawn again, but for locked ones",
      ),
    ),
    el(
      "div",
      { class: "acts wish" },
      el("span", {}, "Wish for"),
      wishes,
      button(
        "Wish",
        "W",
        () => act.edit({ kind: "wish", place, marker: wishes.value }),
        "Candidates are written until one has this relation here",
      ),
    ),
    el("p", { class: "fine", id: "swap-heading" }, "Swap for a code that is likely here:"),
    others(),
  );

  function others() {
    if (!alternatives) return el("p", { class: "fine" }, "…");
    const most = Math.max(...alternatives.map(each => each.probability), 1e-9);
    return el(
      "ul",
      { class: "others", "aria-labelledby": "swap-heading" },
      ...alternatives
        .filter(each => each.code !== story.plan[place])
        .map(each =>
          el(
            "li",
            {},
            el(
              "button",
              {
                type: "button",
                class: "other",
                disabled: busy,
                code: each.code,
                share: each.probability / most,
                "aria-label": `Swap for code ${each.code}, ${percent(each.probability)}, ${dictionary.phrases(each.code).join(", ")}`,
                on: { click: () => act.edit({ kind: "swap", place, code: each.code }) },
              },
              chip(each.code),
              el("span", { class: "phrase" }, dictionary.phrases(each.code).slice(0, 2).join(" · ") || "–"),
              el("span", { class: "chance" }, percent(each.probability)),
            ),
            el(
              "button",
              {
                type: "button",
                class: "what-if",
                disabled: busy,
                title: "The same seed from the beginning with this code here",
                "aria-label": `What if code ${each.code}`,
                on: { click: () => act.edit({ kind: "counterfactual", place, code: each.code }) },
              },
              "what if",
            ),
          ),
        ),
    );
  }
}

const percent = share => (share >= 0.1 ? `${Math.round(share * 100)}%` : `${(share * 100).toFixed(1)}%`);
