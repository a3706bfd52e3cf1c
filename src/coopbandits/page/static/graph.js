// Agents and links on a canvas. What is drawn here can also be read in the table of agents.

import { colour, letter, OTHERS, textOn, theme } from "./palette.js";

const MARGIN = 26;
const STRETCH = 1.5;
const NAMED = 24; // up to so many agents have their names beside them

export class Graph {
  constructor(canvas, select) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.backdrop = document.createElement("canvas"); // the links, which change less often
    this.points = [];
    this.chosen = -1;
    this.hovered = -1;
    canvas.addEventListener("click", (event) => select(this.at(event)));
    canvas.addEventListener("pointermove", (event) => this.hover(this.at(event)));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("keydown", (event) => this.key(event, select));
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  setScene(names, links, places) {
    Object.assign(this, { names, links, places });
    this.resize();
  }

  // `agents`: slot of the option preferred and whether up, per agent; `states`: of the links.
  setState(slots, up, states) {
    Object.assign(this, { slots, up });
    const key = states.map((link) => `${link.state}${Math.round(Math.log2(1 + (link.per_second ?? 0)))}`).join();
    if (key !== this.linkKey) {
      this.linkKey = key;
      this.states = states;
      this.stale = true;
    }
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!this.names || !width || !height) return;
    this.scale = Math.min(devicePixelRatio || 1, 2);
    for (const surface of [this.canvas, this.backdrop]) {
      surface.width = Math.round(width * this.scale);
      surface.height = Math.round(height * this.scale);
    }
    const [tall, wide] = [spread(this.places, 1), spread(this.places, 0)];
    const inner = [width - 2 * MARGIN, height - 2 * MARGIN];
    const room = [inner[0] / (wide || 1e-9), inner[1] / (tall || 1e-9)];
    const unit = Math.min(...room, Math.max(...inner));
    const [across, down] = room.map((most) => Math.min(most, STRETCH * unit)); // to fill the card
    this.points = this.places.map(([x, y]) => [width / 2 + (x - 0.5) * across, height / 2 + (y - 0.5) * down]);
    this.radius = Math.max(2.2, Math.min(17, 0.46 * this.crowding(Math.min(...inner))));
    this.stale = true;
    this.draw();
  }

  // How close agents stand to their nearest, all but the most crowded tenth of them.
  crowding(side) {
    const room = (1.2 * side) / Math.sqrt(this.points.length || 1);
    const nearest = this.points.map(([x, y], i) => {
      let least = room * room;
      this.points.forEach(([a, b], j) => {
        const distance = (a - x) ** 2 + (b - y) ** 2;
        if (distance < least && j !== i) least = distance;
      });
      return least;
    });
    return Math.sqrt(nearest.sort((p, q) => p - q)[nearest.length * 0.1 | 0] ?? room * room);
  }

  draw() {
    if (!this.points.length || !this.slots) return;
    const { context, before } = this;
    const plain = this.names.length > NAMED && this.chosen < 0 && this.hovered < 0;
    const few = plain && before?.plain && !this.stale;
    const changed = (i) => !few || before.slots[i] !== this.slots[i] || before.up[i] !== this.up[i];
    if (this.stale) this.drawLinks();
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (!few) {
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      context.drawImage(this.backdrop, 0, 0);
    }
    context.scale(this.scale, this.scale);
    this.drawRing(this.chosen, 5, theme.ink, 2.5);
    this.drawRing(this.hovered, 3, theme.muted, 1.5);
    this.drawDiscs(context, changed);
    this.drawAbsent(context, changed);
    this.drawText(context, changed);
    this.before = { plain, slots: this.slots, up: this.up }; // where little changes, little is drawn
  }

  drawLinks() {
    this.stale = false;
    const context = this.backdrop.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.backdrop.width, this.backdrop.height);
    const most = this.states?.reduce((high, link) => Math.max(high, link.per_second ?? 0), 0) || 0;
    const groups = new Map();
    this.links.forEach(([a, b], at) => {
      const link = this.states?.[at] ?? { state: "up" };
      const share = most && link.per_second ? link.per_second / most : 0;
      const key = `${link.state} ${Math.round(3 * share)}`;
      if (!groups.has(key)) groups.set(key, new Path2D());
      groups.get(key).moveTo(...this.points[a]);
      groups.get(key).lineTo(...this.points[b]);
    });
    const thin = this.links.length > 3000 ? 0.5 : 1;
    for (const [key, path] of groups) {
      const [state, traffic] = key.split(" ");
      context.setLineDash(state === "down" ? [5, 4] : state === "unknown" ? [2, 4] : []);
      context.strokeStyle = state === "down" ? theme.bad : theme.link;
      context.lineWidth = state === "up" ? thin * (1 + 0.7 * Number(traffic)) : 1.3 * thin;
      context.stroke(path);
    }
  }

  drawDiscs(context, changed) {
    const paths = Array.from({ length: OTHERS + 1 }, () => new Path2D());
    this.points.forEach(([x, y], i) => {
      if (!this.up[i] || !changed(i)) return;
      const path = paths[this.slots[i]];
      path.moveTo(x + this.radius, y);
      path.arc(x, y, this.radius, 0, 7);
    });
    context.setLineDash([]);
    context.lineWidth = this.radius > 5 ? 2 : 0.8;
    context.strokeStyle = theme.surface;
    paths.forEach((path, slot) => {
      context.fillStyle = colour(slot);
      context.fill(path);
      context.stroke(path);
    });
  }

  drawAbsent(context, changed) {
    const path = new Path2D();
    const arm = this.radius * 0.55;
    this.points.forEach(([x, y], i) => {
      if (this.up[i] || !changed(i)) return;
      path.moveTo(x + this.radius, y);
      path.arc(x, y, this.radius, 0, 7);
      path.moveTo(x - arm, y - arm);
      path.lineTo(x + arm, y + arm);
      path.moveTo(x + arm, y - arm);
      path.lineTo(x - arm, y + arm);
    });
    context.fillStyle = theme.surface;
    context.fill(path);
    context.lineWidth = Math.max(1, this.radius / 7);
    context.strokeStyle = theme.bad;
    context.stroke(path);
  }

  drawText(context, changed) {
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (this.radius >= 8) {
      context.font = `700 ${Math.round(this.radius)}px system-ui, sans-serif`;
      this.points.forEach(([x, y], i) => {
        if (!this.up[i] || !changed(i)) return;
        context.fillStyle = textOn(colour(this.slots[i]));
        context.fillText(letter(this.slots[i]), x, y + 1);
      });
    }
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = theme.ink;
    context.lineWidth = 3;
    context.strokeStyle = theme.surface;
    const taken = this.points.map(([x, y]) => [x - this.radius, y - this.radius, x + this.radius, y + this.radius]);
    for (const i of [this.chosen, this.hovered]) if (this.points[i]) this.drawName(context, i, taken, true);
    if (this.names.length <= NAMED) this.points.forEach((_, i) => {
      if (i !== this.chosen && i !== this.hovered) this.drawName(context, i, taken, false);
    });
  }

  // Writes a name below, above or beside its disc, where nothing else is; else only if it must be there.
  drawName(context, i, taken, must) {
    const name = this.names[i].length > 16 ? `${this.names[i].slice(0, 15)}…` : this.names[i];
    const half = context.measureText(name).width / 2 + 2;
    const [x, y] = this.points[i];
    const inside = Math.max(half, Math.min(this.canvas.clientWidth - half, x));
    const far = this.radius + 10;
    const places = [[inside, y + far], [inside, y - far], [x + half + this.radius + 3, y], [x - half - this.radius - 3, y]]
      .map(([at, height]) => [at, height, [at - half, height - 7, at + half, height + 7]]);
    const [at, height, box] = places.find((place) => this.isFree(place[2], taken)) ?? (must ? places[Number(y + far > this.canvas.clientHeight - 8)] : []);
    if (!box) return;
    taken.push(box);
    context.strokeText(name, at, height);
    context.fillText(name, at, height);
  }

  isFree([left, top, right, bottom], taken) {
    if (left < 0 || top < 0 || right > this.canvas.clientWidth || bottom > this.canvas.clientHeight) return false;
    return !taken.some((other) => left < other[2] && right > other[0] && top < other[3] && bottom > other[1]);
  }

  drawRing(i, gap, style, width) {
    if (i < 0 || !this.points[i]) return;
    const context = this.context;
    context.setLineDash([]);
    context.beginPath();
    context.arc(...this.points[i], this.radius + gap, 0, 7);
    context.lineWidth = width;
    context.strokeStyle = style;
    context.stroke();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.nearest(event.clientX - box.left, event.clientY - box.top, Math.max(14, this.radius + 6));
  }

  nearest(x, y, within) {
    let found = -1;
    let best = within * within;
    this.points.forEach(([a, b], i) => {
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < best) [best, found] = [distance, i];
    });
    return found;
  }

  hover(i) {
    if (i === this.hovered) return;
    this.hovered = i;
    this.canvas.title = i < 0 ? "" : this.names[i].slice(0, 300);
    this.draw();
  }

  // Arrows go to the next agent in that direction, Home and End to the first and last.
  key(event, select) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const jump = { Home: 0, End: this.names.length - 1, Escape: -1 }[event.key];
    if (way) select(this.chosen < 0 ? 0 : this.towards(way));
    else if (jump !== undefined) select(jump);
    else return;
    event.preventDefault();
  }

  towards([dx, dy]) {
    const [x, y] = this.points[this.chosen];
    let found = this.chosen;
    let best = Infinity;
    this.points.forEach(([a, b], i) => {
      const ahead = (a - x) * dx + (b - y) * dy;
      const aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
      const cost = ahead + 2 * aside;
      if (ahead > 0.5 && i !== this.chosen && cost < best) [best, found] = [cost, i];
    });
    return found;
  }
}

function spread(places, axis) {
  const values = places.map((place) => place[axis]);
  return values.reduce((a, b) => Math.max(a, b), -Infinity) - values.reduce((a, b) => Math.min(a, b), Infinity);
}
