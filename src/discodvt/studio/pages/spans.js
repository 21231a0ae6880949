// Which characters each place of a plan governs. Offsets of the server count code points, strings here do not.

export const characters = text => Array.from(text);

// [start, end] for each place, null where it governs no text; and where text past the plan begins.
export function spansOf(plan, segments) {
  let next = 0;
  const spans = plan.map(code => {
    const segment = segments[next];
    if (!segment || segment[0] !== code) return null;
    next += 1;
    return [segment[1], segment[2]];
  });
  return { spans, rest: segments[next] ? segments[next][1] : null };
}

// The text in pieces {place, start, text}; place is null past the plan.
export function pieces(story) {
  const all = characters(story.story),
    { spans, rest } = spansOf(story.plan, story.segments),
    found = [];
  spans.forEach((span, place) => {
    if (span) found.push({ place, start: span[0], end: span[1], text: all.slice(...span).join("") });
  });
  if (rest !== null) found.push({ place: null, start: rest, end: all.length, text: all.slice(rest).join("") });
  if (!found.length && all.length) found.push({ place: null, start: 0, end: all.length, text: story.story });
  return found.map((piece, number) => {
    const lead = number ? blank(piece).length : 0,
      more = found[number + 1] ? blank(found[number + 1]) : "";
    return { ...piece, lead, text: piece.text.slice(lead) + more };
  });
}

// White space before a segment is shown with the one before: at the end of a line it would be a stray patch of colour.
const blank = piece => piece.text.match(/^\s*/)[0];
