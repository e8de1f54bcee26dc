// The axes of a memory map, its phases and its cross.

const BYTES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
const TIME = [[1e6, "ms"], [1e3, "µs"]];

function unitFor(units, most) {
  return units.find(([size]) => most >= size) || units.at(-1);
}

function paintAxes(map, c) {
  const { length, budget, phases } = map.shown;
  const { width, height } = map.inside;
  c.strokeStyle = ink("quiet");
  c.lineWidth = 1;
  c.strokeRect(MARGIN.left, MARGIN.top, width, height);
  paintTicks(map, c, "x", TIME, length, width / 75, "GPU time of the step");
  paintTicks(map, c, "y", BYTES, budget, height / 45, "address");
  paintPhases(map, c, Object.entries(phases).sort((a, b) => a[1] - b[1]), length);
  if (document.activeElement === map.canvas && map.byKeys) {
    const [x, y] = [map.px(map.cross[0]), map.py(map.cross[1])];
    c.strokeStyle = ink("text");
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(x - 9, y);
    c.lineTo(x + 9, y);
    c.moveTo(x, y - 9);
    c.lineTo(x, y + 9);
    c.stroke();
  }
}

function paintTicks(map, c, axis, units, whole, most, name) {
  const { width, height } = map.inside, bottom = MARGIN.top + height;
  if (!whole) return;
  const [size, unit] = unitFor(units, whole);
  const { at, decimals } = ticks((map.view[axis][0] * whole) / size, (map.view[axis][1] * whole) / size, Math.max(2, most));
  c.fillStyle = ink("quiet");
  c.textAlign = axis === "x" ? "center" : "right";
  for (const v of at) {
    const share = (v * size) / whole;
    const [x, y] = axis === "x" ? [map.px(share), bottom + 15] : [MARGIN.left - 5, map.py(share) + 4];
    c.fillText(v.toFixed(decimals), axis === "x" ? Math.min(x, MARGIN.left + width - 8) : x, y);
  }
  c.textAlign = axis === "x" ? "center" : "left";
  if (axis === "x") c.fillText(`${name} (${unit})`, MARGIN.left + width / 2, bottom + 31);
  else c.fillText(`${name} (${unit})`, 0, MARGIN.top - 9);
}

// A dotted line where a phase begins, and its name above where there is room.
function paintPhases(map, c, phases, length) {
  const left = MARGIN.left, right = left + map.inside.width;
  let free = left + c.measureText("address (GiB)").width - MARGIN.left + 14;
  phases.forEach(([name, begin], k) => {
    const x0 = Math.max(left, map.px(begin / length));
    const x1 = Math.min(right, k + 1 < phases.length ? map.px(phases[k + 1][1] / length) : right);
    if (x0 > left && x0 < right) {
      c.save();
      c.setLineDash([2, 3]);
      c.strokeStyle = ink("text");
      c.beginPath();
      c.moveTo(x0, MARGIN.top);
      c.lineTo(x0, MARGIN.top + map.inside.height);
      c.stroke();
      c.restore();
    }
    const half = c.measureText(name).width / 2;
    const x = Math.max(free + half, Math.min((x0 + x1) / 2, right - half));
    if (x1 <= x0 || x + half > right + 1) return;
    c.fillStyle = ink("text");
    c.textAlign = "center";
    c.fillText(name, x, MARGIN.top - 9);
    free = x + half + 8;
  });
}
