// A job in the making: what its events say of each candidate so far.
import { ask, follow } from "./api.js";
import { characters } from "./spans.js";

export class Job {
  // `base`, `kept`: the story an edit began with, and how many of its characters stay.
  constructor(candidates, { base = null, kept = 0, prompt }) {
    this.base = base;
    this.kept = kept;
    this.stories = Array.from({ length: candidates }, () => ({
      prompt,
      plan: [],
      story: "",
      segments: [],
      locks: base?.locks ?? [],
    }));
    this.id = null;
    this.stopping = false;
  }

  async start(path, body) {
    this.id = (await ask("POST", path, body)).job;
    if (this.stopping) await this.stop();
  }

  // Calls `grown` whenever there is more; returns the last event.
  follow(grown) {
    return follow(this.id, (name, data) => {
      this.hear(name, data);
      grown(name);
    });
  }

  async stop() {
    this.stopping = true;
    if (this.id) await ask("DELETE", `/api/jobs/${this.id}`);
  }

  hear(name, data) {
    const story = this.stories[data.i];
    if (name === "plan") story.plan = data.codes;
    else if (name === "text") {
      story.story += data.delta;
      story.segments.splice(data.first, story.segments.length, ...data.segments);
    } else if (name === "done") Object.assign(story, data.record);
  }

  // A candidate as it can be shown: what an edit keeps stands there from the first moment.
  shown(number) {
    const story = this.stories[number];
    if (!this.base || characters(story.story).length >= this.kept) return story;
    const segments = this.base.segments
      .filter(([, start]) => start < this.kept)
      .map(([code, start, end]) => [code, start, Math.min(end, this.kept)]);
    const plan = story.plan.length ? story.plan : this.base.plan;
    return { ...story, plan, story: characters(this.base.story).slice(0, this.kept).join(""), segments };
  }
}
