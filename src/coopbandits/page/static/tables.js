// The tables and the list of events: everything that is drawn, as text.

import { newest } from "./model.js";
import { chip, colour, letter, OTHERS, paint } from "./palette.js";
import { clock, digits, isNumber, make, named, percent, put, software, version, whole } from "./text.js";

const PAGE = 25;
const OPTIONS = 40;
const EVENTS = 100;

export class OptionTable {
  constructor(table) {
    this.table = table;
  }

  // One row per option, made once and filled in from then on.
  setScene(model) {
    this.model = model;
    this.truth = model.scene.truth; // by frame: rewards may move
    this.arms = order(model).slice(0, OPTIONS);
    const heads = ["Option", "Share of choices", "Mean", "95 % interval", ...(this.truth ? ["True mean"] : [])];
    this.rows = this.arms.map((arm) => this.row(arm));
    const left = model.size - this.arms.length;
    const body = make("tbody", {}, ...this.rows.map((row) => row.node));
    if (left > 0) body.append(make("tr", {}, make("td", { colSpan: heads.length, textContent: `and ${left} others` })));
    this.table.replaceChildren(make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })))), body);
  }

  row(arm) {
    const slot = this.model.slots.of(arm);
    const cells = { share: make("span"), bar: make("i"), mean: make("td"), range: make("td"), truth: make("td") };
    cells.bar.style.background = colour(slot);
    const meter = make("span", { className: "meter" }, cells.bar);
    const node = make("tr", {},
      make("td", {}, chip(slot), named(this.model.arms[arm])),
      make("td", {}, cells.share, meter), cells.mean, cells.range,
      ...(this.truth ? [cells.truth] : []));
    return { node, cells };
  }

  fill(now) {
    this.rows?.forEach(({ node, cells }, at) => {
      const arm = this.arms[at];
      const share = now.share?.[arm];
      put(cells.share, percent(share));
      cells.bar.style.width = `${100 * (share ?? 0)}%`;
      put(cells.mean, digits(now.mean?.[arm]));
      put(cells.range, isNumber(now.low?.[arm]) ? `${digits(now.low[arm])} to ${digits(now.high[arm])}` : "–");
      if (this.truth) put(cells.truth, digits(this.truth[this.model.frame]?.[arm]));
      node.classList.toggle("leads", arm === now.ahead);
    });
  }
}

// Options with a colour first, so that those that matter are in sight.
export function order(model) {
  const arms = Array.from({ length: model.size }, (_, arm) => arm);
  return arms.sort((a, b) => (model.slots.of(a) === OTHERS) - (model.slots.of(b) === OTHERS) || a - b);
}

const LIVE = [
  { head: "Agent", value: (m, p, i) => m.names[i] },
  { head: "Prefers", value: (m, p, i) => preferred(m, p, i) },
  { head: "State", value: (m, p, i) => (m.isUp(p, i) ? "up" : m.agents[i].why || "down") },
  { head: "Round", value: (m, p, i) => m.agents[i].round, show: whole },
  { head: "Rounds/s", value: (m, p, i) => m.agents[i].rounds_per_second, show: digits },
  { head: "Pulls/s", value: (m, p, i) => m.agents[i].pulls_per_second, show: digits },
  { head: "Open tickets", value: (m, p, i) => m.agents[i].tickets, show: whole },
  { head: "Document", value: (m, p, i) => m.agents[i].document, show: version },
  { head: "Version", value: (m, p, i) => software(m.agents[i].version) },
];
const STORED = [
  LIVE[0],
  LIVE[1],
  { head: "State", value: (m, p, i) => (m.isUp(p, i) ? "up" : "away") },
  { head: "Neighbours", value: (m, p, i) => m.degrees[i], show: whole },
];

// What does not change between two scenes is sorted once, since sorting thousands takes a while.
const FIXED = new Set(["Agent", "Neighbours"]);
const byText = new Intl.Collator("en", { numeric: true }).compare;

export function preferred(model, panel, agent) {
  const arm = model.armOf(panel, agent);
  if (model.scene.by_context) return "by request";
  return arm < 0 ? "nothing yet" : model.arms[arm];
}

export class AgentTable {
  constructor({ table, find, previous, next, pageOf }, select) {
    Object.assign(this, { table, find, previous, next, pageOf, select, page: 0, sort: 0, down: false, chosen: -1 });
    find.addEventListener("input", () => { this.page = 0; this.fill(); });
    previous.addEventListener("click", () => { this.page -= 1; this.fill(); });
    next.addEventListener("click", () => { this.page += 1; this.fill(); });
  }

  setScene(model) {
    this.model = model;
    this.sorted = null;
    model.degrees = new Uint32Array(model.count);
    for (const pair of model.links) for (const end of pair) model.degrees[end] += 1;
    this.columns = model.live ? LIVE : STORED;
    this.sort = Math.min(this.sort, this.columns.length - 1);
    this.heads = this.columns.map((column, at) => {
      const button = make("button", { type: "button", textContent: column.head });
      button.addEventListener("click", () => {
        this.down = this.sort === at && !this.down;
        this.sort = at;
        this.fill();
      });
      return make("th", { scope: "col", className: column.show ? "" : "text" }, button);
    });
    this.rows = Array.from({ length: Math.min(PAGE, model.count) }, () => this.row());
    this.table.replaceChildren(make("thead", {}, make("tr", {}, ...this.heads)), make("tbody", {}, ...this.rows.map((row) => row.node)));
  }

  row() {
    const row = { agent: -1, name: named("", "button"), chip: chip(OTHERS), option: named("") };
    row.name.type = "button";
    row.name.addEventListener("click", () => this.select(row.agent));
    row.cells = this.columns.map((column) => make("td", { className: column.show ? "" : "text" }));
    row.cells[0].append(row.name);
    row.cells[1].append(row.chip, row.option);
    row.node = make("tr", {}, ...row.cells);
    return row;
  }

  listed(panel) {
    const wanted = this.find.value.trim().toLowerCase();
    const key = `${this.sort} ${this.down} ${wanted}`;
    if (FIXED.has(this.columns[this.sort].head) && key === this.sorted) return this.order;
    this.sorted = key;
    const { value, show } = this.columns[this.sort];
    const found = [];
    for (let i = 0; i < this.model.count; i += 1) {
      if (!wanted || this.model.names[i].toLowerCase().includes(wanted)) found.push([value(this.model, panel, i), i]);
    }
    const compare = show ? (a, b) => (a ?? -Infinity) - (b ?? -Infinity) : byText;
    found.sort((a, b) => (this.down ? -1 : 1) * compare(a[0], b[0]) || a[1] - b[1]);
    this.order = found.map(([, i]) => i);
    return this.order;
  }

  fill(panel = this.panel ?? 0) {
    if (!this.model) return;
    this.panel = panel;
    const listed = this.listed(panel);
    const pages = Math.max(1, Math.ceil(listed.length / PAGE));
    this.page = Math.max(0, Math.min(this.page, pages - 1));
    this.rows.forEach((row, at) => this.fillRow(row, listed[this.page * PAGE + at] ?? -1));
    this.heads.forEach((head, at) => head.setAttribute("aria-sort", at !== this.sort ? "none" : this.down ? "descending" : "ascending"));
    put(this.pageOf, `${listed.length} agents, page ${this.page + 1} of ${pages}`);
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === pages - 1;
  }

  fillRow(row, agent) {
    row.node.hidden = agent < 0;
    row.agent = agent;
    if (agent < 0) return;
    const { model, panel } = this;
    const name = model.names[agent];
    if (row.name.title !== name.slice(0, 2000)) {
      put(row.name, name.slice(0, 300));
      row.name.title = name.slice(0, 2000);
    }
    row.name.setAttribute("aria-pressed", String(agent === this.chosen));
    row.node.classList.toggle("chosen", agent === this.chosen);
    const slot = model.slots.of(model.armOf(panel, agent));
    put(row.chip, letter(slot));
    paint(row.chip, slot);
    put(row.option, String(preferred(model, panel, agent)).slice(0, 300));
    for (let at = 2; at < this.columns.length; at += 1) {
      const { value, show } = this.columns[at];
      const found = value(model, panel, agent);
      put(row.cells[at], show ? show(found) : String(found).slice(0, 120));
      if (!show) row.cells[at].title = String(found).slice(0, 300); // a long reason is cut off
    }
    row.cells[2].classList.toggle("state-down", !model.isUp(panel, agent));
  }
}

// Who says it, unless the text begins with that.
function said(event, names) {
  const name = names[event.agent];
  return name === undefined || event.text.startsWith(name) ? event.text : `${name}: ${event.text}`;
}

export class EventList {
  constructor(list) {
    this.list = list;
    this.key = null;
  }

  fill(model, panel) {
    const told = model.live
      ? inOrder(newest(model.events, EVENTS)).map((event) => ({ at: clock(event.t), kind: event.kind, text: said(event, model.names) }))
      : (model.tracks[panel]?.marks ?? []).map((mark) => ({ at: whole(mark.round), kind: mark.kind, text: mark.text }));
    const shown = model.live ? told.reverse() : told.slice(0, EVENTS);
    const key = `${panel} ${told.length} ${model.events.at(-1)?.seq ?? ""}`;
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren(...(shown.length ? shown.map(entry) : [make("li", {}, make("time", { textContent: "–" }), make("span", { textContent: "Nothing has happened yet." }))]));
  }
}

// By time: agents are polled one after the other, so their events arrive out of order.
function inOrder(events) {
  return events.sort((a, b) => a.t - b.t || a.seq - b.seq);
}

function entry({ at, kind, text }) {
  const node = make("li", {}, make("time", { textContent: at }));
  node.dataset.kind = kind;
  node.append(make("span", {}, make("b", { textContent: `${kind} ` }), String(text).slice(0, 12000)));
  return node;
}
