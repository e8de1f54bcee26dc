// How wheel, pointers, buttons and keys move the view of a memory map.

MemoryMap.prototype.listen = function listen() {
  const { canvas } = this;
  const place = (e) => {
    const r = canvas.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top];
  };

  canvas.addEventListener("wheel", (e) => {
    if (e.deltaY > 0 && !this.view.zoomed) return; // all is seen: the page may scroll
    e.preventDefault();
    const by = Math.sign(e.deltaY || e.deltaX) * Math.min(Math.abs(e.deltaY || e.deltaX), 120);
    this.zoom(1.0025 ** by, this.share(...place(e)), e.shiftKey ? "x" : e.altKey ? "y" : "xy");
  }, { passive: false });

  canvas.addEventListener("pointerdown", (e) => {
    this.byKeys = false;
    this.pointers.set(e.pointerId, place(e));
    if (e.pointerType === "mouse" || this.view.zoomed) canvas.setPointerCapture(e.pointerId);
    if (this.pointers.size === 1) this.inspect(this.share(...place(e)));
  });

  canvas.addEventListener("pointermove", (e) => {
    const now = place(e), before = this.pointers.get(e.pointerId);
    if (!before) {
      if (e.pointerType === "mouse") this.inspect(this.share(...now));
      return;
    }
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
      const apart = (p) => Math.max(10, Math.hypot(p[0] - other[0], p[1] - other[1]));
      this.zoom(apart(before) / apart(now), this.share((now[0] + other[0]) / 2, (now[1] + other[1]) / 2));
    } else if (this.view.zoomed) {
      this.card.hidden = true;
      this.drag(now[0] - before[0], now[1] - before[1]);
    }
    this.pointers.set(e.pointerId, now);
  });

  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (e) => this.pointers.delete(e.pointerId));
  }
  canvas.addEventListener("pointerleave", (e) => {
    if (e.pointerType === "mouse" && !this.pointers.size) this.leave();
  });
  canvas.addEventListener("dblclick", (e) => this.zoom(0.5, this.share(...place(e))));
  canvas.addEventListener("blur", () => this.leave());
  canvas.addEventListener("keydown", (e) => this.key(e));
};

MemoryMap.prototype.key = function key(e) {
  const steps = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowDown: ["y", -1], ArrowUp: ["y", 1] };
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (steps[e.key]) {
    const [axis, sign] = steps[e.key];
    const k = axis === "x" ? 0 : 1, span = this.view[axis][1] - this.view[axis][0];
    this.cross[k] = Math.min(1, Math.max(0, this.cross[k] + sign * span * (e.shiftKey ? 0.1 : 0.02)));
    this.view.include(axis, this.cross[k]);
  } else if (e.key === "+" || e.key === "=") {
    this.zoom(0.7, this.cross);
  } else if (e.key === "-") {
    this.zoom(1 / 0.7, this.cross);
  } else if (e.key === "0" || e.key === "Home") {
    this.view.reset();
  } else if (e.key === "Escape") {
    this.byKeys = false;
    this.leave();
    return;
  } else {
    return;
  }
  e.preventDefault();
  this.byKeys = true;
  this.inspect(this.cross);
  this.draw();
};
