// What a replay came to, in words and numbers.

const OUTCOMES = { ok: "fits", oom: "out of memory", thrash: "thrashes", lost: "a value is lost" };

function outcome(replay) {
  if (replay.outcome === "ok") return `fits, ${counted(DATA.steps, "step")}`;
  return `${OUTCOMES[replay.outcome]} in step ${replay.failure.step + 1} of ${DATA.steps}`;
}

function fragmentation(replay) {
  if (replay.fragmentation_rate === null) return "no search";
  return `${percent(replay.fragmentation_rate)} (${percent(replay.fragmentation_rate_incl)})`;
}

function numbers(replay) {
  return [
    ["overhead", overhead(replay.overhead)],
    ["fragmentation rate", fragmentation(replay)],
    ["evictions", count(replay.evictions)],
    ["ops run again", count(replay.recomputes)],
    ["time recomputing", time(replay.recompute_cost_ns)],
    ["searches", count(replay.searches)],
    ["blocks visited", count(replay.search_visits)],
    ["most in use", bytes(replay.peak_bytes)],
  ];
}

// What stood in the way: where it ended, and for out of memory the bytes there.
function failure(replay) {
  const f = replay.failure;
  if (!f) return [];
  if (replay.outcome !== "oom") return [el("p", { class: "bad" }, replay.explained)];
  const held = Object.entries(f.non_evictable_bytes).sort((a, b) => b[1] - a[1]);
  const list = [
    ["needed", f.needed_bytes], ["free", f.free_bytes], ["largest hole", f.largest_hole_bytes],
    ["in use by the op", f.pinned_bytes],
    ...held.map(([name, n]) => [`never evicted: ${name.replace("_", " ")}`, n]),
  ];
  const op = f.op < 0 ? f.op_name : `op ${f.op}, ${f.op_name}${f.module ? ` in ${f.module}` : ""}`;
  return [el("p", { class: "bad" }, `No room at ${op}`), el("dl", {}, ...pairs(list.map(([name, n]) => [name, bytes(n)])))];
}

const COLUMNS = [
  ["policy", "word"], ["budget", ""], ["of peak", ""], ["outcome", "word"], ["overhead", ""], ["fragmentation rate", ""],
  ["evictions", ""], ["ops run again", ""], ["blocks visited", ""],
];

// A row per replay, and under one that failed why; choose(k) is called with the index of the one that is picked.
function fillTable(table, trace, choose) {
  const head = el("tr", {}, ...COLUMNS.map(([name, kind]) => el("th", { class: kind, scope: "col" }, name)));
  const bodies = trace.replays.map((r, k) => {
    const pick = el("button", { type: "button" }, DATA.policies.find((p) => p.name === r.policy).label);
    pick.addEventListener("click", () => choose(k));
    const values = [
      pick, bytes(r.budget_bytes), percent(r.budget_bytes / trace.peak_bytes), OUTCOMES[r.outcome], overhead(r.overhead),
      fragmentation(r), count(r.evictions), count(r.recomputes), count(r.search_visits),
    ];
    const body = el("tbody", {}, el("tr", {}, ...values.map((v, j) => el("td", { class: COLUMNS[j][1] }, v))));
    if (r.explained) {
      body.classList.add("failed");
      body.append(el("tr", { class: "why" }, el("td", { colspan: COLUMNS.length }, el("div", {}, r.explained))));
    }
    return body;
  });
  table.replaceChildren(el("thead", {}, head), ...bodies);
}
