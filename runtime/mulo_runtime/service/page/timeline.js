// What happened to one image and when, in seconds of decoding, so that it can be shown at any pace.

async function bitmap(base64) {
  const image = new Image();
  image.src = `data:image/png;base64,${base64}`;
  await image.decode();
  return image;
}

export class Timeline {
  constructor() {
    this.frames = [];
    this.result = null;
  }

  get seconds() {
    return this.result ? this.result.seconds : this.frames.at(-1)?.seconds ?? 0;
  }

  async add(event) {
    const image = await bitmap(event.b64_json);
    const done = event.type === "image_generation.completed";
    const told = event.mulo;
    const stage = done ? "done" : told.stage;
    this.frames.push({ ...told, stage, image, acceptMap: told.accept_map ?? null });
    if (done) this.result = { ...told, image };
  }

  // The frames that a viewer needs at `seconds`: the last of all, the last draft, the last final rows.
  at(seconds) {
    const passed = this.frames.filter((frame) => frame.seconds <= seconds);
    const last = (...stages) => passed.findLast((frame) => stages.includes(frame.stage)) ?? null;
    return { now: passed.at(-1) ?? null, draft: last("draft"), verified: last("verified"), rows: last("rows", "done") };
  }
}
