// The whole page as it stands: each part is shown by a file of its own.
import { renderCandidates } from "./candidates.js";
import { codePanel } from "./code-panel.js";
import { renderCompared } from "./compare.js";
import { at } from "./dom.js";
import { focusPlace, renderPlan } from "./plan.js";
import { segmentsOf } from "./story.js";
import { renderVersions } from "./versions.js";
import { count, FINISHES, wishTold, words } from "./words.js";

// Show all that is known: buttons, story, plan, candidates, versions.
export function renderDesk(state, act) {
  const { job, project } = state,
    head = project?.head ?? null,
    story = job ? job.shown(0) : head,
    hadFocus = at("asking").contains(document.activeElement);
  document.title = story?.prompt ? `${story.prompt} · DiscoDVT studio` : "DiscoDVT studio";
  at("projects").value = project?.id ?? "";
  at("undo").disabled = Boolean(job) || !head;
  at("redo").disabled = Boolean(job) || !project?.redo;
  at("write").hidden = Boolean(job);
  at("stop").hidden = !job;
  at("again").hidden = at("transfer").hidden = Boolean(job) || !head;
  at("import").disabled = Boolean(job);
  at("export").disabled = Boolean(job) || !head;
  if (hadFocus && !document.activeElement?.offsetParent) at(job ? "stop" : "write").focus();
  at("welcome").hidden = Boolean(story);
  at("desk").hidden = !story;
  if (story) {
    renderStory(story, state, act);
    renderParts(story, state, act);
  }
}

function renderStory(story, state, act) {
  const { job } = state,
    newFrom = job ? (job.base ? job.kept : null) : newSince(story);
  at("story-heading").textContent = story.prompt;
  at("facts").textContent = job
    ? story.story
      ? `${count(words(story.story), "word")} so far`
      : "drawing a plan …"
    : [
        count(words(story.story), "word"),
        count(story.plan.length, "code"),
        FINISHES[story.finish] ?? "",
        wishTold(story.wish),
        story.model_hash && story.model_hash !== state.model.hash && "by another model, whose codes meant other things",
      ]
        .filter(Boolean)
        .join(" · ");
  at("story").setAttribute("aria-busy", String(Boolean(job)));
  at("story").replaceChildren(
    ...segmentsOf(story, {
      selected: state.selected,
      newFrom,
      choose: place => act.select(place).then(() => focusPlace(place)),
    }),
  );
  at("legend").hidden = Boolean(job) || !story.parent || story.action.kind === "lock";
  at("legend-new").hidden = newFrom === null;
}

// Where a version begins to differ from the one it was made from; null where all of it is new.
function newSince(story) {
  return story.kept > 0 ? story.kept : null;
}

function renderParts(story, state, act) {
  const { job, project, selected, dictionary, heard } = state,
    busy = Boolean(job);
  const panel =
    selected === null || busy
      ? null
      : codePanel(
          { story, place: selected, alternatives: state.alternatives, dictionary, busy, marker: state.marker },
          act,
        );
  renderPlan({ story, dictionary, selected: busy ? null : selected, heard, busy, panel }, act);
  at("listen").disabled = busy;
  const live = job && job.stories.length > 1 ? job.stories.map((_, number) => job.shown(number)) : null;
  renderCandidates(
    {
      stories: live ?? (busy ? [] : state.group),
      head: project?.head?.id,
      live: Boolean(live),
      newFrom: live ? job.kept || null : newSince(story),
    },
    act,
  );
  renderCompared(busy ? null : state.compared);
  at("versions-region").hidden = !project?.versions.length;
  if (project && !(busy && at("versions").dataset.project === project.id)) renderVersions(project, act);
}
