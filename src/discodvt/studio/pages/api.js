// Requests to the server this page came from, and the events of a job, which go on where a connection broke off.
const ENDS = ["chosen", "stopped", "error"];
const MOST_TRIES = 6;

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.param = error.param;
  }
}

export async function ask(method, path, body, headers = {}) {
  const sent = { method, headers: { ...headers } };
  if (body !== undefined) {
    sent.headers["content-type"] = "application/json";
    sent.body = JSON.stringify(body);
  }
  const answer = await fetch(path, sent);
  return read(answer);
}

async function read(answer) {
  const value = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, value.error);
  return value;
}

// Calls hear(name, data) for every event of a job; returns the last one, {name, data}.
export async function follow(job, hear) {
  let last = 0;
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      const answer = await fetch(`/api/jobs/${job}/events`, { headers: { "last-event-id": String(last) } });
      if (!answer.ok) await read(answer);
      for await (const event of parsed(answer.body)) {
        last = event.id;
        tries = 0;
        hear(event.name, event.data);
        if (ENDS.includes(event.name)) return event;
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    await new Promise(wake => setTimeout(wake, 200 * 2 ** tries));
  }
  throw new Error("The server does not answer. What was kept before is safe; start it again and reload this page.");
}

async function* parsed(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (waiting + value).split("\n\n");
    waiting = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(
        block.split("\n").map(line => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      if (fields.event) yield { id: Number(fields.id), name: fields.event, data: JSON.parse(fields.data) };
    }
  }
}
