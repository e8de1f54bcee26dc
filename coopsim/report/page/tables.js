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
    ["overhead", times(replay.overhead)],
    ["fragmentation rate", fragmentation(replay)],
    ["evictions", count(replay.evictions)],
    ["ops run again", count(replay.recomputes)],
    ["time recomputing", time(replay.recompute_cost_ns)],
    ["searches", count(replay.searches)],
    ["pieces visited", count(replay.search_visits)],
    ["most in use", bytes(replay.peak_bytes)],
  ];
}

// What stood in the way: the line that the command line prints, and for out of memory its bytes.
function failure(replay) {
  if (!replay.explained) return [];
  const said = [el("p", { class: "bad" }, replay.explained)];
  const f = replay.failure;
  if (replay.outcome !== "oom") return said;
  const held = Object.entries(f.fixed_bytes).sort((a, b) => b[1] - a[1]);
  const list = [
    ["needed", f.needed_bytes], ["free", f.free_bytes], ["largest hole", f.largest_hole_bytes],
    ["in use by the op", f.pinned_bytes],
    ...held.map(([name, n]) => [`never evicted: ${name.replace("_", " ")}`, n]),
  ];
  return [...said, el("dl", {}, ...pairs(list.map(([name, n]) => [name, bytes(n)])))];
}

const COLUMNS = [
  ["policy", "word"], ["budget", ""], ["of peak", ""], ["outcome", "word"], ["overhead", ""], ["fragmentation rate", ""],
  ["evictions", ""], ["ops run again", ""], ["pieces visited", ""], ["what stood in the way", "word"],
];

// A row per replay; choose(k) is called with the index of the one that is picked.
function fillTable(table, trace, choose) {
  const failed = trace.replays.some((r) => r.explained);
  const columns = failed ? COLUMNS : COLUMNS.slice(0, -1);
  const head = el("tr", {}, ...columns.map(([name, kind]) => el("th", { class: kind, scope: "col" }, name)));
  const rows = trace.replays.map((r, k) => {
    const pick = el("button", { type: "button" }, DATA.policies.find((p) => p.name === r.policy).label);
    pick.addEventListener("click", () => choose(k));
    const values = [
      bytes(r.budget_bytes), percent(r.budget_bytes / trace.peak_bytes), OUTCOMES[r.outcome], times(r.overhead),
      fragmentation(r), count(r.evictions), count(r.recomputes), count(r.search_visits),
    ];
    const row = el("tr", {}, el("td", { class: "word" }, pick));
    values.forEach((text, j) => row.append(el("td", { class: columns[j + 1][1] }, text)));
    if (failed) row.append(el("td", { class: "why" }, r.explained || ""));
    return row;
  });
  table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
}
