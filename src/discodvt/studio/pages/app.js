// The studio: what is known and what can be done. `desk.js` shows it.
import { ask, Refused } from "./api.js";
import { renderDesk } from "./desk.js";
import { wireDialogs } from "./dialogs.js";
import { at, el, say } from "./dom.js";
import { Job } from "./job.js";
import { listKeys, press } from "./keys.js";
import { spansOf } from "./spans.js";
import { renderWelcome } from "./welcome.js";
import { count, Dictionary, wishTold, words } from "./words.js";

const WISH_CANDIDATES = 8,
  MOST_ALTERNATIVES = 9;
const state = {
  model: null,
  dictionary: new Dictionary([]),
  projects: [],
  project: null,
  jobs: new Map(), // those that this page follows, by project
  get job() {
    return this.jobs.get(this.project?.id) ?? null;
  },
  selected: null,
  alternatives: null,
  marker: "because",
  heard: null,
  compared: null,
  group: [],
};
const head = () => state.project?.head ?? null;
const base = () => `/api/projects/${state.project.id}`;
const candidates = () => Number(at("candidates").value);
const render = () => renderDesk(state, act);

// A length is one of the plan, in subwords; the story may take 80 more to come to its end.
function settings() {
  const subwords = Number(at("length").value),
    each = state.model.tokens_per_code;
  if (!subwords) return {};
  return { max_tokens: subwords + 80, ...(each ? { max_codes: Math.ceil(subwords / each) } : {}) };
}

// Everything a view may ask for.
const act = {
  write: () => at("asking").requestSubmit(),
  async submit() {
    const prompt = at("prompt").value.trim();
    if (!prompt) return at("prompt").focus();
    if (head() && head().prompt === prompt) return act.again();
    await begin();
    return run("stories", { prompt, parent: head()?.id ?? null, settings: settings() }, { prompt });
  },
  again: () => head() && act.edit({ kind: "again" }),
  transfer: () => head() && act.edit({ kind: "transfer", prompt: at("prompt").value.trim() || head().prompt }),
  edit(edit) {
    const story = head();
    if (!story) return undefined;
    const kept =
      edit.place === undefined || edit.kind === "counterfactual"
        ? 0
        : (spansOf(story.plan, story.segments).spans[edit.place]?.[0] ?? 0);
    const n = edit.kind === "wish" && candidates() === 1 ? WISH_CANDIDATES : candidates();
    return run(
      "edits",
      { parent: story.id, edit, settings: edit.kind === "again" ? settings() : null },
      { base: story, kept, prompt: edit.prompt ?? story.prompt, n, compared: edit.kind === "counterfactual" },
    );
  },
  stop() {
    if (!state.job) return;
    say("Stopping.");
    state.job.stop().catch(trouble);
  },
  lock: place =>
    state.job
      ? undefined
      : guarded(async () => {
          const locks = new Set(head().locks);
          locks.has(place) ? locks.delete(place) : locks.add(place);
          opened(await ask("POST", `${base()}/locks`, { parent: head().id, locks: [...locks] }));
          say(`Place ${place + 1} ${locks.has(place) ? "locked" : "unlocked"}.`);
        }),
  go: version =>
    state.job
      ? undefined
      : guarded(async () => {
          try {
            opened(await ask("PUT", `${base()}/head`, { version }, { "if-match": `"${state.project.revision}"` }));
          } catch (error) {
            if (error.status !== 412) throw error;
            opened(await ask("GET", base()));
            say("The project was changed in another window; this is how it stands now.");
          }
        }),
  undo: () => head() && !state.job && act.go(state.project.undo).then(() => say("Undone.")),
  redo: () => state.project?.redo && !state.job && act.go(state.project.redo).then(() => say("Redone.")),
  async select(place) {
    Object.assign(state, { selected: place, alternatives: null });
    render();
    if (place === null || !head() || state.job) return;
    const { prompt, plan, id } = head();
    try {
      const found = await ask("POST", "/api/plans/alternatives", { prompt, plan, place, top: MOST_ALTERNATIVES });
      if (head()?.id === id && state.selected === place) state.alternatives = found.alternatives;
    } catch (error) {
      trouble(error);
    }
    render();
  },
  async swap(place) {
    await act.select(place);
    document.querySelector("#plan .other")?.focus();
  },
  async wish(place) {
    await act.select(place);
    document.querySelector("#plan .wish-marker")?.focus();
  },
  marker: marker => {
    state.marker = marker;
  },
  listen: () =>
    guarded(async () => {
      say("Reading the story back.");
      const { heard } = await ask("GET", `${base()}/versions/${head().id}/heard`);
      state.heard = heard;
      const read = heard.filter(each => each.heard >= 0);
      say(`${read.filter(each => each.heard === each.code).length} of ${count(read.length, "code")} heard as planned.`);
      render();
    }),
  compare: () =>
    guarded(async () => {
      const before = await ask("GET", `${base()}/versions/${head().parent}`);
      state.compared = (await ask("POST", "/api/compare", { stories: [before, head()] })).places;
      render();
      at("compare-region").focus();
    }),
  closeCompared() {
    state.compared = null;
    render();
    at("compare").focus();
  },
  help: () => at("help-dialog").showModal(),
  readText: (text, prompt) =>
    guarded(async () => {
      await begin();
      say("Reading the text.");
      opened(await ask("POST", `${base()}/texts`, { text, prompt, parent: head()?.id ?? null }));
      await list();
      say(
        `Read: ${count(head().plan.length, "code")}${head().cut ? "; the text was longer than the model reads" : ""}.`,
      );
    }),
  rename: title =>
    guarded(async () => {
      opened(await ask("PUT", base(), { title }));
      await list();
    }),
  hide: () =>
    guarded(async () => {
      await ask("DELETE", base());
      opened(null);
      await list();
      say("Removed from the list; the data file still has it.");
    }),
  newProject() {
    opened(null);
    at("prompt").value = "";
    at("prompt").focus();
  },
  openProject: id =>
    guarded(async () => {
      opened(await ask("GET", `/api/projects/${id}`));
      const [writing] = state.project.jobs;
      if (writing && !state.job) rejoin(writing);
    }),
  try(prompt) {
    at("prompt").value = prompt;
    act.write();
  },
};

async function begin() {
  if (!state.project) opened(await ask("POST", "/api/projects", {}));
}

// Let stories be written and show how they grow; one job at a time in a project, others go on meanwhile.
async function run(door, body, { n = candidates(), ...about }) {
  if (state.job) return;
  const job = new Job(n, about);
  await show(job, () => job.start(`${base()}/${door}`, { ...body, n }), about.compared);
}

// A job that was begun before this page was loaded, or in another window.
async function rejoin({ job: id, n, prompt }) {
  if (state.job) return;
  const job = new Job(n, { prompt });
  job.id = id;
  await show(job);
}

async function show(job, start = () => {}, compared = false) {
  const path = base(),
    { id } = state.project,
    shown = () => state.project?.id === id;
  state.jobs.set(id, job);
  Object.assign(state, { compared: null, heard: null, group: [], alternatives: null });
  trouble(null);
  say("Writing.");
  render();
  try {
    await start();
    await list();
    const last = await job.follow(grown);
    const project = await ask("GET", path);
    state.jobs.delete(id);
    if (shown()) opened(project);
    await list();
    if (last.name === "error") throw new Error(last.data.message);
    if (!shown()) return say(`“${project.title}” is written.`);
    const text = head()?.story ?? "";
    if (compared) await act.compare();
    say(
      [last.name === "stopped" ? "Stopped" : "Done", count(words(text), "word"), wishTold(head()?.wish)]
        .filter(Boolean)
        .join(", ") + ".",
    );
  } catch (error) {
    state.jobs.delete(id);
    if (error instanceof Refused && error.status === 404)
      error.message = "The server was started anew while it wrote; what was written by then is among the versions.";
    if (shown() && !(error instanceof TypeError)) await ask("GET", path).then(opened, () => {});
    trouble(error);
  }
  render();
}

let waiting = false;
function grown(name) {
  if (name === "text" && waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (state.job) render();
  });
}

async function guarded(work) {
  trouble(null);
  try {
    await work();
  } catch (error) {
    trouble(error);
  }
}

function trouble(error) {
  const network = error instanceof TypeError;
  at("trouble").hidden = !error;
  at("trouble").textContent = error
    ? network
      ? "The server does not answer. Every version that was shown is kept."
      : error.message
    : "";
}

// Show a project as the server has it.
function opened(project) {
  const before = head(),
    same = before?.id === project?.head?.id;
  state.project = project;
  if (!same) Object.assign(state, { heard: null, compared: null, alternatives: null });
  if (state.selected !== null && state.selected >= (head()?.plan.length ?? 0)) state.selected = null;
  history.replaceState(null, "", project ? `/#${project.id}` : "/");
  const prompt = head()?.prompt ?? state.job?.stories[0].prompt;
  if (prompt && prompt !== before?.prompt) at("prompt").value = prompt; // else what is typed there stays
  loadGroup();
  render();
  if (state.selected !== null && !state.alternatives) act.select(state.selected);
}

// The candidates that were written together with the version shown.
async function loadGroup() {
  const group = head()?.group,
    shown = head()?.id;
  const siblings = group ? state.project.versions.filter(version => version.group === group) : [];
  if (siblings.length < 2) {
    state.group = [];
    return;
  }
  const found = await Promise.all(siblings.map(each => ask("GET", `${base()}/versions/${each.id}`)));
  if (head()?.id === shown) {
    state.group = found;
    render();
  }
}

async function list() {
  state.projects = (await ask("GET", "/api/projects")).projects;
  const titled = ({ id, title }) => {
    const job = state.jobs.get(id);
    return (title || job?.stories[0].prompt || "Untitled") + (job ? " · writing" : "");
  };
  const options = state.projects.map(each => el("option", { value: each.id }, titled(each)));
  if (!state.project) options.unshift(el("option", { value: "" }, "New"));
  at("projects").replaceChildren(...options);
  at("projects-field").hidden = !state.projects.length;
  render();
}

function wire() {
  at("asking").addEventListener("submit", event => {
    event.preventDefault();
    if (!state.job) act.submit().catch(trouble);
  });
  for (const name of ["stop", "again", "transfer", "undo", "redo", "listen", "compare", "help"])
    at(name).addEventListener("click", () => act[name]());
  at("compare-close").addEventListener("click", act.closeCompared);
  at("new").addEventListener("click", act.newProject);
  at("projects").addEventListener("change", event => event.target.value && act.openProject(event.target.value));
  document.addEventListener("keydown", event => press(event, act));
  const light = place =>
    document
      .querySelectorAll("[data-place]")
      .forEach(each => each.classList.toggle("lit", each.dataset.place === place));
  at("desk").addEventListener("pointerover", event =>
    light(event.target.closest("#story [data-place], #plan [data-place]")?.dataset.place),
  );
  at("desk").addEventListener("pointerleave", () => light(undefined));
  at("plan").addEventListener("focusin", event => light(event.target.closest("[data-place]")?.dataset.place));
  wireDialogs(act, () => state.project);
  listKeys();
}

async function start() {
  wire();
  renderWelcome(act);
  try {
    const asked = decodeURIComponent(location.hash.slice(1));
    state.model = await ask("GET", "/api/model");
    state.dictionary = new Dictionary((await ask("GET", "/api/codes")).codes);
    await list();
    const id = state.projects.some(each => each.id === asked) ? asked : state.projects[0]?.id;
    if (id) await act.openProject(id);
    else at("prompt").focus();
  } catch (error) {
    trouble(error);
  }
  document.body.dataset.ready = "yes";
}

start();
