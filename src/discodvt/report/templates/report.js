// One tooltip for everything that carries data-tip; in a group only one mark is a tab stop, arrows go to the others.
const tip = document.getElementById("tip");
let shown = null;

function show(mark) {
  shown = mark;
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 8);
  const above = at.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : Math.min(at.bottom + 8, innerHeight - own.height - 8)}px`;
}

function hide() {
  shown = null;
  tip.hidden = true;
}

function follow(event) {
  const mark = event.target.closest("[data-tip]");
  if (mark) show(mark); else hide();
}

document.addEventListener("mouseover", follow);
document.addEventListener("focusin", follow);
document.addEventListener("focusout", hide);
document.addEventListener("scroll", () => { if (shown) show(shown); }, true);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

for (const group of document.querySelectorAll("[data-group]")) {
  const marks = [...group.querySelectorAll("[data-tip]")];
  marks.forEach((mark, number) => mark.setAttribute("tabindex", number ? "-1" : "0"));
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = marks.indexOf(document.activeElement);
    const next = marks[at + step];
    if (at < 0 || !next) return;
    event.preventDefault();
    marks[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    show(next);
  });
}
