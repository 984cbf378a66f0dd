// The page's data, and the numbers that charts are made of: the arithmetic of recollect.views, which a test compares.

const $ = (id) => document.getElementById(id);
const missing = (value) => value === null || value === undefined;
let DATA, S; // S: what is chosen

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function short(value) {
  if (missing(value) || value === "") return "–";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
const plain = (field) => DATA.names[field] || field;
const valueText = (value) =>
  missing(value) ? "none" : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(3))) : String(value);
const ordered = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
const isShare = (name) => /accuracy$|^(final\.)?(answers|rows|valid)$/.test(name);
const isCost = (name) => /loss/.test(name) || ["step", "best_step", "seconds", "train.lr"].includes(name);
const logarithmic = (values) => values.length > 0 && Math.min(...values) > 0 && Math.max(...values) >= 4 * Math.min(...values);

// A run that diverged before it was measured recalls nothing: its accuracy counts as 0, as in the windows.
const measured = (name, i) => DATA.runs[name][i] ?? (name === "accuracy" ? 0 : null);
const named = (configuration, study) => (S.studies.length > 1 ? `${configuration} · ${study}` : configuration);
const lineOf = (i, by) => (by === "configuration" ? named(DATA.runs.configuration[i], DATA.runs.study[i]) : valueText(DATA.runs[by][i]));

// Which runs a filter keeps: words, field=value, or field>number, all of which must fit.
function matcher(text) {
  const fields = Object.keys(DATA.runs), searched = ["study", "configuration", "status", "id"];
  const field = (name) => fields.find((f) => f === name || f.split(".").at(-1) === name || plain(f).replaceAll(" ", "_") === name);
  const compare = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b };
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, name, sign, wanted] = word.match(/^([\w.]+?)(>=|<=|!=|>|<|=)(.+)$/) || [], own = name && field(name);
    if (!own) return (i) => searched.some((f) => String(DATA.runs[f][i]).toLowerCase().includes(word));
    const same = (value) => (typeof value === "number" ? value === Number(wanted) : String(value).toLowerCase().includes(wanted));
    const values = DATA.runs[own];
    return (i) => (sign in compare ? !missing(values[i]) && compare[sign](values[i], Number(wanted)) : same(values[i]) === (sign === "="));
  });
  return (i) => tests.every((test) => test(i));
}

function members() {
  const own = new Set(S.studies), fits = matcher(S.filter), found = [];
  for (let i = 0; i < (DATA.runs.id || []).length; i++) if (own.has(DATA.runs.study[i]) && fits(i)) found.push(i);
  return found;
}

// Of some runs, those at the learning rate that is asked for.
function atRate(runs) {
  if (!("rate" in S) || S.rate === "all") return runs;
  if (S.rate === "best") return runs.filter((i) => DATA.runs.at_best[i]);
  return runs.filter((i) => Math.abs(DATA.runs["train.lr"][i] / Number(S.rate) - 1) < 1e-9);
}

// From [line, x, y] to each line's points in the order of x: mean, low, high, count.
function summarised(points) {
  const lines = new Map();
  for (const [line, x, y] of points) {
    if (missing(x) || missing(y)) continue;
    if (!lines.has(line)) lines.set(line, new Map());
    const at = lines.get(line), cell = at.get(x) || { x, sum: 0, low: y, high: y, count: 0 };
    at.set(x, { x, sum: cell.sum + y, low: Math.min(cell.low, y), high: Math.max(cell.high, y), count: cell.count + 1 });
  }
  for (const [line, at] of lines)
    lines.set(line, [...at.values()].sort((a, b) => ordered(a.x, b.x)).map((cell) => ({ ...cell, mean: cell.sum / cell.count })));
  return lines;
}

// The curves of runs by line: each the places of its points, in their order.
function curvesBy(runs, by) {
  const lines = new Map(), line = new Map(), found = new Map();
  for (const i of runs) {
    line.set(DATA.runs.curve[i], lineOf(i, by));
    lines.set(lineOf(i, by), []);
  }
  DATA.curves.run.forEach((run, k) => {
    if (!line.has(run)) return;
    if (!found.has(run)) lines.get(line.get(run)).push(found.set(run, []).get(run));
    found.get(run).push(k);
  });
  return new Map([...lines].filter(([, curves]) => curves.length));
}

// Mean and band at every x of a line: a run counts with its last value up to there.
function meanCurve(curves, x, y) {
  const { [x]: xs, [y]: ys, weight } = DATA.curves, lows = DATA.curves[`${y}.low`] || ys, highs = DATA.curves[`${y}.high`] || ys;
  const all = [...new Set(curves.flat().map((k) => xs[k]))].sort((a, b) => a - b), next = curves.map(() => 0), held = curves.map(() => null);
  return all.map((at) => {
    const cell = { x: at, sum: 0, low: Infinity, high: -Infinity, count: 0 };
    curves.forEach((curve, c) => {
      for (; next[c] < curve.length && xs[curve[next[c]]] <= at; next[c]++) if (!missing(ys[curve[next[c]]])) held[c] = curve[next[c]];
      if (held[c] === null) return;
      const k = held[c], n = weight ? weight[k] : 1;
      Object.assign(cell, { sum: cell.sum + n * ys[k], count: cell.count + n, low: Math.min(cell.low, lows[k]), high: Math.max(cell.high, highs[k]) });
    });
    return { ...cell, mean: cell.sum / cell.count };
  }).filter((cell) => cell.count);
}

// Answers by a tag: of each configuration at its end, or of one over training.
function tagRows() {
  const { study, line, tag, end, step, value, count, right } = DATA.tags, own = new Set(S.studies), rows = [];
  tag.forEach((name, k) => {
    const label = named(line[k], study[k]);
    if (name === S.tag && own.has(study[k]) && (S.show ? S.show === label && !end[k] : end[k])) rows.push({ line: label, step: step[k], x: value[k], y: right[k] / count[k] });
  });
  return rows;
}

function bestLines(lines, top, y) {
  if (top === "all" || lines.size <= Number(top)) return lines;
  const score = (points) => (isCost(y) ? Math.min(...points.map((p) => p.mean)) : -Math.max(...points.map((p) => p.mean)));
  const kept = new Set([...lines].map(([line, points]) => [line, score(points)]).sort((a, b) => a[1] - b[1]).slice(0, Number(top)).map(([line]) => line));
  return new Map([...lines].filter(([line]) => kept.has(line)));
}
