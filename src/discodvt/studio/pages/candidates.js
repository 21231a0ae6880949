// Candidates side by side: those in the making, or the versions that were written together with the one shown.
import { at, el } from "./dom.js";
import { segmentsOf } from "./story.js";
import { count, wishTold, words } from "./words.js";

export function renderCandidates({ stories, head, live, newFrom }, act) {
  at("candidates-region").hidden = stories.length < 2;
  at("candidates-heading").textContent = live
    ? `Writing ${stories.length} candidates`
    : count(stories.length, "candidate");
  const best = live ? null : Math.max(...stories.map(story => story.scores?.total ?? -Infinity));
  at("cards").replaceChildren(
    ...stories.map((story, number) => {
      const shown = !live && story.id === head,
        found = story.wish ? wishTold(story.wish) : "";
      const facts = [count(words(story.story), "word"), found, story.scores?.total === best && "highest score"]
        .filter(Boolean)
        .join(" · ");
      return el(
        "article",
        {
          class: shown ? "card shown" : "card",
          "aria-label": `Candidate ${number + 1}`,
          "aria-busy": String(Boolean(live)),
        },
        el("div", { class: "heading" }, el("h3", {}, `Candidate ${number + 1}`), el("p", { class: "fine" }, facts)),
        el(
          "div",
          {
            class: "text small",
            dir: "auto",
            tabindex: 0,
            role: "region",
            "aria-label": `Text of candidate ${number + 1}`,
          },
          ...segmentsOf(story, { newFrom }),
        ),
        live
          ? null
          : el(
              "button",
              { type: "button", disabled: shown, on: { click: () => act.go(story.id) } },
              shown ? "Shown above" : "Take this one",
            ),
      );
    }),
  );
}
