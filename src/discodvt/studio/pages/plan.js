// The plan as rows: colour, number, the dictionary's words, lock. One row has the focus; arrows move it.
import { at, chip, el, icon } from "./dom.js";
import { spansOf } from "./spans.js";

export function renderPlan({ story, dictionary, selected, heard, busy, panel }, act) {
  const list = at("plan"),
    focused = document.activeElement?.closest?.("#plan li")?.dataset.place;
  const { spans } = spansOf(story.plan, story.segments),
    locks = new Set(story.locks ?? []);
  const current = Math.min(Number(focused ?? selected ?? 0), story.plan.length - 1);
  list.replaceChildren(...story.plan.map((code, place) => row(code, place)));
  if (focused !== undefined && !list.contains(document.activeElement)) focusPlace(current);

  function row(code, place) {
    const locked = locks.has(place),
      unreached = spans[place] === null,
      phrases = dictionary.phrases(code),
      marker = dictionary.marker(code);
    const read = heard?.[place],
      told = read === undefined || read.heard < 0 ? "" : read.heard === code ? "heard" : `heard as ${read.heard}`;
    const name = [
      `Place ${place + 1}, code ${code}`,
      phrases[0] && `as in ${phrases[0]}`,
      locked && "locked",
      unreached && "not reached",
      told,
    ]
      .filter(Boolean)
      .join(", ");
    const open = place === selected;
    return el(
      "li",
      {
        data: { place },
        class: [open && "chosen", unreached && "unreached", locked && "is-locked"].filter(Boolean).join(" "),
        code,
      },
      el(
        "div",
        { class: "row" },
        el(
          "button",
          {
            type: "button",
            class: "code",
            tabindex: place === current ? 0 : -1,
            "aria-label": name,
            "aria-expanded": String(open),
            on: { click: () => act.select(open ? null : place), focus: () => rove(place) },
          },
          chip(code),
          el("span", { class: "phrase" }, phrases.slice(0, 2).join(" · ") || "–"),
          told
            ? el(
                "span",
                { class: read.heard === code ? "heard yes" : "heard no" },
                read.heard === code ? "✓" : `≠ ${read.heard}`,
              )
            : null,
          marker ? el("span", { class: "marker" }, marker) : null,
        ),
        el(
          "button",
          {
            type: "button",
            class: "lock",
            tabindex: place === current ? 0 : -1,
            "aria-pressed": String(locked),
            disabled: busy,
            "aria-label": `Lock place ${place + 1}`,
            title: locked ? "Locked: stays when a plan is drawn" : "Lock this code",
            on: { click: () => act.lock(place) },
          },
          icon(locked ? "locked" : "open"),
        ),
      ),
      open && panel ? panel : null,
    );
  }
}

// Only the row that has the focus is reached with the tab key.
function rove(place) {
  for (const item of at("plan").children)
    for (const button of item.querySelectorAll(".code, .lock"))
      button.tabIndex = Number(item.dataset.place) === place ? 0 : -1;
}

export function focusPlace(place) {
  at("plan").children[place]?.querySelector(".code").focus();
}

export const focusedPlace = () => {
  const item = document.activeElement?.closest?.("#plan li");
  return item && document.activeElement.matches(".code, .lock") ? Number(item.dataset.place) : null;
};
