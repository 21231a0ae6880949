// The story in the colours of its codes. A segment is chosen by a click; the plan's rows do the same with the keyboard.
import { el } from "./dom.js";
import { characters, pieces } from "./spans.js";

// Elements of a text; where[start, end] of a wish is marked, and what begins at `newFrom` or later is underlined.
export function segmentsOf(story, { selected = null, newFrom = null, choose = null } = {}) {
  return pieces(story).map(piece => {
    const fresh = newFrom !== null && piece.end > newFrom;
    const classes = [
      "seg",
      piece.place === null && "past",
      fresh && "fresh",
      piece.place === selected && piece.place !== null && "chosen",
    ];
    return el(
      "span",
      {
        class: classes.filter(Boolean).join(" "),
        code: piece.place === null ? undefined : story.plan[piece.place],
        data: piece.place === null ? {} : { place: piece.place },
        on: choose && piece.place !== null ? { click: () => choose(piece.place) } : {},
      },
      ...marked(piece, story.wish),
    );
  });
}

function marked(piece, wish) {
  if (!wish || wish.where === "nowhere" || !(piece.start <= wish.start && wish.start < piece.end)) return [piece.text];
  const all = characters(piece.text),
    from = wish.start - piece.start - piece.lead;
  const until = Math.min(from + wish.end - wish.start, all.length);
  return [
    all.slice(0, from).join(""),
    el("mark", { title: "as wished" }, all.slice(from, until).join("")),
    all.slice(until).join(""),
  ];
}
