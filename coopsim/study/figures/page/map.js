// The memory map on a canvas: a rectangle per residency, zoomed and moved by wheel, pointers and keys.

const TICK = "#000000"; // at the right end of what was evicted, within it: on a light colour in a dark page too
const MARGIN = { left: 58, right: 8, top: 22, bottom: 36 };

class MemoryMap {
  constructor(box) {
    this.box = box;
    this.canvas = box.querySelector("canvas");
    this.card = box.querySelector(".card");
    this.view = new View();
    this.cross = [0.5, 0.5];
    this.pointers = new Map();
    this.queued = false;
    new ResizeObserver(() => this.draw()).observe(box);
    dark.addEventListener("change", () => this.draw());
    this.listen();
  }

  // Draw a step of a replay. shown: { name, trace, step, length, budget, phases, note }; step null: nothing to show.
  show(shown) {
    this.shown = shown;
    this.canvas.setAttribute("aria-label", `memory map: ${shown.name}`);
    this.card.hidden = true;
    this.picked = null;
    this.draw();
  }

  reset() {
    this.view.reset();
    this.draw();
  }

  draw() {
    if (this.queued || !this.shown) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  // Pixels of the drawing's inside, and shares of the whole to and from pixels.
  get inside() {
    return { width: this.box.clientWidth - MARGIN.left - MARGIN.right, height: this.box.clientHeight - MARGIN.top - MARGIN.bottom };
  }

  px(x) {
    return MARGIN.left + ((x - this.view.x[0]) / (this.view.x[1] - this.view.x[0])) * this.inside.width;
  }

  py(y) {
    return MARGIN.top + (1 - (y - this.view.y[0]) / (this.view.y[1] - this.view.y[0])) * this.inside.height;
  }

  share(px, py) {
    const { width, height } = this.inside, { x, y } = this.view;
    const within = (v) => Math.min(1, Math.max(0, v));
    return [
      x[0] + within((px - MARGIN.left) / width) * (x[1] - x[0]),
      y[0] + within(1 - (py - MARGIN.top) / height) * (y[1] - y[0]),
    ];
  }

  paint() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const c = this.canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    this.canvas.classList.toggle("zoomed", this.view.zoomed);
    this.canvas.dataset.view = [...this.view.x, ...this.view.y].map((v) => v.toFixed(6)).join(" ");
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, MARGIN.top, this.inside.width, this.inside.height);
    c.clip();
    if (this.shown.step) this.paintStays(c);
    c.restore();
    paintAxes(this, c);
    if (this.shown.note) {
      c.fillStyle = ink("text");
      c.textAlign = "center";
      c.fillText(this.shown.note, MARGIN.left + this.inside.width / 2, MARGIN.top + this.inside.height / 2);
    }
  }

  paintStays(c) {
    const { trace, step, length, budget } = this.shown;
    const looks = DATA.roles.map(() => []);
    for (let i = 0; i < step.begin.length; i += 1) {
      const x0 = this.px(step.begin[i] / length), x1 = this.px(step.end[i] / length);
      const y1 = this.py(step.low[i] / budget), y0 = this.py((step.low[i] + step.bytes[i]) / budget);
      if (x1 < MARGIN.left || x0 > this.box.clientWidth || y1 < MARGIN.top || y0 > this.box.clientHeight) continue;
      looks[look(trace, step, i)].push([x0, y0, x1 - x0, y1 - y0, i]);
    }
    c.strokeStyle = ink("page");
    c.lineWidth = 0.6;
    looks.forEach((rectangles, k) => {
      c.fillStyle = seen(DATA.roles[k].color);
      for (const [x, y, w, h] of rectangles) {
        c.fillRect(x, y, Math.max(w, 0.4), Math.max(h, 0.4));
        if (w > 4 && h > 4) c.strokeRect(x, y, w, h);
      }
    });
    c.fillStyle = TICK;
    c.strokeStyle = ink("text");
    c.lineWidth = 1.5;
    for (const [x, y, w, h, i] of looks.flat()) {
      if (step.flags[i] & EVICTED) c.fillRect(x + w - 1.2, y, 1.2, h);
      if (i === this.picked) c.strokeRect(x, y, w, h);
    }
  }

  // Say what is at a place of the whole; the card comes beside it.
  inspect([x, y]) {
    const { trace, step, length, budget } = this.shown;
    if (!step) return;
    const [t, a] = [x * length, y * budget];
    let [found, below, above] = [null, 0, budget];
    for (let i = 0; i < step.begin.length; i += 1) {
      if (t < step.begin[i] || t >= step.end[i]) continue;
      const high = step.low[i] + step.bytes[i];
      if (a >= step.low[i] && a < high) found = i;
      if (high <= a) below = Math.max(below, high);
      if (step.low[i] > a) above = Math.min(above, step.low[i]);
    }
    const free = { heading: "free", lines: [`a hole of ${bytes(above - below)} at ${bytes(below)}, at ${time(t)}`] };
    const said = found === null ? free : described(trace, step, found);
    this.card.replaceChildren(el("b", {}, said.heading), ...said.lines.map((line) => el("div", {}, line)));
    this.card.hidden = false;
    const [px, py] = [this.px(x), this.py(y)];
    const right = px > this.box.clientWidth / 2, low = py > this.box.clientHeight / 2;
    const room = this.box.clientWidth - this.card.offsetWidth;
    this.card.style.left = `${Math.max(0, Math.min(room, right ? px - this.card.offsetWidth - 14 : px + 14))}px`;
    this.card.style.top = `${low ? py - this.card.offsetHeight - 14 : py + 14}px`;
    if (found !== this.picked) {
      this.picked = found;
      this.draw();
    }
  }

  leave() {
    this.card.hidden = true;
    this.picked = null;
    this.draw();
  }

  zoom(factor, [x, y] = [(this.view.x[0] + this.view.x[1]) / 2, (this.view.y[0] + this.view.y[1]) / 2], axes = "xy") {
    if (axes.includes("x")) this.view.zoom("x", factor, x);
    if (axes.includes("y")) this.view.zoom("y", factor, y);
    this.draw();
  }

  drag(dx, dy) {
    this.view.move("x", (-dx / this.inside.width) * (this.view.x[1] - this.view.x[0]));
    this.view.move("y", (dy / this.inside.height) * (this.view.y[1] - this.view.y[0]));
    this.draw();
  }
}
