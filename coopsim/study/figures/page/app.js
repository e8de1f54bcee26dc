// What is chosen (a trace, a policy, a budget, a step), and everything that follows from it.

const QUANTITIES = [
  { key: "overhead", name: "overhead (%)", low: 1, least: 0.02, show: (v, d) => (100 * (v - 1)).toFixed(Math.max(0, d - 2)) },
  { key: "fragmentation_rate", name: "fragmentation rate (%)", low: 0, least: 0.005, show: (v, d) => (100 * v).toFixed(Math.max(0, d - 2)) },
];
const chosen = { trace: 0, policy: 0, budget: 0, last: true };
const map = new MemoryMap(byId("map"));

const theTrace = () => DATA.traces[chosen.trace];
const theReplay = () => theTrace().replays[chosen.policy * theTrace().budgets.length + chosen.budget];

function sample(...parts) {
  return svg("svg", { viewBox: "-12 -7 24 14", "aria-hidden": "true" }, ...parts);
}

// A row of radio buttons that look like one; pick(k) is called when one is chosen.
function choices(box, name, labels, at, pick) {
  const made = labels.map((label, k) => {
    const radio = el("input", { type: "radio", name, value: k });
    radio.checked = k === at;
    radio.addEventListener("change", () => pick(k));
    return el("label", {}, radio, el("span", {}, label));
  });
  box.replaceChildren(box.firstElementChild, ...made);
}

function showTrace() {
  const trace = theTrace();
  byId("label").textContent = trace.label;
  byId("title").textContent = trace.title;
  byId("facts").replaceChildren(...cells(trace.facts));
  byId("provenance").replaceChildren(...pairs(trace.provenance));
  byId("budget").max = trace.budgets.length - 1;
  fillTable(byId("table"), trace, (k) => {
    chosen.policy = Math.floor(k / trace.budgets.length);
    chosen.budget = k % trace.budgets.length;
    showReplay();
    byId("memory-heading").scrollIntoView({ block: "start" });
  });
  map.view.reset();
  chosen.budget = nearest(0.5);
  showReplay();
}

function nearest(ratio) {
  const away = theTrace().budgets.map((b) => Math.abs(b.ratio - ratio));
  return away.indexOf(Math.min(...away));
}

function showCharts() {
  const boxes = [...byId("charts").children];
  QUANTITIES.forEach((quantity, k) => chart(boxes[k], theTrace(), quantity, theTrace().budgets[chosen.budget].ratio, (ratio) => {
    chosen.budget = nearest(ratio);
    showReplay();
  }));
}

function showReplay() {
  const trace = theTrace(), replay = theReplay(), budget = trace.budgets[chosen.budget];
  const text = `${percent(budget.ratio)} · ${bytes(budget.bytes)}`;
  byId("budget").value = chosen.budget;
  byId("budget").setAttribute("aria-valuetext", text);
  byId("budget-text").textContent = text;
  choices(byId("policies"), "policy", DATA.policies.map((p) => p.label), chosen.policy, (k) => {
    chosen.policy = k;
    showReplay();
    byId("policies").querySelectorAll("input")[k].focus();
  });
  byId("steps").hidden = replay.maps.length < 2;
  choices(byId("steps"), "step", replay.maps.map((m) => String(m.step + 1)), chosen.last ? replay.maps.length - 1 : 0, (k) => {
    chosen.last = k > 0;
    showReplay();
    byId("steps").querySelectorAll("input")[k].focus();
  });
  byId("outcome").textContent = outcome(replay);
  byId("outcome").classList.toggle("bad", replay.outcome !== "ok");
  byId("numbers").replaceChildren(...pairs(numbers(replay)));
  const why = failure(replay);
  byId("failure").hidden = !why.length;
  byId("failure").replaceChildren(...why);
  [...byId("table").tBodies].forEach((body, k) => body.classList.toggle("chosen", trace.replays[k] === replay));
  showCharts();
  return showMap(trace, replay);
}

async function showMap(trace, replay) {
  const at = chosen.last ? replay.maps.length - 1 : 0, kept = replay.maps[at];
  const steps = await residencies(replay);
  if (replay !== theReplay() || at !== (chosen.last ? replay.maps.length - 1 : 0)) return; // another was chosen meanwhile
  const empty = !kept || !steps[at].begin.length;
  map.show({
    name: `${DATA.policies[chosen.policy].label}, ${byId("budget-text").textContent}${kept ? `, step ${kept.step + 1}` : ""}`,
    trace,
    step: empty ? null : steps[at],
    length: kept ? kept.length_ns : 0,
    budget: replay.budget_bytes,
    phases: empty ? {} : kept.phases,
    note: empty ? "no op ran" : "",
  });
  showMapLegend(trace, steps[at]);
  document.documentElement.dataset.ready = Math.round(performance.now());
}

// The roles that can be seen (a thousandth of the budget and more), and the marks.
function showMapLegend(trace, step) {
  const most = DATA.roles.map(() => 0);
  const count = step ? step.begin.length : 0;
  for (let i = 0; i < count; i += 1) most[look(trace, step, i)] += step.bytes[i];
  const items = DATA.roles.filter((_, k) => most[k] > 0.001 * theReplay().budget_bytes).map(({ label, color }) => el("li", {},
    sample(svg("rect", { x: -9, y: -6, width: 18, height: 12, fill: seen(color) })), label));
  items.push(el("li", {}, sample(svg("rect", { x: -9, y: -6, width: 18, height: 12, fill: "none", stroke: ink("quiet") })), "free"));
  if (step && step.flags.some((f) => f & EVICTED)) {
    const [residency, tick] = [{ x: -9, width: 18, fill: "#9AA3AD" }, { x: 3, width: 2, fill: TICK }];
    items.push(el("li", {}, sample(...[residency, tick].map((s) => svg("rect", { ...s, y: -6, height: 12 }))), "evicted"));
  }
  byId("map-legend").replaceChildren(...items);
}

function showCurvesLegend() {
  const items = DATA.policies.map((p) => el("li", {},
    sample(svg("path", { d: "M-11,0H11", stroke: seen(p.color), "stroke-width": 1.8 }), mark(p, false)), p.label));
  const grey = { color: ink("quiet"), marker: "o" };
  const points = theTrace().replays.length && Object.values(theTrace().curves).flatMap((c) => c.overhead);
  if (points.some((p) => p[2] > 0 && p[2] < p[1])) items.push(el("li", {}, sample(mark(grey, true)), "not all neighbouring budgets fit"));
  if (points.some((p) => p[2] === 0)) {
    items.push(el("li", {}, sample(svg("path", { d: MARKS.X(), stroke: ink("quiet"), "stroke-width": 2 })), "does not fit"));
  }
  byId("curves-legend").replaceChildren(...items);
  byId("curves-note").textContent = DATA.band > 1
    ? `Line and shade: mean and range of ${DATA.band} budgets within ±${+(50 * DATA.band_width).toFixed(2)} % of the peak around each, because results jump from one budget to the next. The map and the table show the budget itself.`
    : "One replay a point. Results jump from one budget to the next; --band 11 shows by how much.";
}

function start() {
  byId("made").textContent = `Made by coopsim ${DATA.coopsim}: ${counted(DATA.steps, "step")} in one memory, allocator ${DATA.allocator}, cost model of the policies: ${DATA.cost_model}.`;
  byId("charts").replaceChildren(...QUANTITIES.map(() => el("div", { class: "chart" })));
  byId("trace-choice").hidden = DATA.traces.length < 2;
  byId("trace").replaceChildren(...DATA.traces.map((t, k) => el("option", { value: k }, t.label)));
  byId("trace").addEventListener("change", () => {
    chosen.trace = Number(byId("trace").value);
    showTrace();
    showCurvesLegend();
  });
  byId("budget").addEventListener("input", () => {
    chosen.budget = Number(byId("budget").value);
    showReplay();
  });
  byId("zoom-in").addEventListener("click", () => map.zoom(0.6));
  byId("zoom-out").addEventListener("click", () => map.zoom(1 / 0.6));
  byId("reset").addEventListener("click", () => map.reset());
  new ResizeObserver(showCharts).observe(byId("charts"));
  dark.addEventListener("change", () => {
    showReplay();
    showCurvesLegend();
  });
  chosen.policy = DATA.policies.findIndex((p) => p.name === "coop");
  if (chosen.policy < 0) chosen.policy = 0;
  showTrace();
  showCurvesLegend();
}

start();
