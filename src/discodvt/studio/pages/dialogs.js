// Dialogs: read a text, export, rename and remove a project.
import { at } from "./dom.js";

export function wireDialogs(act, project) {
  for (const button of document.querySelectorAll("dialog .close"))
    button.addEventListener("click", () => button.closest("dialog").close());
  at("import").addEventListener("click", () => at("import-dialog").showModal());
  at("import-form").addEventListener("submit", event => {
    event.preventDefault();
    const text = at("import-text").value,
      prompt = at("import-prompt").value;
    at("import-dialog").close();
    at("import-form").reset();
    act.readText(text, prompt);
  });
  at("rename-form").addEventListener("submit", event => {
    event.preventDefault();
    at("export-dialog").close();
    act.rename(at("rename").value.trim());
  });
  at("hide").addEventListener("click", () => {
    at("export-dialog").close();
    act.hide();
  });
  at("export").addEventListener("click", () => {
    const { id, head, title } = project();
    at("rename").value = title;
    for (const kind of ["text", "html", "jsonl"])
      at(`export-${kind}`).href = `/api/projects/${id}/export/${kind}?version=${head.id}`;
    at("export-dialog").showModal();
  });
}
