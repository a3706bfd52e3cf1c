// The state of the page as a picture: an SVG made of what is shown, or a PNG drawn from that.

import { colour, letter, OTHERS, textOn, theme } from "./palette.js";
import { digits } from "./text.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 1200;
const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

function svg(tag, attributes, text) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const words = (x, y, size, text, more = {}) =>
  svg("text", { x, y, "font-size": size, "font-family": FONT, fill: theme.ink, ...more }, text);

// `shown`: {title, sentence, graphs: [{name, graph}], curves: [Curve], legend: [[slot, name]]}
export function draw(shown) {
  const columns = shown.graphs.length;
  const cell = (WIDTH - 40) / columns;
  const high = Math.min(520, cell * 0.8);
  const below = 100 + high + 40;
  const rows = Math.ceil(shown.curves.length / 2);
  const height = below + rows * 230 + 50;
  const root = svg("svg", { xmlns: SPACE, viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height });
  root.append(svg("rect", { width: WIDTH, height, fill: theme.surface }));
  root.append(words(20, 38, 16, cut(shown.title, 110), { fill: theme.muted }), words(20, 72, 26, cut(shown.sentence, 80), { "font-weight": 600 }));
  shown.graphs.forEach(({ name, graph }, at) => {
    const group = svg("g", { transform: `translate(${20 + at * cell} 90)` });
    if (columns > 1) group.append(words(6, 16, 14, cut(name, 40), { "font-weight": 600 }));
    group.append(drawGraph(graph, cell - 10, high, columns > 1 ? 24 : 0));
    root.append(group);
  });
  root.append(drawLegend(shown.legend, below - 22));
  shown.curves.forEach((curve, at) => {
    const group = svg("g", { transform: `translate(${20 + (at % 2) * 590} ${below + Math.floor(at / 2) * 230})` });
    group.append(drawCurve(curve, 570, 215));
    root.append(group);
  });
  return new XMLSerializer().serializeToString(root);
}

function drawGraph(graph, width, height, top) {
  const group = svg("g", {});
  const { clientWidth, clientHeight } = graph.canvas;
  const scale = Math.min(width / clientWidth, (height - top) / clientHeight);
  const shift = (width - clientWidth * scale) / 2;
  const points = graph.points.map(([x, y]) => [(shift + x * scale).toFixed(1), (top + y * scale).toFixed(1)]);
  const radius = (graph.radius * scale).toFixed(1);
  graph.links.forEach(([a, b], at) => {
    const state = graph.states?.[at]?.state ?? "up";
    group.append(svg("line", {
      x1: points[a][0], y1: points[a][1], x2: points[b][0], y2: points[b][1],
      stroke: state === "down" ? theme.bad : theme.link, ...(state === "up" ? {} : { "stroke-dasharray": "4 4" }),
    }));
  });
  points.forEach(([cx, cy], i) => {
    const up = graph.up[i];
    const fill = up ? colour(graph.slots[i]) : theme.surface;
    group.append(svg("circle", { cx, cy, r: radius, fill, stroke: up ? theme.surface : theme.bad }));
    if (points.length <= 24) group.append(words(cx, Number(cy) + Number(radius) + 14, 12, cut(graph.names[i], 16), { "text-anchor": "middle" }));
    if (graph.radius < 8) return;
    const style = { "text-anchor": "middle", "dominant-baseline": "central", "font-weight": 700, fill: up ? textOn(fill) : theme.bad };
    group.append(words(cx, cy, radius, up ? letter(graph.slots[i]) : "×", style));
  });
  return group;
}

function drawLegend(legend, y) {
  const group = svg("g", {});
  let x = 20;
  for (const [slot, name] of legend.slice(0, OTHERS + 1)) {
    const short = cut(name, 16);
    group.append(svg("rect", { x, y: y - 12, width: 16, height: 16, rx: 3, fill: colour(slot) }));
    group.append(words(x + 8, y - 4, 11, letter(slot), { "text-anchor": "middle", "dominant-baseline": "central", "font-weight": 700, fill: textOn(colour(slot)) }));
    group.append(words(x + 22, y, 13, short));
    x += 40 + 8 * short.length;
  }
  return group;
}

function drawCurve(curve, width, height) {
  const group = svg("g", {});
  const { plot, lines, data } = curve;
  const [left, top, right, bottom] = [50, 28, width - 6, height - 26];
  group.append(words(0, 14, 14, curve.heading.textContent, { "font-weight": 600 }));
  group.append(svg("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: "none", stroke: theme.line }));
  if (!plot || !data[0].length) return group;
  const { x: across, y: up } = plot.scales;
  const toX = (value) => left + ((value - across.min) / (across.max - across.min || 1)) * (right - left);
  const toY = (value) => bottom - ((Math.min(up.max, Math.max(up.min, value)) - up.min) / (up.max - up.min || 1)) * (bottom - top);
  const path = (values) => values
    .map((value, at) => (value === null || value === undefined ? "" : `${toX(data[0][at]).toFixed(1)},${toY(value).toFixed(1)}`))
    .filter(Boolean);
  for (const line of lines) {
    if (line.low) {
      const outline = [...path(line.high), ...path(line.low).reverse()].join(" ");
      group.append(svg("polygon", { points: outline, fill: line.colour(), "fill-opacity": 0.16 }));
    }
    const style = { fill: "none", stroke: line.colour(), "stroke-width": 2, "stroke-dasharray": line.dash.join(" ") };
    const points = path(line.values);
    group.append(svg("polyline", { points: points.join(" "), ...style }));
    if (!line.tag || !points.length) continue;
    group.append(words(right - 4, Number(points.at(-1).split(",")[1]) - 5, 12, cut(line.label, 24), { "text-anchor": "end", "font-weight": 600 }));
  }
  const tick = { fill: theme.muted, "text-anchor": "end" };
  group.append(words(left - 5, top + 10, 11, curve.values(up.max), tick), words(left - 5, bottom, 11, curve.values(up.min), tick));
  const shown = (value) => (across.time ? new Date(1000 * value).toLocaleTimeString("en-GB") : digits(value));
  group.append(words(left, bottom + 16, 11, shown(across.min), { fill: theme.muted }), words(right, bottom + 16, 11, shown(across.max), tick));
  return group;
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export const asSvg = (source) => new Blob([source], { type: "image/svg+xml" });

export async function asPng(source) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.naturalWidth, 2 * image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
