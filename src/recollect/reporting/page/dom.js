// Elements, numbers for people, and controls. What comes from the data is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const missing = (value) => value === null || value === undefined;

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (missing(value) || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => !missing(child)));
  return element;
}
const el = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

function short(value) {
  if (missing(value) || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// Learning rates in powers of ten where they are small, as they are written.
function rate(value) {
  const rounded = Number(value.toPrecision(3));
  return rounded < 1e-2 ? rounded.toExponential() : String(rounded);
}
const shown = (field, value) => (field === "train.lr" && !missing(value) ? rate(value) : short(value));

const plain = (field) =>
  field.replace(/^(train|final)\./, "").replace(/^lr$/, "learning rate").replaceAll("_", " ");

function choice(label, options, chosen, change) {
  const select = el("select", { change: () => change(select.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", {}, label, " ", select);
}

function check(label, checked, change) {
  const box = el("input", { type: "checkbox", checked, change: () => change(box.checked) });
  return el("label", {}, box, " ", label);
}

const part = (title, open, ...children) =>
  el("details", { class: "part", open }, el("summary", {}, title), ...children);

// Pairs as a list of terms.
const terms = (pairs) => el("dl", {}, pairs.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
