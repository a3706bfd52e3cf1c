// Numbers and names as people read them. All text reaches the page through `put` or textContent.

export function put(node, text) {
  const shown = String(text);
  if (node.textContent !== shown) node.textContent = shown;
  return node;
}

export function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// A name of any length, cut by the style sheet; the whole is in its title, up to a bound.
export function named(text, tag = "span") {
  const whole = String(text);
  return make(tag, { className: "name", textContent: whole.slice(0, 300), title: whole.slice(0, 2000) });
}

export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function digits(value, count = 3) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en").replaceAll(",", " ");
  if (size !== 0 && size < 1e-4) return value.toExponential(1);
  return String(Number(value.toPrecision(size >= 1000 ? 4 : count)));
}

export function percent(value) {
  if (!isNumber(value)) return "–";
  if (value > 0.999 && value < 1) return "99.9 %";
  if (value > 0 && value < 0.001) return "< 0.1 %";
  return `${Number((100 * value).toPrecision(value >= 0.1 ? 3 : 2))} %`;
}

export function sureness(value) {
  if (!isNumber(value)) return "";
  if (value > 0.999) return "over 99.9 % sure";
  return value >= 0.995 ? `${(100 * value).toFixed(1)} % sure` : `${Math.round(100 * value)} % sure`;
}

export const whole = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en").replaceAll(",", " ") : "–");

// Of an agent's software; older agents do not report theirs.
export const software = (value) => value || "unknown";
// Of the cluster's document; 0 is none yet, and nothing where an agent takes none.
export const version = (value) => (value === 0 ? "none" : whole(value));

export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");
