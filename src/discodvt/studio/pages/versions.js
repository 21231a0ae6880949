// The tree of versions. The path to the one shown is the trunk; what else was made from a version is indented under it.
import { at, el } from "./dom.js";
import { told, wishTold } from "./words.js";

export function renderVersions(project, act) {
  const list = at("versions"),
    focused = document.activeElement?.closest?.("#versions li")?.dataset.version;
  const children = new Map();
  for (const version of project.versions)
    children.set(version.parent, [...(children.get(version.parent) ?? []), version]);
  const trunk = trunkOf(project, children),
    rows = [];

  // Branches first, the trunk goes on below them: the eye finds the next step under its beginning.
  const walk = (parent, level) => {
    const made = children.get(parent) ?? [];
    const next = made.find(each => trunk.has(each.id)) ?? made.at(-1);
    for (const branch of made.filter(each => each !== next)) {
      rows.push([branch, level + 1]);
      walk(branch.id, level + 1);
    }
    if (next) {
      rows.push([next, level]);
      walk(next.id, level);
    }
  };
  walk(null, 1);
  list.dataset.project = project.id;
  const current = focused ?? project.head?.id ?? rows[0]?.[0].id;
  list.replaceChildren(...rows.map(([version, level]) => item(version, level)));
  if (focused) list.querySelector(`[data-version="${CSS.escape(focused)}"]`)?.focus();

  function item(version, level) {
    const shown = version.id === project.head?.id;
    const made = el(
      "li",
      {
        role: "treeitem",
        "aria-level": level,
        "aria-selected": String(shown),
        "aria-current": shown ? "true" : undefined,
        data: { version: version.id },
        class: [trunk.has(version.id) && "trunk", shown && "shown"].filter(Boolean).join(" "),
        tabindex: version.id === current ? 0 : -1,
        on: { click: () => act.go(version.id), keydown: event => press(event, version) },
      },
      el("span", { class: "what" }, told(version)),
      el("span", { class: "fine" }, facts(version, project.versions)),
    );
    made.style.setProperty("--level", level - 1);
    return made;
  }

  function press(event, version) {
    const items = [...list.children],
      here = items.indexOf(event.currentTarget);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") act.go(version.id);
    else if (to === undefined || !items[to]) return;
    else {
      items[here].tabIndex = -1;
      items[to].tabIndex = 0;
      items[to].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

function trunkOf(project, children) {
  const parents = new Map(project.versions.map(version => [version.id, version.parent])),
    trunk = new Set();
  for (let id = project.head?.id; id; id = parents.get(id)) trunk.add(id);
  for (let id = project.redo; id; id = children.get(id)?.at(-1)?.id) trunk.add(id);
  return trunk;
}

const numbered = (version, versions) => {
  const group = version.group ? versions.filter(each => each.group === version.group) : [];
  return group.length > 1 && `candidate ${group.indexOf(version) + 1} of ${group.length}`;
};

const facts = (version, versions) =>
  [
    numbered(version, versions),
    wishTold(version.wish),
    version.finish === "stopped" && "stopped",
    version.action.kind !== "lock" && `${version.words} words`,
    new Date(version.created * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }),
  ]
    .filter(Boolean)
    .join(" · ");
