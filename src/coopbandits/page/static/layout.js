// Where agents stand. Distances from a few pivots give the large shape (a ring, a grid, a tree), and
// forces spread out what coincides. Agents that were there before stay where they were.

import { forceLink, forceManyBody, forceSimulation, forceX, forceY } from "./vendor/d3-force.js";

const PIVOTS = 40;
const SPAN = 30; // length of a link while forces act

export function place(count, links, before) {
  if (before.every(Boolean)) return before;
  const neighbours = listed(count, links);
  const circle = walk(neighbours, links.length);
  if (circle) return fit(circle);
  return fit(relax(count, links, project(distances(neighbours, Math.min(PIVOTS, count)), count), before));
}

function listed(count, links) {
  const neighbours = Array.from({ length: count }, () => []);
  for (const [a, b] of links) {
    neighbours[a].push(b);
    neighbours[b].push(a);
  }
  return neighbours;
}

// Rings and complete graphs are circles, which no force could improve; null for all others.
function walk(neighbours, links) {
  const count = neighbours.length;
  if (count < 4 || links === (count * (count - 1)) / 2) return ring(count);
  if (neighbours.some((each) => each.length !== 2)) return null;
  const seen = new Map([[0, 0]]);
  for (let next = neighbours[0][0], last = 0; next !== 0; ) {
    seen.set(next, seen.size);
    const [a, b] = neighbours[next];
    [last, next] = [next, a === last ? b : a];
  }
  const points = ring(count);
  return seen.size === count ? neighbours.map((_, agent) => points[seen.get(agent)]) : null;
}

function ring(count) {
  const angle = (i) => (2 * Math.PI * i) / count - Math.PI / 2;
  const radius = Math.max(1, count / 6);
  return Array.from({ length: count }, (_, i) => [radius * Math.cos(angle(i)), radius * Math.sin(angle(i))]);
}

// One row of hop counts per pivot; each pivot is as far as possible from those before it.
function distances(neighbours, pivots) {
  const nearest = new Float64Array(neighbours.length).fill(Infinity);
  const rows = [];
  let pivot = 0;
  for (let k = 0; k < pivots; k += 1) {
    const row = search(neighbours, pivot);
    rows.push(row);
    row.forEach((d, i) => { nearest[i] = Math.min(nearest[i], d); });
    pivot = nearest.indexOf(Math.max(...nearest));
  }
  return rows;
}

function search(neighbours, from) {
  const row = new Float64Array(neighbours.length).fill(-1);
  row[from] = 0;
  const queue = [from];
  for (let at = 0; at < queue.length; at += 1) {
    for (const next of neighbours[queue[at]]) {
      if (row[next] < 0) {
        row[next] = row[queue[at]] + 1;
        queue.push(next);
      }
    }
  }
  const far = row[queue[queue.length - 1]] + 2; // of another component
  return row.map((d) => (d < 0 ? far : d));
}

// Pivot MDS (Brandes and Pich): the two main axes of the centred squared distances.
function project(rows, count) {
  const squared = rows.map((row) => row.map((d) => d * d));
  const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
  const perPivot = squared.map(mean);
  const perNode = Array.from({ length: count }, (_, i) => mean(squared.map((row) => row[i])));
  const all = mean(perPivot);
  const centred = squared.map((row, k) => row.map((d, i) => (perNode[i] + perPivot[k] - all - d) / 2));
  const axes = [];
  for (let axis = 0; axis < 2; axis += 1) axes.push(mainAxis(centred, axes));
  return Array.from({ length: count }, (_, i) => axes.map((axis) => axis.coordinates[i]));
}

function mainAxis(rows, earlier) {
  const size = rows.length;
  let vector = Float64Array.from({ length: size }, (_, k) => Math.sin(1 + 7 * k + 3 * earlier.length));
  let coordinates;
  for (let step = 0; step < 60; step += 1) {
    for (const { vector: other } of earlier) {
      const dot = vector.reduce((sum, v, k) => sum + v * other[k], 0);
      vector = vector.map((v, k) => v - dot * other[k]);
    }
    const norm = Math.hypot(...vector) || 1;
    vector = vector.map((v) => v / norm);
    coordinates = new Float64Array(rows[0].length);
    rows.forEach((row, k) => row.forEach((value, i) => { coordinates[i] += vector[k] * value; }));
    vector = Float64Array.from(rows, (row) => row.reduce((sum, value, i) => sum + value * coordinates[i], 0));
  }
  const norm = Math.hypot(...vector) || 1;
  return { vector: vector.map((v) => v / norm), coordinates };
}

function relax(count, links, points, before) {
  const lengths = links.map(([a, b]) => Math.hypot(points[a][0] - points[b][0], points[a][1] - points[b][1]));
  const typical = lengths.reduce((sum, d) => sum + d, 0) / (lengths.length || 1) || 1;
  const kept = before.filter(Boolean).length;
  const nodes = points.map(([x, y], i) => ({ x: (SPAN * x) / typical, y: (SPAN * y) / typical, ...(kept && before[i] ? pinned(before[i], count) : {}) }));
  const [steps, heat] = count <= 300 ? [150, 0.6] : count <= 800 ? [80, 0.3] : [50, 0.1];
  forceSimulation(nodes)
    .force("link", forceLink(links.map(([source, target]) => ({ source, target }))).distance(SPAN))
    .force("charge", forceManyBody().strength(-SPAN).distanceMax(SPAN * 12))
    .force("x", forceX().strength(0.01))
    .force("y", forceY().strength(0.01))
    .alpha(heat)
    .stop()
    .tick(steps);
  return nodes.map(({ x, y }) => [x, y]);
}

function pinned([x, y], count) {
  const span = SPAN * Math.sqrt(count);
  return { x: x * span, y: y * span, fx: x * span, fy: y * span };
}

// Into the unit square, or the part of it that their shape needs; the longer side is horizontal.
function fit(points) {
  if (points.length < 2) return points.map(() => [0.5, 0.5]);
  const bounds = [0, 1].map((axis) => {
    const values = points.map((point) => point[axis]);
    return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  });
  const scale = Math.max(...bounds.map(([low, high]) => high - low)) || 1;
  return points.map((point) => bounds.map(([low, high], axis) => 0.5 + (point[axis] - (low + high) / 2) / scale));
}
