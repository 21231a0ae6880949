// Elements. What others wrote is set as text, never as markup; colours go through the CSSOM, as the policy asks.
const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  locked: "M4 7V5a4 4 0 0 1 8 0v2h1v8H3V7zm2 0h4V5a2 2 0 0 0-4 0z",
  open: "M4 7V5a4 4 0 0 1 7.5-2l-1.7 1A2 2 0 0 0 6 5v2h7v8H3V7zm1 2v4h6V9z",
};
const GOLDEN_ANGLE = 137.508;

export const at = id => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "code") made.style.setProperty("--hue", hue(value));
    else if (name === "share") made.style.setProperty("--share", value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg"),
    path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  return svg;
}

// The same hues as terminal, pages and report.
export const hue = code => Math.round(code * GOLDEN_ANGLE) % 360;

export const chip = (code, props = {}) =>
  el("span", { ...props, class: `chip ${props.class ?? ""}`, code }, String(code));

// One place tells what happened, to everybody; it goes after a while.
let said = 0;
export function say(text) {
  at("status").textContent = text;
  clearTimeout(said);
  said = setTimeout(() => {
    at("status").textContent = "";
  }, 6000);
}
