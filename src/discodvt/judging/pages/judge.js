// The judge's page: consent, items, thanks. Everything that others wrote is set as text, never as markup.
const at = id => document.getElementById(id);
const CHOICES = [["left", "1", "Story 1"], ["right", "2", "Story 2"], ["tie", "0", "No difference"]];
let study = null, task = null, shownAt = 0, reached = 0, busy = false;

const judge = () => decodeURIComponent(location.hash.slice(1));

async function ask(path, body) {
  const request = body === undefined ? {} :
    { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path + location.search, request);
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.error.message), { status: answer.status });
  return value;
}

function show(id) {
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== id;
  at("progress-line").hidden = id !== "judging" && id !== "done";
}

function say(text) { at("status").textContent = text; }

function trouble(text, retry) {
  show("trouble");
  at("trouble-text").textContent = text;
  at("again").onclick = retry;
  at("trouble-heading").focus();
}

// One request at a time; what was chosen stays on the page when it fails.
async function guarded(work, retry) {
  if (busy) return;
  busy = true;
  try { await work(); }
  catch (error) {
    if (error.status === 404) { location.hash = ""; trouble("This link is not known here. You can begin anew.", begin); }
    else if (error.status === 409) trouble("This pair was given to somebody else meanwhile. There is another one.", next);
    else trouble("The server does not answer. Nothing is lost; try again.", retry);
  } finally { busy = false; }
}

function begin() {
  guarded(async () => {
    study = await ask("/api/study");
    document.title = study.title;
    at("title").textContent = study.title;
    at("consent").textContent = study.consent;
    at("instructions").textContent = study.instructions;
    makeQuestions();
    if (judge()) await advance();
    else { show("welcome"); at("main").focus(); }
  }, begin);
}

function agree() {
  guarded(async () => {
    location.hash = (await ask("/api/judges", { consent: true })).judge;
    await advance();
  }, agree);
}

function next() { guarded(advance, next); }

async function advance() {
  const found = await ask("/api/next", { judge: judge() });
  if (found.state === "item") { reached = found.position; display(found); }
  else if (found.state === "done") finish(found);
  else trouble("All pairs that are left are being judged by others. Please try again in a minute.", next);
}

function display(found) {
  task = found;
  show("judging");
  at("prompt").textContent = found.item.prompt;
  at("prompt-label").hidden = !found.item.prompt;
  at("left").textContent = found.item.left;
  at("right").textContent = found.item.right;
  at("link").href = location.href;
  at("progress").max = study.total;
  at("progress").value = found.position;
  at("count").textContent = `${found.position + 1} of ${study.total}`;
  at("back").disabled = found.position === 0;
  for (const input of document.querySelectorAll("#questions input")) input.checked = found.answers[input.name] === input.value;
  mark();
  scrollTo(0, 0);
  at("prompt-heading").focus({ preventScroll: true });
  say(`Pair ${found.position + 1} of ${study.total}`);
  shownAt = performance.now();
}

function makeQuestions() {
  const sets = study.questions.map(question => {
    const set = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = question.text;
    const choices = document.createElement("div");
    choices.className = "choices";
    for (const [value, key, name] of CHOICES) {
      if (value === "tie" && !question.tie) continue;
      const label = document.createElement("label"), input = document.createElement("input"), hint = document.createElement("kbd");
      Object.assign(input, { type: "radio", name: question.id, value });
      hint.textContent = key;
      hint.setAttribute("aria-hidden", "true");
      label.append(input, hint, name);
      choices.append(label);
    }
    set.append(legend, choices);
    return set;
  });
  at("questions").replaceChildren(...sets);
}

const chosen = () => Object.fromEntries(new FormData(at("form")));
const open = () => study.questions.find(question => !(question.id in chosen()));

// The question that the keys answer: the first open one.
function mark() {
  const current = open();
  document.querySelectorAll("fieldset").forEach((set, number) =>
    set.classList.toggle("at", study.questions[number] === current));
  at("go-on").setAttribute("aria-disabled", String(Boolean(current)));
}

function send(event) {
  event.preventDefault();
  if (open()) { say("Please answer every question first."); return; }
  const answered = task, ms = Math.round(performance.now() - shownAt);
  guarded(async () => {
    await ask("/api/answers", { judge: judge(), item: answered.item.id, answers: chosen(), ms });
    if (answered.position + 1 < reached) display(await ask("/api/earlier", { judge: judge(), position: answered.position + 1 }));
    else await advance();
  }, () => { show("judging"); at("go-on").focus(); });
}

function back() {
  guarded(async () => display(await ask("/api/earlier", { judge: judge(), position: task.position - 1 })), () => show("judging"));
}

function finish(found) {
  at("progress").max = at("progress").value = 1;
  at("count").textContent = "done";
  at("code-line").hidden = !found.code;
  at("code").textContent = found.code;
  at("url-line").hidden = !found.url;
  if (found.url) at("url").href = found.url;
  show("done");
  at("done-heading").focus();
  say("Done. All your answers are kept.");
}

function press(event) {
  const choice = CHOICES.find(([, key]) => key === event.key);
  if (at("judging").hidden || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  if (event.key === "Enter" && !event.target.closest("button, a")) {
    event.preventDefault();
    at("form").requestSubmit();
  } else if (choice && at("keys").checked) {
    const focused = event.target.closest("fieldset");  // there a key answers again
    const question = focused ? study.questions[[...document.querySelectorAll("fieldset")].indexOf(focused)] : open();
    const input = question && document.querySelector(`input[name="${question.id}"][value="${choice[0]}"]`);
    if (!input) return;
    event.preventDefault();
    input.checked = true;
    mark();
    say(`${choice[2]}. ${open() ? open().text : "Press Enter to go on."}`);
    input.closest("fieldset").scrollIntoView({ block: "nearest" });
  }
}

at("agree").addEventListener("click", agree);
at("back").addEventListener("click", back);
at("form").addEventListener("submit", send);
at("form").addEventListener("change", mark);
document.addEventListener("keydown", press);
begin();
