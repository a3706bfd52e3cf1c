// Starts the page: listens to its source, keeps the model, and draws at most once per frame.

import { Model } from "./model.js";
import { readTheme } from "./palette.js";
import { asPng, asSvg, draw, save } from "./picture.js";
import { Player } from "./player.js";
import { ask, follow, keepToken } from "./source.js";
import { make, put } from "./text.js";
import { View } from "./view.js";

const STALE_SECONDS = 3;
const byId = (id) => document.getElementById(id);

const model = new Model();
const view = new View(model, { select, choosePanel, seek });
const player = new Player(
  { section: byId("player"), play: byId("play"), slider: byId("frame"), output: byId("round"), speed: byId("speed") },
  (frame) => {
    model.frame = frame;
    wake();
  },
);

// Whether a frame is due, and whether more has changed than the place of the slider.
const dirty = { asleep: true, all: false };

function wake() {
  if (!dirty.asleep) return;
  dirty.asleep = false;
  requestAnimationFrame(() => {
    const curves = dirty.all;
    Object.assign(dirty, { asleep: true, all: false });
    if (model.scene && view.graphs.length) view.draw({ curves });
  });
}

function redraw() {
  dirty.all = true;
  wake();
}

// Connection

let heardAt = 0;
let state = "connecting";
let refusal = "";

function show(name, text) {
  const pill = byId("connection");
  pill.dataset.state = name;
  put(pill, text);
}

function tellConnection() {
  if (state === "away") {
    show("away", model.scene || refusal ? "no connection, trying again" : "connecting");
    if (refusal && !model.scene) put(byId("ahead"), refusal);
    return;
  }
  if (!model.scene) return;
  const quiet = (performance.now() - heardAt) / 1000;
  if (!model.live) show("recording", "recording");
  else if (quiet > STALE_SECONDS) show("stale", `no news for ${Math.round(quiet)} s`);
  else show("live", "live");
}

function told(name, more) {
  state = name;
  refusal = name === "away" ? more : "";
  if (name === "token") {
    show("away", "a token is needed");
    const dialog = byId("ask");
    if (!dialog.open) dialog.showModal();
    dialog.addEventListener("close", () => {
      keepToken(byId("token").value);
      byId("token").value = "";
      more();
    }, { once: true });
    return;
  }
  if (name === "live") heardAt = performance.now();
  tellConnection();
}

function heard(kind, data) {
  if (kind === "scene") setScene(data);
  else if (!model.scene) return;
  else if (kind === "history") model.setHistory(data);
  else if (kind === "delta" && model.apply(data)) view.recolour();
  if (kind === "history") view.recolour();
  tellConnection();
  redraw();
}

function setScene(scene) {
  const chosen = view.chosen < 0 ? null : model.names[view.chosen];
  const again = model.scene && !model.live && JSON.stringify(model.scene) === JSON.stringify(scene);
  if (again) return; // a stored run does not change while the connection is away
  model.setScene(scene);
  view.chosen = chosen === null ? -1 : model.names.indexOf(chosen);
  view.panel = 0;
  view.single = null;
  view.setScene();
  chooseBandits(scene.bandits ?? []);
  if (model.live) byId("player").hidden = true;
  else loadTracks(scene);
}

// The one that is shown comes first; another one is another address.
byId("bandit").addEventListener("change", (event) => {
  location.search = new URLSearchParams({ bandit: event.target.value });
});

function chooseBandits(names) {
  byId("bandits").hidden = names.length < 2;
  byId("bandit").replaceChildren(...names.map((name) => make("option", { value: name, textContent: name || "default" })));
}

async function loadTracks(scene) {
  player.setScene(scene.rounds);
  await Promise.all(scene.panels.map(async (_, panel) => {
    const track = await ask(`track?panel=${panel}`);
    if (model.scene === scene) model.setTrack(panel, track);
  }));
  player.go(player.frame);
  view.recolour();
  redraw();
}

// What people do

async function select(agent) {
  view.chosen = agent;
  view.single = null;
  redraw();
  if (agent < 0 || model.live) return;
  const { panel } = view;
  const single = await ask(`agent?panel=${panel}&agent=${agent}`);
  if (view.chosen !== agent || view.panel !== panel) return;
  view.single = single;
  redraw();
}

function choosePanel(panel) {
  if (panel === view.panel) return;
  view.panel = panel;
  select(view.chosen);
}

function seek(frame) {
  if (isFinite(frame)) player.go(frame);
}

const THEMES = ["", "light", "dark"];
const THEME_NAMES = { "": "as the system", light: "light", dark: "dark" };

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  byId("theme").setAttribute("aria-label", `Theme: ${THEME_NAMES[name]}`);
  put(byId("theme"), { "": "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[name]);
  readTheme();
  if (model.scene) view.recolour();
  redraw();
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(localStorage.getItem("coopbandits-theme") ?? "") + 1) % THEMES.length];
  localStorage.setItem("coopbandits-theme", next);
  setTheme(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(localStorage.getItem("coopbandits-theme") ?? ""));

for (const [id, ending] of [["save-svg", "svg"], ["save-png", "png"]]) {
  byId(id).addEventListener("click", async () => {
    if (!model.scene) return;
    const source = draw(view.picture());
    save(ending === "svg" ? asSvg(source) : await asPng(source), `coopbandits.${ending}`);
  });
}

setTheme(THEMES.includes(localStorage.getItem("coopbandits-theme")) ? localStorage.getItem("coopbandits-theme") : "");
setInterval(tellConnection, 500);
follow(heard, told);
