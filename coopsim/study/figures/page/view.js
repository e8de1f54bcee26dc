// What part of a map is seen: shares, from 0 to 1, of its time (x, to the right) and addresses (y, up).

const CLOSEST = 1e-5;

class View {
  constructor() {
    this.reset();
  }

  reset() {
    this.x = [0, 1];
    this.y = [0, 1];
  }

  get zoomed() {
    return this.x[1] - this.x[0] < 1 || this.y[1] - this.y[0] < 1;
  }

  // Show `factor` times as much (less, if below 1), with the share `at` of the whole staying where it is.
  zoom(axis, factor, at) {
    const [low, high] = this[axis];
    const span = Math.min(1, Math.max(CLOSEST, (high - low) * factor));
    this.put(axis, at - ((at - low) / (high - low)) * span, span);
  }

  move(axis, by) {
    const [low, high] = this[axis];
    this.put(axis, low + by, high - low);
  }

  put(axis, low, span) {
    const from = Math.min(Math.max(0, low), 1 - span);
    this[axis] = [from, from + span];
  }

  // Move so that a share of the whole is seen.
  include(axis, at) {
    const [low, high] = this[axis];
    if (at < low) this.move(axis, at - low);
    if (at > high) this.move(axis, at - high);
  }
}
