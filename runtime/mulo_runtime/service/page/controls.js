// The form's values: to a request's fields, to a link, and back.

const byId = (id) => document.getElementById(id);
const OFF = -1;
const LINKED = ["prompt", "seed", "tau", "radius", "window", "rounds", "race"];

const tauOf = (exponent) => Number((10 ** exponent).toPrecision(2));

export function showValues() {
  const tau = tauOf(Number(byId("tau").value));
  byId("tau-value").textContent = tau > 1 ? `${tau} (reject all)` : String(tau);
  byId("radius-value").textContent = Number(byId("radius").value) === OFF ? "off" : byId("radius").value;
  byId("window-value").textContent = byId("window").value;
}

export function useDefaults(bundle) {
  byId("tau").value = Math.log10(Math.max(bundle.method.tau, 1e-4));
  byId("radius").value = bundle.method.radius ?? OFF;
  byId("window").value = bundle.method.window || 1;
  byId("window").max = Math.min(bundle.cols, 32);
  showValues();
}

export function settings() {
  const radius = Number(byId("radius").value);
  return {
    tau: tauOf(Number(byId("tau").value)),
    radius: radius === OFF ? null : radius,
    window: Number(byId("window").value),
    rows_per_round: Number(byId("rounds").value),
  };
}

export function seed() {
  return byId("seed").value === "" ? null : Number(byId("seed").value);
}

// Numbers that a link and JSON keep exactly.
export const anySeed = () => Math.floor(Math.random() * 2 ** 32);

// Everything that the image depends on.
export function link(usedSeed) {
  const values = { ...settings(), prompt: byId("prompt").value.trim(), seed: usedSeed };
  const query = new URLSearchParams({
    prompt: values.prompt,
    seed: values.seed,
    tau: values.tau,
    radius: values.radius ?? "off",
    window: values.window,
    rounds: values.rows_per_round,
    race: byId("race").checked ? 1 : 0,
  });
  return `${location.origin}${location.pathname}?${query}`;
}

// Fill the form from the address; whether it names an image.
export function readLink(search) {
  const query = new URLSearchParams(search);
  if (!LINKED.every((name) => query.has(name))) return false;
  for (const name of ["prompt", "seed", "window", "rounds"]) byId(name).value = query.get(name);
  byId("tau").value = Math.log10(Number(query.get("tau")));
  byId("radius").value = query.get("radius") === "off" ? OFF : query.get("radius");
  byId("race").checked = query.get("race") === "1";
  showValues();
  return true;
}
