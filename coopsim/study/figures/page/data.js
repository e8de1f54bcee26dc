// The page's data, and the residencies of a memory map out of it; coopsim/study/figures/page_data.py packs them.

const DATA = JSON.parse(byId("data").textContent);
const RECOMPUTED = 1, EARLIER = 2, EVICTED = 4;
const GRANULE = 512;

function sums(differences) {
  let sum = 0;
  return differences.map((d) => (sum += d));
}

async function inflate(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// The residencies of each step of a replay that is kept, unpacked when first asked for.
const unpacked = new Map();
function residencies(replay) {
  if (!unpacked.has(replay)) {
    unpacked.set(replay, inflate(replay.residencies).then((steps) => steps.map((c) => {
      const begin = sums(c.begin);
      return {
        begin,
        end: begin.map((t, i) => t + c.length[i]),
        low: sums(c.address).map((a) => a * GRANULE),
        bytes: c.bytes.map((n) => n * GRANULE),
        storage: c.storage,
        op: sums(c.op),
        flags: c.flags,
      };
    })));
  }
  return unpacked.get(replay);
}

// The index of a residency's look among DATA.roles: its role's, or the last, of what was recomputed.
function look(trace, step, i) {
  if (step.flags[i] & RECOMPUTED) return DATA.roles.length - 1;
  return role(trace, step, i);
}

function role(trace, step, i) {
  return step.storage[i] < 0 ? DATA.roles.length - 2 : trace.role_of[step.storage[i]];
}

// What there is to say of a residency: a heading, and lines.
function described(trace, step, i) {
  const flags = step.flags[i], op = step.op[i];
  const what = step.storage[i] < 0 ? "a temporary" : `storage ${step.storage[i]}`;
  const lines = [`${what}, ${bytes(step.bytes[i])} at ${bytes(step.low[i])}`];
  if (op >= 0) {
    const name = trace.words[trace.ops.name[op]], module = trace.words[trace.ops.module[op]];
    const by = step.storage[i] < 0 ? "of" : flags & RECOMPUTED ? "made again by" : "made by";
    lines.push(`${by} op ${op}, ${name}${module ? ` in ${module}` : ""} (${trace.phases[trace.phase_of[op]]})`);
  } else {
    lines.push("there when the replay starts");
  }
  const since = flags & EARLIER ? "from an earlier step" : `from ${time(step.begin[i])}`;
  lines.push(`${since} to ${time(step.end[i])}${flags & EVICTED ? ", then evicted" : ""}`);
  const again = flags & RECOMPUTED ? ", recomputed" : "";
  return { heading: `${DATA.roles[role(trace, step, i)].label}${again}`, lines };
}
