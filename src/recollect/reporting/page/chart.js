// From numbers to Plotly's traces and layout. Names, looks, axes and templates come with the data.

const safe = (text) => String(text).replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
const theme = () => S.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const colourOf = (line) => DATA.style.colours[theme()][LINES.looks[line].colour];
const ends = (low, high, field) => (DATA.shares.includes(field) ? { [low]: 0, [high]: 1 } : {});
const hidden = new Set(); // the names of the lines that the key has turned off

function lineTraces([line, points], _, lines) { // the band, and over it the line
  const { dash, symbol, opacity } = LINES.looks[line], color = colourOf(line), name = LINES.names[line];
  const [x, y, low, high] = ["x", "mean", "low", "high"].map((part) => points.map((point) => point[part]));
  const own = { type: "scatter", name: safe(name), legendgroup: name }, single = "run" in points[0];
  const band = {
    ...own, x: [...x, ...x.toReversed()], y: [...high, ...low.toReversed()], mode: "lines", line: { width: 0 },
    fill: "toself", fillcolor: `${color}${lines.length > 6 ? 12 : 24}`, hoverinfo: "skip", showlegend: false,
  };
  const cells = (p) => (p.count ? [name, p.x, p.mean, p.low, p.high, p.count, ...(single ? [p.run] : [])] : []);
  const means = {
    ...own, x, y, opacity, customdata: points.map(cells), hovertemplate: DATA.style.hover[single ? "run" : "mean"],
    mode: single || points.length > DATA.style.many ? "lines" : "lines+markers",
    line: { color, dash, width: single ? 1.2 : 2 }, marker: { color, symbol, size: 7 },
  };
  return !single && points.some((point) => point.low < point.high) ? [band, means] : [means];
}

// The windows as bars in a strip under the curves.
function addWindows(lines, traces, layout) {
  const bars = DATA.windows.filter(({ line, study }) => S.studies.includes(study) && lines.includes(line));
  const height = 0.022 * (bars.length + 1), shared = { type: "scatter", mode: "lines", yaxis: "y2", showlegend: false };
  for (const [i, { line, x, text }] of bars.entries()) {
    const bar = { ...shared, x, y: [-i, -i], text, hovertemplate: "%{text}<extra></extra>" };
    if (!hidden.has(LINES.names[line])) traces.push({ ...bar, line: { color: colourOf(line), width: 6 } });
  }
  layout.yaxis = { ...layout.yaxis, domain: [height + 0.01, 1], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1] };
  layout.yaxis2 = { domain: [0, height], range: [0.3 - bars.length, 0.7], visible: false, fixedrange: true };
  layout.xaxis.anchor = "y2";
}

// A grid of colours, with the names of its columns and of its rows.
function gridChart(rows, [x, y, of], across, down) {
  const cells = summarised(rows), distinct = (part) => [...new Set(rows.map((row) => row[part]))].slice(0, 60);
  const columns = distinct("x").sort((a, b) => a - b), lines = distinct("line");
  const value = (line, at) => cells.get(line)?.find((point) => point.x === at)?.mean ?? null;
  const customdata = lines.map((line) => columns.map((at) => [down(line), across(at), value(line, at)]));
  const [xaxis, yaxis, title] = [x, y, of].map((field) => ({ title: { text: safe(plain(field)) } }));
  const trace = {
    type: "heatmap", x: columns.map((at) => safe(across(at))), y: lines.map((line) => safe(down(line))), customdata,
    z: customdata.map((row) => row.map((cell) => cell[2])), hovertemplate: DATA.style.hover.cell, colorbar: title,
  };
  const layout = { xaxis: { ...xaxis, ...DATA.axes.columns }, yaxis: { ...yaxis, ...DATA.axes.rows } };
  return { data: rows.length ? [{ ...trace, ...ends("zmin", "zmax", of) }] : [], layout, head: [y, x, of].map(plain) };
}

function parallelChart(runs, { fields, axes, layout }) {
  const several = (field) => new Set(runs.map((i) => DATA.runs[field][i])).size > 1;
  const shown = [...fields.filter(several), S.y];
  const customdata = runs.map((i) => shown.map((field) => DATA.runs[field][i]));
  const dimensions = shown.map((field) => ({ ...axes[field], values: runs.map((i) => axes[field].values[i]) }));
  const line = { color: runs.map((i) => measured(S.y, i)), ...ends("cmin", "cmax", S.y) };
  return { data: [{ type: "parcoords", dimensions, line, customdata }], layout, head: shown.map(plain) };
}

// What is chosen: its traces, its layout, the numbers of its lines, and what the cells of `customdata` are.
function chart(view, runs) {
  if (view.kind === "figure") return { ...view.figures[S[view.choice]], head: ["row", "column", "value"] };
  if (view.kind === "parallel") return parallelChart(runs, view);
  const own = atRate(runs), tags = view.source === "tags", x = tags ? S.tag : S.x, y = tags ? "accuracy" : S.y;
  const ofRuns = (xs) => own.map((i) => ({ line: LINES.of[i], x: xs[i], y: measured(y, i) }));
  if (tags && S.show) return gridChart(tagRows(), [x, "step", y], short, short);
  if (view.kind === "grid") {
    const rows = ofRuns(DATA.lines[x].of).filter((_, k) => !missing(DATA.runs[x][own[k]]));
    return gridChart(rows, [x, S.lines, y], (at) => DATA.lines[x].names[at], (line) => LINES.names[line]);
  }
  const single = view.source === "curves" && S.show === "runs";
  const rows = tags ? tagRows() : view.source === "runs" ? ofRuns(DATA.runs[x]) : curveRows(own, single);
  const lines = bestLines([...(single ? Map.groupBy(rows, (row) => row.line) : summarised(rows))], y);
  const data = lines.filter(([line]) => !hidden.has(LINES.names[line])).flatMap(lineTraces);
  const ticks = (axis, type) => ({ type, range: undefined, tickvals: type === "log" ? axis.tickvals : undefined });
  const scaled = (axis, type) => ({ ...axis, ...(type === "auto" ? {} : ticks(axis, type)) });
  const layout = { xaxis: scaled(DATA.axes.x[x], S.xscale), yaxis: scaled(DATA.axes.y[y], S.yscale) };
  const numbers = lines.map(([line]) => line);
  if (S.view === "window" && y === "accuracy") layout.shapes = DATA.shapes;
  if (layout.shapes && S.lines === "configuration" && !S.filter) addWindows(numbers, data, layout);
  const head = ["line", plain(x), "mean", "low", "high", "runs", ...(single ? ["run"] : [])];
  return { data, layout, lines: numbers, head };
}
