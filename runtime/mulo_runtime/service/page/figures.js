// Numbers beside the images.

import { lit } from "./stage.js";

const PHASE_COLOURS = {
  condition: "#8b93a1", draft: "#6ea8fe", upsample: "#9d7bf0", verify: "#4cc38a", resample: "#f7a531",
  resynchronise: "#d9d36a", decode: "#e07ab5",
};

const seconds = (value) => `${value < 10 ? value.toFixed(2) : value.toFixed(1)} s`;
const percent = (share) => `${Math.round(share * 100)} %`;

function list(container, pairs) {
  container.replaceChildren(...pairs.map(([name, value]) => {
    const group = document.createElement("div");
    const term = document.createElement("dt");
    const told = document.createElement("dd");
    term.textContent = name;
    told.textContent = value;
    group.append(term, told);
    return group;
  }));
}

export function phaseName(now, waiting) {
  if (!now) return waiting ? "waiting" : "drafting";
  if (now.stage === "draft") return "drafted";
  if (now.stage === "verified") return lit(now) ? "resampling islands" : "verified";
  if (now.stage === "rows") return `${now.rows} of ${now.total} rows`;
  return "done";
}

// Live while the image grows, whole once it is done.
export function showFigures(container, timeline, moment, elapsed) {
  const { result } = timeline;
  const done = moment.now?.stage === "done";
  const share = done ? result.accepted_share : moment.verified?.accepted_share;
  const shown = [["time", seconds(done ? result.seconds : Math.min(elapsed, timeline.seconds))]];
  if (done) shown.push(["target passes", String(result.passes.target)]);
  else shown.push(["rows done", String(moment.rows?.rows ?? 0)]);
  if (share !== null && share !== undefined) shown.push(["accepted", percent(share)]);
  list(container, shown);
}

export function showPhases(container, legend, result) {
  const parts = Object.entries(result.phases);
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  container.replaceChildren(...parts.map(([name, value]) => {
    const part = document.createElement("div");
    part.style.flexGrow = value / whole;
    part.style.background = PHASE_COLOURS[name] ?? "#8b93a1";
    part.title = `${name} ${seconds(value)}`;
    return part;
  }));
  const told = parts.map(([name, value]) => `${name} ${Math.round(value * 1000)} ms`).join(" · ");
  container.setAttribute("aria-label", `Time by phase: ${told}`);
  legend.textContent = told;
}

export function verdict(fast, plain) {
  const figures = fast.result;
  const fell = figures.abandoned_share === null ? "" : " MuLo-SD was given up: too little was accepted.";
  if (!plain?.result) return `${seconds(figures.seconds)} in ${figures.passes.target} passes of the large model.${fell}`;
  const factor = plain.result.seconds / figures.seconds;
  const passes = `${figures.passes.target} instead of ${plain.result.passes.target} passes of the large model`;
  const faster = factor >= 1 ? `${factor.toFixed(1)} times as fast` : `${(1 / factor).toFixed(1)} times slower`;
  return `MuLo-SD was ${faster}: ${passes}.${fell}`;
}
