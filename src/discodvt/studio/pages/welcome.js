// What a newcomer sees first: a plan of three codes beside the words they steer, and the same with one code swapped.
import { at, chip, el } from "./dom.js";

const BEGINNING = [
  [227, "once upon a time", "Once there was a little fox "],
  [14, "lost his hat", "who lost his red hat "],
];
const ENDS = [
  [110, "because", "because the wind was strong."],
  [20, "so", "so he asked the owl for help."],
];

export function renderWelcome(act) {
  const [before, after] = ENDS.map((end, swapped) => {
    const plan = [...BEGINNING, end],
      fresh = place => swapped && place === BEGINNING.length;
    return el(
      "div",
      { class: "example" },
      el(
        "ol",
        {},
        ...plan.map(([code, phrase], place) =>
          el(
            "li",
            { code },
            chip(code),
            el("span", { class: "phrase" }, phrase),
            fresh(place) ? el("b", {}, "swapped") : null,
          ),
        ),
      ),
      el(
        "p",
        { class: "text" },
        ...plan.map(([code, , words], place) => el("span", { class: fresh(place) ? "seg fresh" : "seg", code }, words)),
      ),
    );
  });
  at("example").replaceChildren(before, after);
  for (const button of document.querySelectorAll(".tries button")) {
    const prompt = button.textContent.replace(/\s+/g, " ");
    button.textContent = prompt;
    button.addEventListener("click", () => act.try(prompt));
  }
}
