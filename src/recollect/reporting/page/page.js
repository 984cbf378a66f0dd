// What is chosen, and the page that follows it: controls, chart, key, table of runs, the link that keeps it all.

function el(tag, attributes, ...children) { // what comes from the data is set as text, never as markup
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) typeof value === "function" ? element.addEventListener(name, value) : element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const view = () => DATA.views.find((one) => one.name === S.view);
const defaults = (name) => Object.fromEntries((DATA.views.find((one) => one.name === name)?.choices || []).map((choice) => [choice.name, choice.value]));

function readLink() {
  const asked = new URLSearchParams(location.hash.slice(1)), known = DATA.views.find((one) => one.name === asked.get("view")) || DATA.views[0];
  S = { view: known?.name, studies: DATA.studies.slice(0, 1), filter: "", theme: "", sort: "", ...defaults(known?.name) };
  const offers = Object.fromEntries((view()?.choices || []).map((choice) => [choice.name, choice.options.map(([value]) => value)]));
  for (const [name, value] of asked) if (offers[name]?.includes(value) || ["filter", "theme", "sort"].includes(name)) S[name] = value;
  const studies = asked.getAll("study").filter((name) => DATA.studies.includes(name));
  if (studies.length) S.studies = studies;
}

function writeLink() {
  const link = new URLSearchParams(Object.entries(S).filter(([name, value]) => name !== "studies" && value));
  S.studies.forEach((name) => link.append("study", name));
  history.replaceState(null, "", `#${link}`);
}

function choose(change) {
  const { studies, filter, theme, sort } = S; // what all views share
  S = change.view ? { studies, filter, theme, sort, ...defaults(change.view), ...change } : { ...S, ...change };
  if (!("filter" in change || "sort" in change || "theme" in change)) hidden.clear();
  writeLink();
  if ("view" in change) fillControls();
  show();
}

function fillControls() {
  $("views").replaceChildren(...DATA.views.map((one) => el("button", { type: "button", "data-view": one.name, click: () => choose({ view: one.name }) }, one.title)));
  $("choices").replaceChildren(...(view()?.choices || []).filter((choice) => choice.options.length > 1).map((choice) => {
    const select = el("select", { name: choice.name, change: () => choose({ [choice.name]: select.value }) }, ...choice.options.map(([value, text]) => el("option", { value }, text)));
    return el("label", {}, choice.label, select);
  }));
  $("studies").hidden = DATA.studies.length < 2;
  $("study-list").replaceChildren(...DATA.studies.map((name) => el("label", {}, el("input", { type: "checkbox", value: name,
    change: () => choose({ studies: [...$("study-list").querySelectorAll(":checked")].map((box) => box.value) }) }), name)));
}

function show() {
  const now = view(), runs = members();
  document.documentElement.dataset.theme = theme();
  $("filter").value = S.filter;
  $("found").textContent = S.filter ? `${runs.length} of ${(DATA.runs.id || []).length} runs fit` : "";
  $("views").querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", button.dataset.view === S.view));
  $("choices").querySelectorAll("select").forEach((select) => { select.value = S[select.name]; });
  $("study-list").querySelectorAll("input").forEach((box) => { box.checked = S.studies.includes(box.value); });
  $("studies").querySelector("summary").textContent = `Studies: ${S.studies.length} of ${DATA.studies.length}`;
  document.querySelectorAll("[data-study]").forEach((part) => { part.hidden = !S.studies.includes(part.dataset.study); });
  fillRuns(runs);
  if (!now) return;
  const [traces, layout, names] = chart(now, runs), look = looks(names);
  $("caption").textContent = now.caption;
  $("chart").setAttribute("aria-label", `${now.title}. Arrow keys read the points.`);
  $("chart").style.minWidth = now.kind === "parallel" ? `${traces[0].dimensions.length * 95}px` : "";
  place = [0, -1];
  $("key").replaceChildren(...names.map((name) => el("button", { type: "button", "aria-pressed": !hidden.has(name), style: `--colour:${look.get(name).colour}`,
    class: look.get(name).dash.includes("dash") ? "dashed" : look.get(name).dash, click: () => { hidden.delete(name) || hidden.add(name); show(); } }, name)));
  Plotly.react("chart", traces, { ...layout, uirevision: JSON.stringify(S) }, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["toImage", "select2d", "lasso2d"] });
}

// The order of two values in a table: what is missing comes last.
const placed = (x, y, down) => (missing(x) || missing(y) ? missing(x) - missing(y) : ordered(x, y) * (down ? -1 : 1));

function fillRuns(runs, most = 25) {
  const { id, study, configuration, at_best, curve, model, ...rest } = DATA.runs, heads = ["id", ...(DATA.studies.length > 1 ? ["study"] : []), "configuration", ...Object.keys(rest)];
  const [, down, by] = S.sort.match(/^(-?)(.+)$/) || [];
  const rows = by in DATA.runs ? runs.toSorted((a, b) => placed(DATA.runs[by][a], DATA.runs[by][b], down)) : runs;
  const numeric = new Set(heads.filter((name) => runs.every((i) => missing(DATA.runs[name][i]) || typeof DATA.runs[name][i] === "number")));
  const cell = (name, i) => name === "id" ? el("button", { type: "button", class: "copy", title: "copy", click: (event) => copied(event.target, id[i]) }, id[i]) : name === "train.lr" ? valueText(DATA.runs[name][i]) : short(DATA.runs[name][i]);
  $("runs-head").replaceChildren(...heads.map((name) => el("th", { scope: "col", class: numeric.has(name) ? "number" : "", "aria-sort": by !== name ? "none" : down ? "descending" : "ascending" },
    el("button", { type: "button", click: () => choose({ sort: by === name && down ? name : `-${name}` }) }, plain(name)))));
  $("runs-body").replaceChildren(...rows.slice(0, most).map((i) => el("tr", {}, ...heads.map((name) => el("td", { class: numeric.has(name) ? "number" : "", title: DATA.runs[name][i] ?? "" }, cell(name, i))))));
  $("more").hidden = rows.length <= most;
  $("more").textContent = `Show more (${rows.length - most} left)`;
  $("more").onclick = () => fillRuns(runs, 10 * most);
  const all = Object.keys(DATA.runs).filter((name) => name !== "curve");
  $("runs-csv").onclick = () => saveCsv("runs", all, rows.map((i) => all.map((name) => DATA.runs[name][i])));
}

async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  $("spoken").textContent = `${text} copied`;
  button.animate([{ color: "var(--good)", transform: "scale(1.08)" }, {}], 900);
}

function saveCsv(name, head, rows) { // a spreadsheet must not take a text for a formula
  const cell = (value) => (typeof value === "number" ? String(value) : missing(value) ? "" : `"${String(value).replace(/^([=+\-@\t\r])/, "'$1").replaceAll('"', '""')}"`);
  const text = [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
  el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `${name}.csv` }).click();
}

function saveImage(format) {
  const { data, layout } = $("chart"), [width, height] = [1000, 620];
  const key = { showlegend: data.some((trace) => trace.type === "scatter"), legend: { orientation: "h", y: -0.16 }, title: { text: safe(view().title) }, margin: { ...layout.margin, t: 48 } };
  Plotly.downloadImage({ data, layout: { ...layout, ...key, width, height } }, { format, width, height, filename: `${S.view}-${S.studies.join("-").replace(/[^\w.-]+/g, "_")}`.slice(0, 80) });
}

function readPoint(event) { // arrow keys: along a line, and from line to line
  const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key], { data, layout } = $("chart");
  const lines = (data || []).map((trace, k) => [trace, k]).filter(([trace]) => trace.hovertemplate && (trace.y || trace.z));
  if (!way || !lines.length || event.preventDefault()) return;
  place[0] = (place[0] + way[0] + lines.length) % lines.length;
  const [trace, k] = lines[place[0]], flat = trace.z ? trace.z.flat() : trace.y, wide = trace.z ? trace.x.length : flat.length;
  place[1] = Math.min(Math.max(place[1] + way[1] + (trace.z ? way[0] * wide : 0), 0), flat.length - 1);
  const [row, column] = [Math.floor(place[1] / wide), place[1] % wide];
  Plotly.Fx.hover("chart", trace.z ? { xval: column, yval: row } : [{ curveNumber: k, pointNumber: place[1] }]);
  $("spoken").textContent = `${trace.z ? trace.y[row] : trace.name}, ${layout.xaxis.title.text} ${trace.x[column]}: ${short(flat[place[1]])}${trace.customdata ? `, ${trace.customdata[place[1]]}` : ""}`;
}

function sortable(table) {
  table.querySelectorAll("th button").forEach((button, k) => button.addEventListener("click", () => {
    const head = button.parentElement, up = head.getAttribute("aria-sort") === "descending", body = table.tBodies[0];
    const value = (row) => { const text = row.cells[k].dataset.value; return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text); };
    table.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", other !== head ? "none" : up ? "ascending" : "descending"));
    body.append(...[...body.rows].sort((a, b) => placed(value(a), value(b), !up)));
  }));
}

addEventListener("error", (event) => { $("faults").hidden = false; $("faults").append(el("p", {}, `This page has a fault: ${event.message}`)); });
addEventListener("unhandledrejection", (event) => dispatchEvent(new ErrorEvent("error", { message: String(event.reason) })));
unpacked($("data").textContent).then((data) => {
  DATA = data;
  const again = () => { readLink(); fillControls(); show(); };
  again();
  document.querySelectorAll("table.sortable").forEach(sortable);
  addEventListener("hashchange", () => (/^#(main|item-.*|verdicts)$/.test(location.hash) ? null : again()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  $("filter").addEventListener("input", () => choose({ filter: $("filter").value }));
  new ResizeObserver(() => $("chart").data && Plotly.Plots.resize("chart")).observe($("chart"));
  $("chart").addEventListener("keydown", readPoint);
  $("theme").addEventListener("click", () => choose({ theme: theme() === "dark" ? "light" : "dark" }));
  $("link").addEventListener("click", (event) => copied(event.target, location.href));
  $("csv").addEventListener("click", () => saveCsv(S.view, drawn.head, drawn.rows));
  ["svg", "png"].forEach((format) => $(format).addEventListener("click", () => saveImage(format)));
  document.documentElement.dataset.ready = "yes";
});
