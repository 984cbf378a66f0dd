// The pictures of one study: its sweep, its training curves, its grid, and accuracy by tag.

const FULL = [0, 1];
const isShare = (measure) => /(accuracy|answers|rows)$/.test(measure);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const distinct = (values) => [...new Set(values)];
const isNumber = (value) => typeof value === "number";
const inOrder = (values) => (values.every(isNumber) ? [...values].sort((a, b) => a - b) : values);
const named = (fields) => distinct(fields).map((field) => [field, plain(field)]);

// A run that diverged before it could be measured recalls nothing: its accuracy counts as 0, as in the windows.
const measured = (study, measure, i) => study.runs[measure][i] ?? (measure === "accuracy" ? 0 : null);
const runNumbers = (study) => study.runs.id.map((_, i) => i);
const keyOf = (study, field) => (i) => shown(field, study.runs[field][i]);

function aboutRun({ runs }, i) {
  const how = `learning rate ${rate(runs["train.lr"][i])}, seed ${runs["train.seed"][i]}`;
  return `${runs.configuration[i]}\n${how}, ${runs.status[i]} at step ${runs.step[i]}\nrun ${runs.id[i]}`;
}

function grouped(numbers, key) {
  const groups = new Map();
  for (const i of numbers) {
    if (!groups.has(key(i))) groups.set(key(i), []);
    groups.get(key(i)).push(i);
  }
  return groups;
}

// Of some runs, those at the learning rate whose mean accuracy is highest.
function atBestRate(study, numbers) {
  let best = [], highest = -Infinity;
  for (const members of grouped(numbers, (i) => study.runs["train.lr"][i]).values()) {
    const value = mean(members.map((i) => measured(study, "accuracy", i)));
    if (value > highest) [best, highest] = [members, value];
  }
  return best;
}

function valuesOf(study, measure, members) {
  const values = members.map((i) => measured(study, measure, i)).filter((value) => !missing(value));
  if (!values.length) return null;
  const [low, y, high] = [Math.min(...values), mean(values), Math.max(...values)];
  const spread = values.length > 1 ? `: mean of ${values.length} runs, ${short(low)} to ${short(high)}` : "";
  return { low, y, high, told: `${plain(measure)} ${short(y)}${spread}` };
}

// A drawing with its controls and its key. controls(state, set) -> elements; groups(state) -> names;
// draw(host, state, hidden) is called whenever a choice changes.
function chart(title, caption, state, controls, groups, draw) {
  const panel = el("div", { class: "controls" }), host = el("div", { class: "drawing" }), key = el("div"), hidden = new Set();
  const redraw = () => draw(host, state, hidden);
  function renew() {
    const names = groups(state);
    hidden.clear();
    names.slice(AT_FIRST).forEach((name) => hidden.add(name));
    panel.replaceChildren(...controls(state, (change) => { Object.assign(state, change); renew(); }).filter(Boolean));
    const said = `The first ${AT_FIRST} of ${names.length} are shown; choose others in the key.`;
    key.replaceChildren(names.length ? legend(names, hidden, redraw) : "");
    if (names.length > AT_FIRST) key.append(el("p", { class: "soft" }, said));
    redraw();
  }
  renew();
  return el("figure", {}, el("h3", {}, title), panel, host, key, el("figcaption", {}, caption));
}

function sweep(study) {
  const known = (field) => distinct(study.runs[field].filter((value) => !missing(value)));
  const axis = (field) => field !== "train.seed" && known(field).length > 1 && known(field).every(isNumber);
  const axes = study.fields.filter(axis);
  if (!axes.length) return null;
  const rates = axes.includes("train.lr"), first = rates ? "train.lr" : axes[0];
  const lines = (x) => (x === "train.lr" ? "configuration" : "model");
  const start = (x) => ({ x, by: lines(x), log: logarithmic(study.runs[x]) });
  const controls = (s, set) => [
    axes.length > 1 ? choice("x", named(axes), s.x, (x) => set(start(x))) : null,
    choice("y", named(study.measures), s.y, (y) => set({ y })),
    choice("lines", named(["configuration", "model", ...study.fields.filter((f) => f !== s.x)]), s.by, (by) => set({ by })),
    check("log x", s.log, (log) => set({ log })),
    rates && s.x !== "train.lr" ? check("best learning rate only", s.best, (best) => set({ best })) : null,
  ];
  const groups = (s) => distinct(runNumbers(study).map(keyOf(study, s.by)));
  const caption = "Line: mean; band: lowest to highest run." + (!rates ? "" : " Bars under the axis: the windows, where the "
    + `mean is at least ${study.threshold}; dashed: the four rates of Zoology. A run that diverged unmeasured counts as 0.`);
  const state = { ...start(first), y: "accuracy", best: true };
  return chart(rates ? "Learning-rate window" : "Sweep", caption, state, controls, groups, (host, s, hidden) => {
    const windowed = s.x === "train.lr" && s.by === "configuration" && s.y === "accuracy";
    const found = study.headline.filter((row) => windowed && row.decades > 0);
    const windows = new Map(found.map((row) => [row.configuration, [row.low, row.high]]));
    const drawn = [...grouped(runNumbers(study), keyOf(study, s.by))].map(([group, members], look) => {
      const at = grouped(members.filter((i) => !missing(study.runs[s.x][i])), (i) => study.runs[s.x][i]);
      const points = inOrder([...at.keys()]).map((x) => {
        const all = at.get(x), here = rates && s.best && s.x !== "train.lr" ? atBestRate(study, all) : all;
        const values = valuesOf(study, s.y, here);
        return { x, ...values, about: values && `${group}\n${plain(s.x)} ${shown(s.x, x)}\n${values.told}` };
      });
      return { group, look, points, window: windows.get(group) };
    });
    const zoology = s.x === "train.lr" ? DATA.zoology_rates.map((x) => ({ x, about: `a rate of Zoology's: ${rate(x)}` })) : [];
    lineChart(host, {
      label: `${plain(s.y)} against ${plain(s.x)}`, lines: drawn.filter((line) => !hidden.has(line.group)),
      rules: s.y === "accuracy" ? [{ y: study.threshold, about: `accuracy ${study.threshold}` }, ...zoology] : [],
      x: { title: plain(s.x), log: s.log }, y: { title: plain(s.y), range: isShare(s.y) ? FULL : null },
    });
  });
}

function logarithmic(values) {
  const known = inOrder(values.filter(isNumber));
  return known[0] > 0 && known.at(-1) / known[0] >= 8;
}

function curves(study) {
  if (!study.curves.length) return null;
  const lr = study.runs["train.lr"], numbers = study.curves.map((curve) => curve.run);
  const measures = study.curve_columns.filter((name) => name !== "step" && name !== "examples");
  const rates = inOrder(distinct(numbers.map((i) => lr[i])));
  const configurations = [...grouped(numbers, keyOf(study, "configuration")).values()];
  const best = new Set(configurations.flatMap((members) => atBestRate(study, members)));
  const wanted = (s) => (i) => s.rate === "all" || (s.rate === "best" ? best.has(i) : lr[i] === rates[s.rate]);
  const each = rates.map((value, i) => [String(i), rate(value)]);
  const choices = [["best", "the best of each configuration"], ["all", "all"], ...each];
  const controls = (s, set) => [
    choice("y", named(measures), s.y, (y) => set({ y })),
    choice("x", named(["step", "examples"].filter((name) => study.curve_columns.includes(name))), s.x, (x) => set({ x })),
    rates.length > 1 ? choice("learning rate", choices, s.rate, (asked) => set({ rate: asked })) : null,
    choice("colour by", named(["configuration", "model", ...study.fields]), s.by, (by) => set({ by })),
    check("log x", s.logX, (logX) => set({ logX })), check("log y", s.logY, (logY) => set({ logY })),
  ];
  const groups = (s) => distinct(numbers.filter(wanted(s)).map(keyOf(study, s.by)));
  const chosen = rates.length > 1 ? "best" : "all";
  const state = { x: "step", y: "accuracy", by: "configuration", rate: chosen, logX: false, logY: false };
  return chart("Training curves", study.curves_said, state, controls, groups, (host, s, hidden) => {
    const names = groups(s), key = keyOf(study, s.by), fits = wanted(s);
    const lines = study.curves.filter(({ run }) => fits(run) && !hidden.has(key(run))).map((curve) => {
      const about = aboutRun(study, curve.run), ys = curve[s.y] || [];
      const points = curve[s.x].map((x, k) => ({ x, y: ys[k], about: `${about}\n${s.x} ${x}: ${plain(s.y)} ${short(ys[k])}` }));
      return { group: key(curve.run), look: names.indexOf(key(curve.run)), points };
    });
    lineChart(host, {
      label: `${plain(s.y)} against ${s.x}`, lines, x: { title: s.x, log: s.logX },
      y: { title: plain(s.y), log: s.logY, range: isShare(s.y) ? FULL : null },
    });
  });
}

function grid(study) {
  const fields = distinct(["configuration", ...study.fields]);
  if (fields.length < 2) return null;
  const controls = (s, set) => [
    choice("rows", named(fields), s.row, (row) => set({ row })),
    choice("columns", named(fields), s.column, (column) => set({ column })),
    choice("of", named(study.measures), s.of, (of) => set({ of })),
  ];
  const state = { row: "configuration", column: fields.includes("train.lr") ? "train.lr" : fields[1], of: "accuracy" };
  const caption = "The mean over the runs of a cell; grey: no run.";
  return chart("Every cell of the grid", caption, state, controls, () => [], (host, s) => {
    const [rows, columns] = [s.row, s.column].map((field) => inOrder(distinct(study.runs[field])));
    const byRow = grouped(runNumbers(study), (i) => study.runs[s.row][i]);
    const cells = rows.map((row) => {
      const byColumn = grouped(byRow.get(row), (i) => study.runs[s.column][i]);
      return columns.map((column) => {
        const found = byColumn.has(column) ? valuesOf(study, s.of, byColumn.get(column)) : null;
        const where = `${plain(s.row)} ${shown(s.row, row)}\n${plain(s.column)} ${shown(s.column, column)}`;
        return found && { value: found.y, about: `${where}\n${found.told}` };
      });
    });
    heatmap(host, {
      label: `${plain(s.of)} by ${plain(s.row)} and ${plain(s.column)}`, rowTitle: plain(s.row), columnTitle: plain(s.column),
      rows: rows.map((row) => shown(s.row, row)), columns: columns.map((column) => shown(s.column, column)), cells,
      range: isShare(s.of) ? FULL : null,
    });
  });
}

function slices(study) {
  if (!study.slices.length) return null;
  const grows = (slice) => slice.steps.length > 1, start = study.slices.find(grows) || study.slices[0];
  const of = (s) => study.slices.filter((slice) => slice.tag === s.tag);
  const over = (s) => of(s).filter(grows).map((slice) => [slice.configuration, `${slice.configuration}, over training`]);
  const controls = (s, set) => [
    choice("tag", distinct(study.slices.map((slice) => slice.tag)).map((tag) => [tag, tag]), s.tag, (tag) => set({ tag })),
    choice("show", [["", "every configuration at its end"], ...over(s)], s.who, (who) => set({ who })),
  ];
  const state = { tag: start.tag, who: grows(start) ? start.configuration : "" };
  const caption = `Accuracy by a tag of the task, over all seeds at the configuration's best learning rate. ${study.slices_said}`;
  return chart("Accuracy by tag", caption, state, controls, () => [], (host, s) => {
    const one = of(s).find((slice) => slice.configuration === s.who && grows(slice));
    const lines = one ? one.steps.map((step, k) => [`step ${step}`, one, k])
      : of(s).map((slice) => [slice.configuration, slice, slice.steps.length - 1]);
    const values = distinct(lines.flatMap(([, slice]) => slice.values));
    const cells = lines.map(([name, slice, k]) => values.map((value) => {
      const place = slice.values.indexOf(value), count = slice.counts[k][place], right = slice.right[k][place];
      const where = `${one ? `${one.configuration}, ${name}` : name}\n${s.tag} ${value}`;
      return count ? { value: right / count, about: `${where}\n${short(right / count)}: ${right} of ${count} right` } : null;
    }));
    heatmap(host, {
      label: `accuracy by ${s.tag}`, rowTitle: one ? "progress" : "configuration", columnTitle: s.tag,
      rows: lines.map(([name]) => name), columns: values, cells, range: FULL,
    });
  });
}
