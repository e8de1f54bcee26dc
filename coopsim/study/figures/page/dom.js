// Elements. What is said is always a text node: a name in a trace cannot become markup.

const byId = (id) => document.getElementById(id);
const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function pairs(list) {
  return list.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]);
}

// Name and value side by side in a grid whose cells are pairs.
function cells(list) {
  return list.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)));
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function channels(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

function luminance(color) {
  const [r, g, b] = channels(color).map((c) => (c <= 10 ? c / 3295 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The colour, or a lighter one of its hue where it would drown in a dark page.
function seen(color) {
  if (!dark.matches) return color;
  const ground = luminance(ink("page"));
  let found = color;
  while ((luminance(found) + 0.05) / (ground + 0.05) < 3.2) {
    found = `#${channels(found).map((c) => Math.round(c + 0.12 * (255 - c)).toString(16).padStart(2, "0")).join("")}`;
  }
  return found;
}
