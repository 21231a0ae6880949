// Dialogs: read a text, export.
import { at } from "./dom.js";

export function wireDialogs(act, project) {
  for (const button of document.querySelectorAll("dialog .close")) button.addEventListener("click", () => button.closest("dialog").close());
  at("import").addEventListener("click", () => at("import-dialog").showModal());
  at("import-form").addEventListener("submit", event => {
    event.preventDefault();
    const text = at("import-text").value, prompt = at("import-prompt").value;
    at("import-dialog").close();
    at("import-form").reset();
    act.readText(text, prompt);
  });
  at("export").addEventListener("click", () => {
    const { id, head } = project();
    for (const kind of ["text", "html", "jsonl"]) at(`export-${kind}`).href = `/api/projects/${id}/export/${kind}?version=${head.id}`;
    at("export-dialog").showModal();
  });
}
