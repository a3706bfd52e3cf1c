// Four curves over time. Each is drawn by uPlot; marks are events, the veil covers the future.

import uPlot from "./vendor/uplot.js";
import { newest } from "./model.js";
import { DASHES, theme } from "./palette.js";
import { clock, digits, make, named, put } from "./text.js";

const MOST_MARKS = 40;

// Frames of a stored run are shorter in the beginning. Rounds are shown by their square root, so
// that frames are equally wide and the line of the present moves evenly.
const ROUNDS = { time: false, distr: 100, fwd: (x) => Math.sqrt(Math.max(0, x)), bwd: (x) => x * x, range: (_, low, high) => [0, high ?? 1] };
const TIME_AXIS = { space: 76, values: (_, ticks) => ticks.map(clock) };
const ROUND_AXIS = { splits: (plot) => ticksOf(plot.scales.x.max), filter: (_, ticks) => ticks, values: (_, ticks) => ticks.map((tick) => digits(tick)) };
const ticksOf = (most) => [0, 1 / 16, 1 / 4, 9 / 16, 1].map((part) => Number((part * most).toPrecision(part === 1 ? 4 : 1)));

export class Curve {
  // `values(number)` shows a number of the vertical axis; `seek(x)` is told of clicks, if given.
  constructor(parent, heading, note, { values, seek, range }) {
    Object.assign(this, { values, seek, range, marks: [], now: null, key: "" });
    this.note = make("span");
    this.heading = make("h3", {}, heading, this.note);
    put(this.note, note ? ` · ${note}` : "");
    this.holder = make("div", { className: "plot" });
    this.tip = make("div", { className: "tip", hidden: true });
    this.figure = make("figure", { className: "chart" }, this.heading, this.holder, this.tip);
    parent.append(this.figure);
    new ResizeObserver(() => this.fit()).observe(this.holder);
  }

  // `lines`: {label, colour(), dash, values, low, high}; bands go from low to high.
  show(x, lines, { marks = [], stages = null, now = null, time = false } = {}) {
    Object.assign(this, { lines, stages, marks: newest(marks, MOST_MARKS), now });
    const data = [x];
    for (const line of lines) {
      data.push(line.values);
      if (line.low) data.push(line.low, line.high);
    }
    const key = JSON.stringify([time, lines.map((line) => [line.label, line.dash, Boolean(line.low)])]);
    if (key !== this.key) {
      this.key = key;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines, time), data, this.holder);
    } else {
      this.plot.setData(data);
    }
    this.data = data;
  }

  moveTo(now) {
    this.now = now;
    this.plot?.redraw(false, false);
  }

  redraw() {
    this.plot?.redraw(false, true);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.holder;
    if (this.plot && width && height) this.plot.setSize({ width, height });
  }

  options(lines, time) {
    const series = [{}];
    const bands = [];
    for (const line of lines) {
      const stroke = () => line.colour();
      series.push({ label: line.label, stroke, width: 2, dash: line.dash, points: { show: false }, spanGaps: true });
      if (!line.low) continue;
      const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
      series.push({ ...edge }, { ...edge });
      bands.push({ series: [series.length - 1, series.length - 2], fill: () => `${line.colour()}2e` });
    }
    const axis = { stroke: () => theme.muted, font: "11px system-ui, sans-serif", grid: { stroke: () => theme.line, width: 1 }, ticks: { show: false } };
    return {
      width: this.holder.clientWidth || 300, height: this.holder.clientHeight || 180, series, bands,
      legend: { show: false }, padding: [8, 22, 0, 0],
      scales: { x: time ? { time } : ROUNDS, y: { range: (_, low, high) => this.bounds(low, high) } },
      axes: [{ ...axis, size: 26, ...(time ? TIME_AXIS : ROUND_AXIS) }, { ...axis, size: 54, values: (_, ticks) => ticks.map((tick) => this.values(tick)) }],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      hooks: { draw: [(plot) => this.decorate(plot)], setCursor: [(plot) => this.explain(plot)], ready: [(plot) => this.listen(plot)] },
    };
  }

  bounds(low, high) {
    const wanted = this.range?.(this.data, low, high);
    if (wanted) return wanted;
    if (low === null || high === null) return [0, 1];
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  }

  listen(plot) {
    plot.over.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    if (this.seek) plot.over.addEventListener("click", () => this.seek(plot.cursor.idx));
  }

  decorate(plot) {
    const { ctx: context, bbox: box } = plot;
    const place = (x) => plot.valToPos(x, "x", true);
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    context.strokeStyle = theme.muted;
    context.lineWidth = devicePixelRatio;
    context.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    context.beginPath();
    for (const mark of this.marks) {
      context.moveTo(place(mark.x), box.top);
      context.lineTo(place(mark.x), box.top + box.height);
    }
    context.stroke();
    this.drawStages(context, box, place, plot.scales.x.max);
    if (this.now !== null) {
      const at = place(this.now);
      context.fillStyle = theme.veil;
      context.fillRect(at, box.top, box.left + box.width - at, box.height);
      context.setLineDash([]);
      context.strokeStyle = theme.ink;
      context.lineWidth = 1.5 * devicePixelRatio;
      context.beginPath();
      context.moveTo(at, box.top);
      context.lineTo(at, box.top + box.height);
      context.stroke();
    }
    this.writeTags(plot, context, box);
    context.restore();
  }

  // A tick where a stage ends, and a line where they would be too close to be told apart.
  drawStages(context, box, place, last) {
    if (!this.stages) return;
    const { first, length } = this.stages;
    const bottom = box.top + box.height;
    context.setLineDash([]);
    context.beginPath();
    let end = first;
    for (; end <= last && place(end) - place(end - length) > 2 * devicePixelRatio; end += length) {
      context.moveTo(place(end), bottom);
      context.lineTo(place(end), bottom - 7 * devicePixelRatio);
    }
    if (end <= last) {
      context.moveTo(place(end), bottom - 4 * devicePixelRatio);
      context.lineTo(place(last), bottom - 4 * devicePixelRatio);
    }
    context.stroke();
  }

  // The names of lines that no legend tells, at their right ends and not on top of each other.
  writeTags(plot, context, box) {
    const tagged = this.lines.filter((line) => line.tag && line.values.length);
    const places = tagged.map((line) => [plot.valToPos(line.values.findLast((value) => value !== null) ?? 0, "y", true), line.label]);
    const size = 12 * devicePixelRatio;
    context.font = `600 ${size}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.textBaseline = "alphabetic";
    context.lineWidth = 4 * devicePixelRatio;
    context.strokeStyle = theme.surface;
    context.fillStyle = theme.ink;
    context.setLineDash([]);
    const heights = spread(places.sort((a, b) => b[0] - a[0]).map(([y]) => y - size / 3), box.top + size, box.top + box.height, 1.15 * size);
    places.forEach(([, label], at) => {
      const text = label.length > 24 ? `${label.slice(0, 23)}…` : label;
      context.strokeText(text, box.left + box.width - size / 2, heights[at]);
      context.fillText(text, box.left + box.width - size / 2, heights[at]);
    });
  }

  explain(plot) {
    const at = plot.cursor.idx;
    const x = this.data?.[0][at];
    if (at === null || at === undefined || x === undefined || plot.cursor.left < 0) {
      this.tip.hidden = true;
      return;
    }
    const told = this.lines.map((line) => [line.label, line.values[at]]).filter(([, value]) => value !== null && value !== undefined);
    told.sort((a, b) => b[1] - a[1]);
    const head = plot.scales.x.time ? clock(x) : `round ${digits(x)}`;
    const rows = told.slice(0, 9).map(([label, value]) => make("div", {}, named(label), make("b", { textContent: this.values(value) })));
    this.tip.replaceChildren(make("div", { textContent: head }), ...rows);
    this.tip.hidden = false;
    const left = plot.cursor.left + plot.over.offsetLeft;
    const room = this.figure.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(4, Math.min(room, left > room / 2 ? left - this.tip.offsetWidth - 4 : left + 24))}px`;
    this.tip.style.top = "2.2rem";
  }
}

export const dash = (at) => DASHES[at % DASHES.length];

// Moves heights, which fall, apart by `gap`: up from the bottom, and where that ends above the top, down again.
export function spread(heights, top, bottom, gap) {
  const moved = [];
  let last = bottom + gap;
  for (const y of heights) moved.push((last = Math.min(y, last - gap)));
  let least = top;
  for (let at = moved.length - 1; at >= 0; at -= 1, least += gap) moved[at] = Math.max(moved[at], least);
  return moved;
}
