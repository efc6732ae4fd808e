// Wires the form to the service and what it sends to the stages.

import { ServiceError, describeBundle, generate } from "./api.js";
import { anySeed, link, readLink, seed, settings, showValues, useDefaults } from "./controls.js";
import { phaseName, showFigures, showPhases, verdict } from "./figures.js";
import { Player } from "./player.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";
import { chips, suggestWords, unknownWord } from "./words.js";

const byId = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class Page {
  constructor() {
    this.stages = { mulo: new Stage(byId("mulo-canvas")), plain: new Stage(byId("plain-canvas")) };
    this.player = new Player();
    this.running = null;
    this.shown = null;
  }

  async start() {
    this.listen();
    await this.meetBundle().catch((error) => this.complain(error));
  }

  async meetBundle() {
    this.bundle = await describeBundle(this.token);
    sessionStorage.setItem("mulo-token", this.token);
    const { family, size, rows, cols, words, examples, kind, classes } = this.bundle;
    byId("bundle").textContent = `${family}, ${size.replace("x", " × ")} pixels, ${rows * cols} tokens`;
    useDefaults(this.bundle);
    const linked = readLink(location.search);
    if (!linked) byId("prompt").value = examples[0] ?? "";
    if (kind === "class") byId("prompt").placeholder = `a class, 0 to ${classes - 1}`;
    this.refreshWords = suggestWords(byId("prompt"), byId("words"), byId("prompt-note"), words);
    chips(byId("examples"), examples, (text) => this.choose(text));
    byId("token-field").hidden = true;
    if (linked) await this.draw();
  }

  get token() {
    return byId("token").value || sessionStorage.getItem("mulo-token") || "";
  }

  listen() {
    for (const id of ["tau", "radius", "window"]) byId(id).addEventListener("input", showValues);
    byId("form").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.running.abort();
      else this.draw();
    });
    byId("dice").addEventListener("click", () => { byId("seed").value = anySeed(); });
    byId("again").addEventListener("click", () => this.replay());
    byId("copy").addEventListener("click", () => this.copy());
    byId("race").addEventListener("change", () => this.arrange());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.running?.abort(); });
  }

  choose(text) {
    byId("prompt").value = text;
    this.refreshWords();
    this.draw();
  }

  arrange() {
    const racing = byId("race").checked;
    byId("plain-panel").hidden = !racing;
    document.querySelector(".panels").classList.toggle("alone", !racing);
  }

  async draw() {
    if (!this.bundle) { await this.meetBundle().catch((error) => this.complain(error)); return; }
    const wrong = unknownWord(byId("prompt").value, this.bundle.words);
    if (wrong) { this.say(`The bundle does not know the word “${wrong}”.`, true); return; }
    this.begin();
    try {
      const used = seed() ?? anySeed();
      const fast = await this.decode("mulo", { settings: settings(), seed: used });
      const plain = byId("race").checked ? await this.decode("plain", { method: "ar", seed: used }) : null;
      this.shown = { fast, plain };
      this.offer(used, fast.result.image.src);
    } catch (error) {
      this.complain(error);
      return;
    } finally {
      this.end();
    }
    await this.replay();
  }

  begin() {
    this.player.stop();
    this.arrange();
    this.running = new AbortController();
    byId("draw").textContent = "Stop";
    byId("draw").classList.add("stop");
    byId("again").disabled = true;
    byId("verdict").textContent = "";
    for (const panel of document.querySelectorAll(".panel")) panel.classList.remove("won");
    for (const name of ["mulo", "plain"]) {
      this.stages[name].clear();
      byId(`${name}-phase`).textContent = "waiting";
      byId(`${name}-figures`).replaceChildren();
      byId(`${name}-bar`).style.width = "0";
    }
    byId("phases").replaceChildren();
    byId("phase-legend").textContent = "";
  }

  end() {
    this.running = null;
    byId("draw").textContent = "Draw";
    byId("draw").classList.remove("stop");
    byId("again").disabled = !this.shown;
  }

  // Decode one image, showing every frame as it arrives; contestants run one after the other, so that none slows another.
  async decode(name, choice) {
    const timeline = new Timeline();
    this.say(name === "mulo" ? "MuLo-SD decodes …" : "Plain decoding decodes …");
    const fields = { prompt: byId("prompt").value.trim(), ...choice };
    for await (const event of generate(fields, this.token, this.running.signal)) {
      await timeline.add(event);
      this.show(name, timeline, timeline.seconds, 1);
    }
    return timeline;
  }

  async replay() {
    const { fast, plain } = this.shown;
    const entries = [["mulo", fast], ...(plain ? [["plain", plain]] : [])];
    const pace = Number(byId("pace").value);
    this.say(plain ? "Both, decoded one after the other, start together." : "Once more, from the start.");
    const whole = await this.player.play(calm.matches ? 0.01 : pace, (elapsed) => {
      const glow = calm.matches ? 1 : 0.5 + 0.5 * Math.sin(performance.now() / 90);
      for (const [name, timeline] of entries) this.show(name, timeline, elapsed, glow);
      return entries.every(([, timeline]) => elapsed >= timeline.seconds);
    });
    if (!whole) return;
    for (const [name, timeline] of entries) this.show(name, timeline, timeline.seconds, 1);
    this.finish(fast, plain);
  }

  show(name, timeline, elapsed, glow) {
    const moment = timeline.at(elapsed);
    this.stages[name].draw(moment, glow);
    byId(`${name}-phase`).textContent = phaseName(moment.now, !timeline.frames.length);
    const share = Math.min(timeline.seconds ? elapsed / timeline.seconds : 0, 1);
    byId(`${name}-bar`).style.width = `${share * 100}%`;
    showFigures(byId(`${name}-figures`), timeline, moment, elapsed);
  }

  finish(fast, plain) {
    showPhases(byId("phases"), byId("phase-legend"), fast.result);
    byId("verdict").textContent = verdict(fast, plain);
    const winner = plain && plain.result.seconds < fast.result.seconds ? "plain" : "mulo";
    if (plain) byId(`${winner}-panel`).classList.add("won");
    this.say(`Done, with seed ${fast.result.seed}.`);
  }

  offer(used, source) {
    byId("seed").value = used;
    const address = link(used);
    history.replaceState(null, "", address);
    Object.assign(byId("link"), { href: address, hidden: false });
    Object.assign(byId("download"), { href: source, hidden: false });
    byId("copy").hidden = false;
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(byId("link").href);
      this.say("The link is copied.");
    } catch {
      this.say("The browser does not let the page copy; the link beside the button can be copied by hand.", true);
    }
  }

  complain(error) {
    if (error.name === "AbortError") { this.say("Stopped."); return; }
    if (error instanceof ServiceError && error.status === 401) {
      byId("token-field").hidden = false;
      byId("token").focus();
    }
    this.say(error.message, true);
  }

  say(text, bad = false) {
    byId("status").textContent = text;
    byId("status").classList.toggle("bad", bad);
  }
}

const page = new Page();
page.start();
