// What the page knows: the scene, the present, and the past as far as it is kept. No DOM in here.

import { Slots } from "./palette.js";
import { isNumber } from "./text.js";

const POINTS = 600; // of the past of the whole
const STEP = 1; // seconds between two of them
const CELLS = 4_000_000; // numbers kept of the past of single agents
const EVENTS = 300;
const PARTS = ["share", "mean", "low", "high"];

// The newest of some events. Of whoever has most of them the oldest go first: however much one agent
// tells, it does not hide what happened to the others.
export function newest(events, most) {
  const kept = [...events];
  const counts = new Map();
  for (const { agent } of kept) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  while (kept.length > most) {
    const loudest = Math.max(...counts.values());
    const [{ agent }] = kept.splice(kept.findIndex((event) => counts.get(event.agent) === loudest), 1);
    counts.set(agent, loudest - 1);
  }
  return kept;
}

const none = (count) => Array.from({ length: count }, () => null);

export class Model {
  constructor() {
    this.scene = null;
    this.events = [];
    this.frame = 0;
  }

  // A new scene replaces everything but what lies in the past, if it has the same options.
  setScene(scene) {
    const before = this.scene;
    this.scene = scene;
    this.live = scene.source !== "simulation";
    this.names = scene.agents.map((agent) => agent.name);
    this.count = scene.agents.length;
    this.arms = scene.arms;
    this.size = scene.arms.length;
    this.links = scene.links;
    this.linkAt = new Map(scene.links.map(([a, b], at) => [`${a}-${b}`, at]));
    this.panels = this.live ? [scene.title] : scene.panels;
    this.agents = scene.agents.map((agent) => ({ policy: agent.policy, up: true, why: "", arm: -1 }));
    this.linkStates = scene.links.map(() => ({ state: "unknown", per_second: null, why: "" }));
    this.all = {};
    this.tracks = this.panels.map(() => null);
    const sameArms = before && before.source === scene.source && JSON.stringify(before.arms) === JSON.stringify(scene.arms);
    if (!sameArms) {
      this.slots = new Slots(this.size);
      this.events = [];
      this.clearPast();
    }
    const points = Math.floor(CELLS / (Math.max(1, this.count * this.size) * PARTS.length));
    this.rings = new Rings(this.count, this.size, Math.min(POINTS, points));
  }

  clearPast() {
    this.past = { t: [], share: [], mean: [], low: [], high: [], pulls_per_second: [], disagree: [] };
  }

  setHistory(history) {
    this.clearPast();
    for (const key of Object.keys(this.past)) this.past[key] = (history[key] ?? []).slice(-POINTS);
    this.events = [];
    this.addEvents(history.events ?? []);
    const weights = this.meanShares(this.past.share);
    if (weights) this.slots.choose(weights);
  }

  addEvents(events) {
    const known = new Set(this.events.map((event) => event.seq));
    this.events = newest([...this.events, ...events.filter((event) => !known.has(event.seq))], EVENTS);
  }

  // Returns whether an option has got another colour.
  apply(delta) {
    for (const [at, change] of Object.entries(delta.agents ?? {})) Object.assign(this.agents[at] ?? {}, change);
    for (const [key, change] of Object.entries(delta.links ?? {})) Object.assign(this.linkStates[this.linkAt.get(key)] ?? {}, change);
    Object.assign(this.all, delta.all ?? {});
    this.addEvents(delta.events ?? []);
    if (isNumber(delta.t)) this.remember(delta.t);
    const weights = this.meanShares(this.past.share.slice(-20));
    return weights ? this.slots.adapt(weights) : false;
  }

  // The last point is the present; a second later it becomes the past.
  remember(t) {
    const past = this.past;
    const last = past.t.length - 1;
    const replace = last > 0 && past.t[last] - past.t[last - 1] < STEP;
    if (replace) for (const column of Object.values(past)) column.pop();
    past.t.push(t);
    for (const part of PARTS) past[part].push(this.all[part] ?? none(this.size));
    past.pulls_per_second.push(this.all.pulls_per_second ?? null);
    past.disagree.push(this.all.disagree ?? null);
    if (past.t.length > POINTS) for (const column of Object.values(past)) column.shift();
    if (!replace) this.rings.add(t, this.agents);
  }

  meanShares(rows) {
    const sums = new Float64Array(this.size);
    let count = 0;
    for (const row of rows) {
      if (!Array.isArray(row)) continue;
      count += 1;
      row.forEach((value, arm) => { sums[arm] += value ?? 0; });
    }
    return count ? sums.map((sum) => sum / count) : null;
  }

  // A stored run: frames of one policy.
  setTrack(panel, track) {
    const bytes = Uint8Array.from(atob(track.arm), (character) => character.charCodeAt(0));
    const arm = track.wide ? new Uint16Array(bytes.buffer) : bytes;
    this.tracks[panel] = { ...track, arm, absent: track.wide ? 65535 : 255 };
    const rows = this.tracks.flatMap((each) => each?.share ?? []);
    this.slots.choose(this.meanShares(rows) ?? new Float64Array(this.size));
  }

  armOf(panel, agent) {
    if (this.live) return this.agents[agent].arm ?? -1;
    const track = this.tracks[panel];
    if (!track) return -1;
    const arm = track.arm[this.frame * this.count + agent];
    return arm === track.absent ? -1 : arm;
  }

  isUp(panel, agent) {
    return this.live ? this.agents[agent].up !== false : !this.tracks[panel] || this.armOf(panel, agent) >= 0;
  }

  // The whole network at the present, or at the frame that is shown.
  now(panel) {
    if (this.live) return this.all;
    const track = this.tracks[panel];
    if (!track) return {};
    const keys = [...PARTS, "ahead", "sure", "disagree", "regret"];
    return Object.fromEntries(keys.map((key) => [key, track[key]?.[this.frame]]));
  }

  get x() {
    return this.live ? this.past.t : this.scene.rounds;
  }

  // Rows over time of the whole network, or of one agent as `single` holds it.
  rows(panel, agent, single) {
    if (this.live) return agent < 0 ? { x: this.past.t, ...this.past } : this.rings.rows(agent);
    const found = agent < 0 ? this.tracks[panel] : single;
    return { x: this.scene.rounds, ...(found ?? { share: [], mean: [], low: [], high: [] }) };
  }

  // When the first stage of a policy ends, and how long all are; null where news comes in every round.
  stages(panel) {
    const [first, length] = (!this.live && this.tracks[panel]?.stages) || [];
    return length ? { first, length } : null;
  }

  // The stage in which a round is; 0 while agents know their own pulls alone.
  stageOf(panel, round) {
    const stages = this.stages(panel);
    return stages && Math.max(0, Math.ceil((round - stages.first) / stages.length) + 1);
  }

  marks(panel) {
    if (this.live) return this.events.map((event) => ({ x: event.t, kind: event.kind, text: event.text, agent: event.agent }));
    return (this.tracks[panel]?.marks ?? []).map((mark) => ({ x: mark.round, kind: mark.kind, text: mark.text }));
  }
}

// The past of every agent in one block of memory, however long the page stays open.
class Rings {
  constructor(count, size, points) {
    Object.assign(this, { count, size, points, t: [] });
    this.width = PARTS.length * size;
    this.values = new Float32Array(count * points * this.width).fill(NaN);
    this.next = 0;
  }

  add(t, agents) {
    if (!this.points) return;
    this.t[this.next] = t;
    agents.forEach((agent, i) => {
      const at = (i * this.points + this.next) * this.width;
      PARTS.forEach((part, p) => {
        for (let arm = 0; arm < this.size; arm += 1) this.values[at + p * this.size + arm] = agent[part]?.[arm] ?? NaN;
      });
    });
    this.next = (this.next + 1) % this.points;
  }

  rows(agent) {
    const found = { x: [], share: [], mean: [], low: [], high: [] };
    for (let k = 0; k < this.t.length; k += 1) {
      const place = this.t.length < this.points ? k : (this.next + k) % this.points;
      const at = (agent * this.points + place) * this.width;
      found.x.push(this.t[place]);
      PARTS.forEach((part, p) => {
        const from = at + p * this.size;
        found[part].push(Array.from(this.values.subarray(from, from + this.size), (value) => (Number.isNaN(value) ? null : value)));
      });
    }
    return found;
  }
}
