// Draws the model: which numbers go where. Everything that is asked of it is idempotent.

import { Curve, dash } from "./curves.js";
import { Graph } from "./graph.js";
import { place } from "./layout.js";
import { chip, colour, OTHERS, theme } from "./palette.js";
import { AgentTable, EventList, OptionTable, order, preferred } from "./tables.js";
import { digits, isNumber, make, named, percent, put, software, sureness, version, whole } from "./text.js";

const byId = (id) => document.getElementById(id);
const NAMED_DOWN = 5; // absent agents named on top; the table has all
const SPOKEN = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999];

export class View {
  constructor(model, { select, choosePanel, seek }) {
    Object.assign(this, { model, select, choosePanel, seek, chosen: -1, panel: 0, single: null, places: new Map(), graphs: [], curves: {} });
    this.options = new OptionTable(byId("options"));
    this.agents = new AgentTable({ table: byId("agent-table"), find: byId("find"), previous: byId("previous"), next: byId("next"), pageOf: byId("page-of") }, select);
    this.events = new EventList(byId("events"));
    byId("everyone").addEventListener("click", () => select(-1));
  }

  setScene() {
    const { model } = this;
    document.title = `${model.scene.title.slice(0, 80)} · coopbandits`;
    put(byId("title"), model.scene.title.slice(0, 300)).title = model.scene.title.slice(0, 2000);
    document.querySelector(".stage").dataset.panels = model.panels.length > 1 ? "many" : "one";
    const places = place(model.count, model.links, model.names.map((name) => this.places.get(name)));
    this.places = new Map(model.names.map((name, i) => [name, places[i]]));
    this.makePanels(places);
    this.makeCurves();
    this.recolour();
    this.agents.setScene(model);
  }

  makePanels(places) {
    const { model } = this;
    const many = model.panels.length > 1;
    this.captions = [];
    this.graphs = model.panels.map((name, panel) => {
      const label = `Graph of ${model.count} agents${many ? `, ${name}` : ""}; arrow keys go from agent to agent, the table below tells the same`;
      const canvas = make("canvas", { tabIndex: 0, ariaLabel: label.slice(0, 300) });
      canvas.setAttribute("role", "application");
      canvas.setAttribute("aria-roledescription", "graph");
      const say = make("span", { className: "say" });
      const button = make("button", { type: "button", textContent: name.slice(0, 200), title: name.slice(0, 2000), hidden: !many });
      button.addEventListener("click", () => this.choosePanel(panel));
      this.captions.push({ button, say });
      const graph = new Graph(canvas, (agent) => {
        if (many) this.choosePanel(panel);
        this.select(agent);
      });
      graph.figure = make("figure", { className: "panel" }, make("figcaption", {}, button, say), canvas);
      return graph;
    });
    byId("panels").replaceChildren(...this.graphs.map((graph) => graph.figure));
    for (const graph of this.graphs) graph.setScene(model.names, model.links, places);
  }

  makeCurves() {
    const { model } = this;
    const parent = byId("charts");
    parent.replaceChildren();
    const seek = model.live ? null : this.seek;
    const unit = (_, low, high) => [0, Math.max(0.05, Math.min(1, (high ?? 1) * 1.06))];
    const above = (_, low, high) => [0, (high || 1) * 1.08];
    this.curves = {
      share: new Curve(parent, "Share of choices", "per option", { values: percent, seek, range: unit }),
      mean: new Curve(parent, "Mean reward", "with 95 % interval", { values: digits, seek, range: settled }),
      disagree: new Curve(parent, "Disagreement", "agents against the majority", { values: percent, seek, range: unit }),
      last: model.live
        ? new Curve(parent, "Pulls per second", "", { values: digits, seek, range: above })
        : new Curve(parent, "Regret", "of the whole network", { values: digits, seek, range: above }),
    };
  }

  // Colours and letters: at a new scene, another theme, or when an option got another colour.
  recolour() {
    const { model } = this;
    this.options.setScene(model);
    const entries = order(model).filter((arm) => model.slots.of(arm) < OTHERS).map((arm) => [model.slots.of(arm), model.arms[arm]]);
    if (model.size > model.slots.size) entries.push([OTHERS, "others"]);
    this.legend = entries;
    byId("legend").replaceChildren(...entries.map(([slot, name]) => make("li", {}, chip(slot), named(name))));
    this.spoken = null;
    for (const graph of this.graphs) graph.stale = true;
    for (const curve of Object.values(this.curves)) curve.redraw();
  }

  // Everything that changes with time.
  draw({ curves = true } = {}) {
    this.drawGraphs();
    this.drawLead();
    this.options.fill(this.shownNow());
    this.agents.chosen = this.chosen;
    this.agents.fill(this.panel);
    this.events.fill(this.model, this.panel);
    this.drawSelected();
    if (curves) this.drawCurves();
    else if (!this.model.live) for (const curve of Object.values(this.curves)) curve.moveTo(this.model.scene.rounds[this.model.frame]);
  }

  drawGraphs() {
    const { model } = this;
    this.graphs.forEach((graph, panel) => {
      const slots = new Uint8Array(model.count);
      const up = new Uint8Array(model.count);
      for (let i = 0; i < model.count; i += 1) {
        slots[i] = model.slots.of(model.armOf(panel, i));
        up[i] = model.isUp(panel, i) ? 1 : 0;
      }
      graph.chosen = this.chosen;
      graph.setState(slots, up, model.live ? model.linkStates : []);
      graph.draw();
      const { button, say } = this.captions[panel];
      button.setAttribute("aria-pressed", String(panel === this.panel));
      const now = model.now(panel);
      const stage = model.stageOf(panel, model.scene.rounds?.[model.frame]);
      const place = stage === null ? "" : ` · stage ${stage}`;
      put(say, model.live ? "" : `regret ${digits(now.regret)} · ${percent(now.disagree)} disagree${place}`);
    });
  }

  shownNow() {
    const { model, chosen } = this;
    if (chosen < 0) return model.now(this.panel);
    if (model.live) return model.agents[chosen];
    const row = (part) => this.single?.[part]?.[model.frame];
    return { share: row("share"), mean: row("mean"), low: row("low"), high: row("high") };
  }

  drawLead() {
    const { model } = this;
    const now = model.now(this.panel);
    const spoken = [now.ahead, SPOKEN.filter((level) => (now.sure ?? 0) >= level).length, this.panel].join();
    if (spoken !== this.spoken) {
      this.spoken = spoken;
      this.sentence(byId("ahead"), now);
    }
    this.drawDown();
    const { bandits = [] } = model.scene;
    const more = [];
    if (bandits.length > 1) more.push(["bandits", whole(bandits.length)]);
    if (isNumber(now.document)) more.push([now.behind ? `document, ${whole(now.behind)} agents behind` : "document version", version(now.document)]);
    const { versions = [] } = now;
    if (versions.length) more.push([versions.length > 1 ? "mixed versions" : "version", versions.map(software).join(", ")]);
    const tiles = model.live
      ? [["agents up", `${whole(now.up)} of ${model.count}`], ["disagree", percent(now.disagree)], ["pulls a second", digits(now.pulls_per_second)], ["rounds a second", digits(now.rounds_per_second)], ["open tickets", whole(now.tickets)], ...more]
      : [["round", whole(model.scene.rounds[model.frame])], ["disagree", percent(now.disagree)], ["regret", digits(now.regret, 4)], ["agents", whole(model.count)]];
    const list = byId("figures");
    if (list.childElementCount !== tiles.length) list.replaceChildren(...tiles.map(() => make("div", {}, make("dt"), make("dd"))));
    tiles.forEach(([label, value], at) => {
      put(list.children[at].children[0], label);
      put(list.children[at].children[1], value);
    });
  }

  drawDown() {
    const { model } = this;
    const down = model.live ? model.names.filter((_, agent) => !model.isUp(0, agent)) : [];
    byId("down").hidden = down.length === 0;
    const rest = down.length - NAMED_DOWN;
    const names = down.slice(0, NAMED_DOWN).map((name) => name.slice(0, 60)).join(", ");
    put(byId("down"), `Not answering: ${names}${rest > 0 ? ` and ${rest} more` : ""}`);
  }

  sentence(node, now) {
    const { model } = this;
    if (model.scene.by_context) {
      put(node, "Which option is best depends on the request. A mean is over the requests that its option was chosen for.");
      return;
    }
    if (!isNumber(now.ahead) || now.ahead < 0) {
      const loading = !model.live && !model.tracks[this.panel];
      const known = model.scene?.contexts ? "Which option is best depends on the request." : "Nothing is known about any option yet.";
      put(node, loading ? "Reading the recording …" : known);
      return;
    }
    const name = make("strong", {}, named(model.arms[now.ahead]));
    node.replaceChildren(chip(model.slots.of(now.ahead)), name, ` is ahead${isNumber(now.sure) ? `, ${sureness(now.sure)}` : ""}.`);
  }

  drawSelected() {
    const { model, chosen } = this;
    byId("everyone").hidden = chosen < 0;
    if (chosen < 0) {
      put(byId("shown"), (model.panels.length > 1 ? model.panels[this.panel] : "all agents") + (model.live ? "" : ", rounds by their square root"));
      put(byId("selected"), model.count > 1 ? "Choose an agent to see its own curves." : "");
      return;
    }
    const up = model.isUp(this.panel, chosen);
    const { policy, why } = model.agents[chosen];
    const state = up ? [" prefers ", preferred(model, this.panel, chosen)] : [" is away", model.live ? `: ${why}` : ""];
    const words = [model.names[chosen], policy ? ` (${policy})` : "", ...state, `; ${model.degrees[chosen]} neighbours`];
    if (byId("selected").textContent === words.map((word) => String(word).slice(0, 300)).join("")) return;
    byId("selected").replaceChildren(...words.map((word, at) => (at % 3 ? String(word).slice(0, 300) : named(word))));
    byId("shown").replaceChildren("agent ", named(model.names[chosen]));
  }

  drawCurves() {
    const { model, panel, chosen } = this;
    const rows = model.rows(panel, chosen, this.single);
    const now = model.live ? null : model.scene.rounds[model.frame];
    const common = { marks: model.marks(panel), stages: model.stages(panel), now, time: model.live };
    this.curves.share.show(rows.x, this.optionLines(rows, false), common);
    this.curves.mean.show(rows.x, this.optionLines(rows, true), common);
    this.curves.disagree.show(model.x, this.panelLines("disagree"), common);
    this.curves.last.show(model.x, this.panelLines(model.live ? "pulls_per_second" : "regret"), common);
  }

  optionLines(rows, means) {
    const { model } = this;
    const column = (part, arm) => (rows[part] ?? []).map((row) => row?.[arm] ?? null);
    const lines = model.slots.arms.map((arm, slot) => ({
      label: String(model.arms[arm]).slice(0, 100), colour: () => colour(slot), dash: dash(slot),
      values: column(means ? "mean" : "share", arm), ...(means ? { low: column("low", arm), high: column("high", arm) } : {}),
    }));
    if (means || model.size === model.slots.size) return lines;
    const rest = rows.share.map((row) => row && row.reduce((sum, value, arm) => sum + (model.slots.of(arm) === OTHERS ? value ?? 0 : 0), 0));
    return [...lines, { label: "others", colour: () => colour(OTHERS), dash: [1, 3], values: rest }];
  }

  panelLines(part) {
    const { model } = this;
    if (model.live) return [{ label: "all agents", colour: () => colour(0), dash: [], values: model.past[part] }];
    return model.panels.map((name, at) => ({
      label: name.slice(0, 100), colour: () => theme.ink, dash: dash(at), tag: model.panels.length > 1, values: model.tracks[at]?.[part] ?? [],
    }));
  }

  picture() {
    return {
      title: this.model.scene.title, sentence: byId("ahead").textContent.replace(/^[A-H·]/, ""), legend: this.legend,
      graphs: this.graphs.map((graph, at) => ({ name: this.model.panels[at], graph })), curves: Object.values(this.curves),
    };
  }
}

// The range of means once they have settled: the first few pulls of an option say little.
function settled(data, low, high) {
  const from = Math.floor((data?.[0].length ?? 0) * 0.1);
  let [least, most] = [Infinity, -Infinity];
  for (let at = 1; at < (data?.length ?? 0); at += 3) {
    for (const value of data[at].slice(from)) {
      if (value !== null && value < least) least = value;
      if (value !== null && value > most) most = value;
    }
  }
  if (least > most) return low === null ? [0, 1] : [low, high === low ? low + 1 : high];
  const room = Math.max((most - least) * 0.35, Math.abs(most) * 0.02, 1e-9);
  return [least - room, most + room];
}
