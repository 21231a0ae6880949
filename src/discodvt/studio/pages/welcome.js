// What a newcomer sees first: a plan of three codes beside the words they steer.
import { at, chip, el } from "./dom.js";

const EXAMPLE = [
  [227, "once upon a time", "Once there was a little fox "],
  [14, "lost his hat", "who lost his red hat "],
  [110, "because", "because the wind was strong."],
];

export function renderWelcome(act) {
  at("example-plan").replaceChildren(
    ...EXAMPLE.map(([code, phrase]) => el("li", { code }, chip(code), el("span", { class: "phrase" }, phrase))),
  );
  at("example-story").replaceChildren(...EXAMPLE.map(([code, , words]) => el("span", { class: "seg", code }, words)));
  for (const button of document.querySelectorAll(".tries button")) {
    const prompt = button.textContent.replace(/\s+/g, " ");
    button.textContent = prompt;
    button.addEventListener("click", () => act.try(prompt));
  }
}
