// The keyboard. Letters act only on a code that has the focus, and can be switched off; everything is a button too.
import { at, el } from "./dom.js";
import { focusedPlace, focusPlace } from "./plan.js";

const KEYS = [
  ["Ctrl + Enter", "write"],
  ["Escape", "stop writing"],
  ["Alt + R", "write again; locked codes stay"],
  ["Ctrl + Z", "undo"],
  ["Ctrl + Shift + Z", "redo"],
  ["Arrows, Home, End", "through plan and versions"],
  ["On a code: Enter", "what can be done with it"],
  ["Shift + Enter", "rewrite from here"],
  ["S", "codes to swap it for"],
  ["L", "lock or unlock"],
  ["R", "draw it again"],
  ["N", "new plan from here"],
  ["W", "wish for a relation"],
  ["?", "this list"],
];

export function listKeys() {
  at("keys").replaceChildren(...KEYS.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]));
  at("letters").checked = localStorage.getItem("letters") !== "off";
  at("letters").addEventListener("change", event =>
    localStorage.setItem("letters", event.target.checked ? "on" : "off"),
  );
}

export function press(event, act) {
  const typing = event.target.matches?.("input, textarea, select"),
    control = event.ctrlKey || event.metaKey,
    place = focusedPlace();
  if (document.querySelector("dialog[open]")) return;
  const run = found(event, { typing, control, place, act });
  if (!run) return;
  event.preventDefault();
  run();
}

function found(event, { typing, control, place, act }) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (control && key === "Enter") return act.write;
  if (key === "Escape") return act.stop;
  if (event.altKey && key === "r") return act.again;
  if (control && !typing && key === "z") return event.shiftKey ? act.redo : act.undo;
  if (control && !typing && key === "y") return act.redo;
  if (control || event.altKey || typing) return null;
  if (key === "?") return act.help;
  if (place === null) return null;
  const last = at("plan").children.length - 1;
  const to = { ArrowDown: Math.min(place + 1, last), ArrowUp: Math.max(place - 1, 0), Home: 0, End: last }[key];
  if (to !== undefined) return () => focusPlace(to);
  if (key === "Enter" && event.shiftKey) return () => act.edit({ kind: "rewrite", place });
  if (!at("letters").checked) return null;
  return (
    {
      l: () => act.lock(place),
      s: () => act.swap(place),
      r: () => act.edit({ kind: "resample", place }),
      n: () => act.edit({ kind: "redraw", place }),
      w: () => act.wish(place),
    }[key] ?? null
  );
}
