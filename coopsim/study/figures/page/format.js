// Figures as people read them; the same forms as coopsim/base/text.py.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(n) {
  const power = n < 1024 ? 0 : Math.min(Math.floor(Math.log2(n) / 10), 4);
  return `${power ? +(n / 1024 ** power).toPrecision(4) : n} ${UNITS[power]}`;
}

function time(ns) {
  return ns >= 1e6 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(2)} µs`;
}

function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

function counted(n, what) {
  return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}

function percent(x, digits = 1) {
  return x === null ? "–" : `${(100 * x).toFixed(digits)} %`;
}

function overhead(x) {
  return x === null ? "–" : `${(100 * (x - 1)).toFixed(1)} %`;
}

// At most about `most` tidy numbers from low to high, and the decimals that they need.
function ticks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step);
  return { at: found, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}
