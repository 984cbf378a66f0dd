// The page's data, and the numbers that charts are made of: the arithmetic of recollect.views, which a test compares.

const $ = (id) => document.getElementById(id);
const missing = (value) => value === null || value === undefined;
const plain = (field) => DATA.names[field] || field;
const short = (value) => (typeof value === "number" && value % 1 ? Number(value.toPrecision(4)) : (value ?? "–"));
const { compare } = new Intl.Collator("en", { numeric: true });
let DATA, S, LINES; // S: what is chosen; LINES: names and looks of the lines, and by its number the line of each run

// A run that diverged before it was measured recalls nothing: its accuracy counts as 0, as in the windows.
const measured = (name, i) => DATA.runs[name][i] ?? (name === "accuracy" ? 0 : null);

// Which runs a filter keeps: words, field=value, or field>number, all of which must fit.
function matcher(text) {
  const called = (field) => [field, field.split(".").at(-1), plain(field).replaceAll(" ", "_")];
  const signs = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b };
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, name, sign, wanted] = word.match(/^([\w.]+?)(>=|<=|!=|>|<|=)(.+)$/) || [];
    const values = DATA.runs[Object.keys(DATA.runs).find((field) => called(field).includes(name))];
    const holds = (value) => String(value).toLowerCase().includes(values ? wanted : word);
    if (!values) return (i) => ["study", "configuration", "status", "id"].some((field) => holds(DATA.runs[field][i]));
    if (signs[sign]) return (i) => signs[sign](Number(values[i] ?? NaN), Number(wanted));
    return (i) => (typeof values[i] === "number" ? values[i] === Number(wanted) : holds(values[i])) === (sign === "=");
  });
  return (i) => tests.every((test) => test(i));
}

// Of some runs, those at the learning rate that is asked for.
function atRate(runs) {
  const { at_best, "train.lr": rates } = DATA.runs, near = (i) => Math.abs(rates[i] / S.rate - 1) < 1e-9;
  return (S.rate ?? "all") === "all" ? runs : runs.filter((i) => (S.rate === "best" ? at_best[i] : near(i)));
}

// Items by a value of each; what is missing comes last.
function sorted(items, value, down) {
  const order = (x, y) => (typeof x === "number" && typeof y === "number" ? x - y : compare(x, y)) * (down ? -1 : 1);
  return items.toSorted((a, b) => missing(value(a)) - missing(value(b)) || order(value(a), value(b)));
}

// From rows of line, x and y to each line's points in the order of x: mean, low, high, count.
function summarised(rows) {
  const lines = new Map();
  for (const { line, x, y, low = y, high = y, weight = 1 } of rows) {
    if (missing(x) || missing(y)) continue;
    const points = lines.get(line) ?? lines.set(line, new Map()).get(line);
    const { sum, count, ...ends } = points.get(x) ?? { sum: 0, count: 0, low, high }, all = count + weight;
    const whole = { x, sum: sum + weight * y, count: all, mean: (sum + weight * y) / all };
    points.set(x, { ...whole, low: Math.min(ends.low, low), high: Math.max(ends.high, high) });
  }
  return new Map([...lines].map(([line, points]) => [line, sorted([...points.values()], (point) => point.x)]));
}

// The points of curves. To draw means, every curve is there at all x of its line: with its last value up to there.
function curveRows(runs, single) {
  return [...Map.groupBy(runs, (i) => LINES.of[i])].flatMap(([line, own]) => {
    const curves = [...new Set(own.map((i) => DATA.runs.curve[i]))].flatMap((number) => DATA.curves[number] ?? []);
    const all = new Set(curves.flatMap((curve) => curve[S.x]));
    return curves.flatMap(({ [S.x]: xs, [S.y]: ys, [`${S.y}.low`]: low, [`${S.y}.high`]: high, weight, run }) => {
      const own = (x, k) => ({ line, x, mean: ys[k], low: ys[k], high: ys[k], count: 1, run });
      const held = (x, k) => ({ line, x, y: ys[k], low: low?.[k], high: high?.[k], weight: weight?.[k] });
      if (single) return [...xs.map(own), { line }]; // a gap before the next run
      return [...all].map((x) => held(x, xs.findLastIndex((at, k) => at <= x && !missing(ys[k]))));
    });
  });
}

// Answers by a tag: of each configuration at its end, or of one over training, with a line per step.
function tagRows() {
  const { study, line, tag, end, step, value, count, right } = DATA.tags, { names } = DATA.lines["with study"];
  const chosen = (k) => (S.show ? S.show === names[line[k]] && !end[k] : end[k] && S.studies.includes(study[k]));
  const rows = [...tag.keys()].filter((k) => tag[k] === S.tag && chosen(k));
  return rows.map((k) => ({ line: S.show ? step[k] : line[k], x: value[k], y: right[k] / count[k] }));
}

// The lines with the best values: the highest, or the lowest of a loss, a time or a step.
function bestLines(lines, y) {
  const way = DATA.costs.includes(y) ? 1 : -1;
  const best = ([, points]) => Math.min(...points.filter((point) => point.count).map((point) => way * point.mean));
  const kept = sorted(lines, best).slice(0, Number(S.top) || lines.length);
  return lines.filter((line) => kept.includes(line));
}
