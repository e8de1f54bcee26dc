// Curves over the memory ratio: the mean of neighbouring budgets, their range as a shade.

const MARKS = {
  o: () => "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z",
  s: () => corners(4, 45),
  D: () => corners(4, 0),
  "^": () => corners(3, -90),
  v: () => corners(3, 90),
  "<": () => corners(3, 180),
  ">": () => corners(3, 0),
  p: () => corners(5, -90),
  h: () => corners(6, 0),
  P: () => "M-4.5,0H4.5M0,-4.5V4.5",
  X: () => "M-3.5,-3.5L3.5,3.5M-3.5,3.5L3.5,-3.5",
};

function corners(n, turn) {
  const angle = (k) => ((turn + (360 * k) / n) * Math.PI) / 180;
  const at = Array.from({ length: n }, (_, k) => `${(5 * Math.cos(angle(k))).toFixed(2)},${(5 * Math.sin(angle(k))).toFixed(2)}`);
  return `M${at.join("L")}Z`;
}

function mark(policy, hollow, place = "") {
  const color = seen(policy.color);
  const attributes = { d: MARKS[policy.marker](), stroke: color, "stroke-width": 1.6, fill: hollow ? ink("page") : color };
  return svg("path", place ? { ...attributes, transform: place } : attributes);
}

function cross(color, x, y) {
  return svg("path", { d: MARKS.X(), stroke: color, "stroke-width": 2, transform: `translate(${x},${y})` });
}

// One curve's line, shade and marks. Points: [ratio, neighbours, fits, mean, least, greatest], the ratio ascending.
// A policy that fits nowhere has crosses at the height `floor`.
function curve(policy, points, x, y, floor) {
  const color = seen(policy.color);
  if (points.every((p) => p[2] === 0)) return svg("g", {}, ...points.map((p) => cross(color, x(p[0]), floor)));
  const drawn = [];
  let run = [];
  for (const p of [...points, null]) {
    if (p && p[3] !== null) {
      run.push(p);
      continue;
    }
    const line = (at) => run.map((q) => `${x(q[0]).toFixed(1)},${y(q[at]).toFixed(1)}`);
    if (run.length) {
      drawn.push(svg("path", { d: `M${[...line(4), ...line(5).reverse()].join("L")}Z`, fill: color, opacity: 0.2 }));
      drawn.push(svg("path", { d: `M${line(3).join("L")}`, fill: "none", stroke: color, "stroke-width": 1.8 }));
    }
    run = [];
  }
  points.forEach((p, k) => {
    if (p[3] !== null) drawn.push(mark(policy, p[2] < p[1], `translate(${x(p[0])},${y(p[3])})`));
    const beside = [points[k + 1], points[k - 1]].find((q) => q && q[3] !== null);
    if (p[2] === 0 && beside) {
      const [left, right, at] = [x(p[0]), x(beside[0]), y(beside[3])];
      drawn.push(svg("path", { d: `M${left},${at}H${right}`, stroke: color, "stroke-dasharray": "2 3" }));
      drawn.push(cross(color, left, at));
    }
  });
  return svg("g", {}, ...drawn);
}

// One chart. quantity: { key, name, low, show }; choose(ratio) is called where it is clicked.
function chart(box, trace, quantity, chosen, choose) {
  const width = box.clientWidth, height = 240;
  const [left, right, top, bottom] = [52, 10, 26, 38];
  const points = DATA.policies.map((p) => trace.curves[p.name][quantity.key]);
  const known = points.flat().filter((p) => p[3] !== null);
  const highest = Math.max(quantity.low + quantity.least, ...known.map((p) => p[5]));
  const scale = ticks(quantity.low, highest, 5);
  const most = Math.max(highest, scale.at.at(-1)) + 0.04 * (highest - quantity.low);
  const ratios = trace.budgets.map((b) => b.ratio);
  const pad = Math.max(0.03, 0.05 * (Math.max(...ratios) - Math.min(...ratios)));
  const [first, last] = [Math.min(...ratios) - pad, Math.max(...ratios) + pad];
  const x = (r) => left + ((r - first) / (last - first)) * (width - left - right);
  const y = (v) => height - bottom - ((v - quantity.low) / (most - quantity.low)) * (height - top - bottom);

  const parts = [svg("text", { x: left, y: 14, class: "name" }, quantity.name)];
  for (const v of scale.at) {
    parts.push(svg("path", { d: `M${left},${y(v)}H${width - right}`, class: "grid" }));
    parts.push(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, quantity.show(v, scale.decimals)));
  }
  for (const r of ticks(first, last, Math.max(2, width / 70)).at) {
    parts.push(svg("text", { x: x(r), y: height - bottom + 16, "text-anchor": "middle" }, `${Math.round(100 * r)} %`));
  }
  parts.push(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "budget (% of the peak without eviction)"));
  parts.push(svg("path", { d: `M${x(chosen)},${top}V${height - bottom}`, class: "chosen" }));
  for (let k = DATA.policies.length - 1; k >= 0; k -= 1) { // the first in the legend comes on top
    parts.push(curve(DATA.policies[k], points[k], x, y, height - bottom - 8 - 11 * k));
  }
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${quantity.name} by budget; the table below has the numbers` }, ...parts);
  drawing.addEventListener("click", (e) => {
    const at = ((e.clientX - drawing.getBoundingClientRect().left) / width) * width;
    choose(first + ((at - left) / (width - left - right)) * (last - first));
  });
  box.replaceChildren(drawing);
}
