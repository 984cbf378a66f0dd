// From numbers to Plotly's traces and layout, in the look of recollect.views; the key under a chart, keyboard, and saving.

const safe = (text) => String(text).replace(/[&<>]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[letter]);
const theme = () => S.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const tone = (name) => DATA.style.themes[theme()][name];
const mixerOf = (label) => label.match(/^[\p{L}\p{N}_]*/u)[0];
let drawn = { head: [], rows: [] }, hidden = new Set(), place = [0, 0];

function looks(labels) {
  const { mixers, dashes, markers, colours } = DATA.style, names = [...new Set(labels.map(mixerOf))], taken = new Set(names.map((name) => mixers.indexOf(name)));
  const free = colours.light.map((_, i) => i).filter((i) => !taken.has(i)), seen = {}, number = {};
  for (const name of names) number[name] = mixers.includes(name) ? mixers.indexOf(name) : free.shift() ?? 0;
  return new Map(labels.map((label, i) => {
    const mixer = mixerOf(label), k = (seen[mixer] = (seen[mixer] ?? -1) + 1), alone = names.length === 1;
    const colour = colours[theme()][(number[mixer] + (alone ? i : 0)) % colours.light.length];
    return [label, { colour, dash: dashes[k % dashes.length], symbol: markers[k % markers.length], opacity: alone ? 1 : Math.max(0.55, 1 - 0.15 * k) }];
  }));
}

const ABOUT = "<b>%{fullData.name}</b><br>%{x}: <b>%{y:.4g}</b><br>%{customdata}<extra></extra>";
const about = (p) => (p.about ? safe(p.about) : p.count > 1 ? `${short(p.low)} to ${short(p.high)} over ${p.count} runs` : "1 run");

function lineTraces(lines, single) {
  const look = looks([...lines.keys()]), traces = [];
  for (const [name, points] of lines) {
    if (hidden.has(name)) continue;
    const { colour, dash, symbol, opacity } = look.get(name), all = points.map((p) => p.x), own = { name: safe(name), legendgroup: name, type: "scatter" };
    if (!single && points.some((p) => p.low < p.high))
      traces.push({ ...own, x: [...all, ...all.toReversed()], y: [...points.map((p) => p.high), ...points.map((p) => p.low).toReversed()],
        mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: `${colour}${lines.size > 6 ? 12 : 24}`, hoverinfo: "skip", showlegend: false });
    traces.push({ ...own, x: all, y: points.map((p) => p.mean), customdata: points.map(about), hovertemplate: ABOUT, opacity, connectgaps: false,
      mode: points.length > DATA.style.many || single ? "lines" : "lines+markers", line: { color: colour, width: single ? 1.2 : 2, dash }, marker: { color: colour, size: 7, symbol } });
  }
  return traces;
}

function axis(name, title, asked, values, auto) {
  const distinct = [...new Set(values)].filter((value) => !missing(value)).sort(ordered), numbers = distinct.every((value) => typeof value === "number");
  const type = asked !== "auto" && asked ? asked : !numbers ? "category" : auto && logarithmic(distinct) ? "log" : "linear";
  const few = numbers && auto && distinct.length > 1 && distinct.length <= DATA.style.few && logarithmic(distinct);
  const ticks = few ? { tickvals: distinct, ticktext: distinct.map(valueText) } : {};
  return { ...DATA.style.layout[theme()][name], title: { text: safe(title), standoff: 8 }, type, ...ticks };
}

function lineLayout(lines, x, y) {
  const points = [...lines.values()].flat(), layout = { ...DATA.style.layout[theme()], showlegend: false };
  layout.xaxis = axis("xaxis", plain(x), view().source !== "runs" && S.xscale === "auto" ? "linear" : S.xscale, points.map((p) => p.x), true);
  layout.yaxis = axis("yaxis", plain(y), S.yscale, points.map((p) => p.mean), y === "train.lr");
  if (isShare(y) && layout.yaxis.type === "linear") layout.yaxis.range = [-0.03, 1.04];
  return layout;
}

// The threshold, the rates of Zoology, and the windows as bars in a strip under the curves.
function addWindows(lines, traces, layout) {
  const xs = [...lines.values()].flat().map((p) => p.x), [low, high] = [Math.log10(Math.min(...xs)) - 0.06, Math.log10(Math.max(...xs)) + 0.06];
  const rule = (at) => ({ type: "line", layer: "below", line: { color: tone("soft"), width: 1, dash: "dot" }, ...at });
  layout.shapes = [rule({ xref: "paper", x0: 0, x1: 1, y0: DATA.threshold, y1: DATA.threshold }),
    ...DATA.zoology.filter((rate) => 10 ** low <= rate && rate <= 10 ** high).map((x) => rule({ yref: "paper", x0: x, x1: x, y0: 0, y1: 1 }))];
  if (layout.xaxis.type === "log") layout.xaxis.range = [low, high];
  if (S.lines !== "configuration" || S.filter) return;
  const look = looks([...lines.keys()]), own = (row) => named(row.configuration, row.study);
  const rows = DATA.configurations.filter((row) => row.decades > 0 && S.studies.includes(row.study) && lines.has(own(row)));
  const height = 0.022 * (rows.length + 1);
  for (const [i, row] of rows.entries()) {
    const name = own(row);
    if (!hidden.has(name)) traces.push({ type: "scatter", x: [row.low, row.high], y: [-i, -i], yaxis: "y2", mode: "lines", line: { color: look.get(name).colour, width: 6 }, name: safe(name),
      showlegend: false, text: `window: ${short(row.decades)} decades, ${valueText(row.low)} to ${valueText(row.high)}`, hovertemplate: "%{text}<extra></extra>" });
  }
  Object.assign(layout.yaxis, { domain: [height + 0.01, 1], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] });
  layout.xaxis.anchor = "y2";
  layout.yaxis2 = { domain: [0, height], range: [0.3 - rows.length, 0.7], visible: false, fixedrange: true };
}

function gridChart(rows, x, y, of, share) {
  const columns = [...new Set(rows.map((row) => row.x))].sort(ordered).slice(0, 60), lines = [...new Set(rows.map((row) => row.line))].slice(0, 60);
  const cells = summarised(rows.map((row) => [row.line, row.x, row.y])), at = (line) => new Map((cells.get(line) || []).map((p) => [p.x, p.mean]));
  const z = lines.map((line) => columns.map((column) => at(line).get(column) ?? null)), layout = { ...DATA.style.layout[theme()] };
  layout.xaxis = { ...layout.xaxis, title: { text: safe(plain(x)), standoff: 8 }, type: "category", showgrid: false };
  layout.yaxis = { ...layout.yaxis, title: { text: safe(plain(y)), standoff: 8 }, type: "category", showgrid: false, autorange: "reversed" };
  drawn = { head: [plain(y), ...columns], rows: lines.map((line, k) => [line, ...z[k]]) };
  return [[{ type: "heatmap", z, x: columns.map((value) => safe(valueText(value))), y: lines.map(safe), colorscale: DATA.style.scale, xgap: 1, ygap: 1, hoverongaps: false,
    ...(share ? { zmin: 0, zmax: 1 } : {}), colorbar: { title: { text: safe(plain(of)), side: "right" }, thickness: 12, outlinewidth: 0 },
    hovertemplate: `${safe(plain(y))} %{y}<br>${safe(plain(x))} %{x}<br><b>%{z:.4g}</b><extra></extra>` }], layout];
}

function parallelChart(runs, view) {
  const several = (field) => new Set(runs.map((i) => DATA.runs[field][i])).size > 1, fields = [...view.fields.filter(several), S.y];
  const dimensions = fields.map((field) => ({ ...view.axes[field], values: runs.map((i) => view.axes[field].values[i]) }));
  drawn = { head: ["id", ...fields], rows: runs.map((i) => [DATA.runs.id[i], ...fields.map((field) => DATA.runs[field][i])]) };
  const ends = isShare(S.y) ? { cmin: 0, cmax: 1 } : {}, layout = { ...DATA.style.layout[theme()], margin: { l: 110, r: 40, t: 56, b: 24 } };
  return [[{ type: "parcoords", dimensions, line: { color: runs.map((i) => measured(S.y, i)), colorscale: DATA.style.scale, ...ends } }], layout];
}

// The traces, the layout and the names of the lines of what is chosen.
function chart(view, runs) {
  if (view.kind === "figure") {
    const { data, layout } = view.figures[S[view.choices[0].name]], base = DATA.style.layout[theme()], axes = ["xaxis", "yaxis"].map((name) => [name, { ...base[name], ...layout[name] }]);
    drawn = { head: [], rows: data.flatMap((trace) => trace.z || []) };
    return [data, { ...base, ...layout, ...Object.fromEntries(axes) }, []];
  }
  const own = atRate(runs);
  if (view.kind === "parallel") return [...parallelChart(runs, view), []];
  if (view.kind === "grid") return [...gridChart(own.map((i) => ({ line: lineOf(i, S.lines), x: DATA.runs[S.x][i], y: measured(S.y, i) })), S.x, S.lines, S.y, isShare(S.y)), []];
  if (view.source === "tags" && S.show) return [...gridChart(tagRows().map((row) => ({ ...row, line: `${row.step}` })), S.tag, "step", "accuracy", true), []];
  const y = view.source === "tags" ? "accuracy" : S.y, x = view.source === "tags" ? S.tag : S.x, single = view.source === "curves" && S.show === "runs";
  let lines;
  if (view.source === "tags") lines = summarised(tagRows().map((row) => [row.line, row.x, row.y]));
  else if (view.source === "runs") lines = summarised(own.map((i) => [lineOf(i, S.lines), DATA.runs[x][i], measured(y, i)]));
  else lines = new Map([...curvesBy(own, S.lines)].map(([line, curves]) => [line, single ? singleRuns(curves, x, y) : meanCurve(curves, x, y)]));
  lines = bestLines(lines, S.top, y);
  drawn = { head: ["line", plain(x), "mean", "low", "high", "runs"], rows: [...lines].flatMap(([line, points]) => points.filter((p) => p.count).map((p) => [line, p.x, p.mean, p.low, p.high, p.count])) };
  const traces = lineTraces(lines, single), layout = lineLayout(lines, x, y);
  if (S.view === "window" && y === "accuracy" && lines.size) addWindows(lines, traces, layout);
  return [traces, layout, [...lines.keys()]];
}

// One line per run, as one trace with gaps between them.
function singleRuns(curves, x, y) {
  const { [x]: xs, [y]: ys, run } = DATA.curves, first = new Map(DATA.runs.curve.map((c, i) => [c, DATA.runs.id[i]]).reverse());
  return curves.flatMap((curve) => [...curve.map((k) => ({ x: xs[k], mean: ys[k], low: ys[k], high: ys[k], count: 1, about: `run ${first.get(run[k])}` })), { x: null, mean: null }]);
}
