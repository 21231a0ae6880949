// What codes and versions are called. Places are counted from 1 on the page, from 0 in the API.
const MOST_PHRASE = 28;

export class Dictionary {
  constructor(entries) {
    this.entries = new Map(entries.map(entry => [entry.code, entry]));
  }
  // Its commonest phrases, without the end of what stood before.
  phrases(code) {
    return (this.entries.get(code)?.phrases ?? [])
      .map(phrase => phrase.replace(/^[^\p{L}\p{N}]+/u, ""))
      .filter(Boolean);
  }
  // The relation that most stands in its phrases; `and` is everywhere and says little.
  marker(code) {
    const known = Object.entries(this.entries.get(code)?.markers ?? {}).filter(([marker]) => marker !== "and");
    return known.sort((a, b) => b[1] - a[1])[0]?.[0];
  }
}

const quoted = text => `“${text.length > MOST_PHRASE ? text.slice(0, MOST_PHRASE - 1) + "…" : text}”`;
const placed = place => `place ${place + 1}`;

export function told(version) {
  const { kind, place, code, marker, places } = version.action;
  switch (kind) {
    case "write":
      return `Written: ${quoted(version.prompt)}`;
    case "again":
      return "Written again";
    case "rewrite":
      return `Rewritten from ${placed(place)}`;
    case "swap":
      return `Code ${code} at ${placed(place)}`;
    case "resample":
      return `Drawn again at ${placed(place)}`;
    case "redraw":
      return `New plan from ${placed(place)}`;
    case "transfer":
      return `Same plan for ${quoted(version.action.prompt)}`;
    case "counterfactual":
      return `What if ${code} at ${placed(place)}`;
    case "wish":
      return `Wish for ${marker} at ${placed(place)}`;
    case "lock":
      return `Locks changed at ${places.map(each => each + 1).join(", ") || "no place"}`;
    case "read":
      return "A text read";
    default:
      return kind;
  }
}

export function wishTold(wish) {
  if (!wish) return "";
  if (wish.where === "here") return `${wish.marker} found there`;
  return wish.where === "beside" ? `${wish.marker} found beside it` : `no ${wish.marker} there`;
}

export const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
export const words = text => text.split(/\s+/).filter(Boolean).length;

export const FINISHES = { end: "", length: "cut at its length", stopped: "stopped", read: "read" };
