// What is chosen is what the form holds: the chart, its key, the table of runs and the link follow it.

const form = $("form");
let head = [], place = [0, -1]; // what the cells of `customdata` are; the line and the point where the arrow keys are
let drawn; // settled when Plotly has drawn the chart: a label shown before that is wiped off

function el(tag, properties, ...children) { // what comes from the data is set as text, never as markup
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function readLink() {
  form.reset();
  for (const [name, value] of new URLSearchParams(location.hash.slice(1)))
    for (const field of form.querySelectorAll(`[name="${CSS.escape(name)}"]`))
      if (["radio", "checkbox"].includes(field.type)) field.checked ||= field.value === value;
      else if (!field.options || [...field.options].some((option) => option.value === value)) field.value = value;
  show();
  $("views").scrollLeft = document.querySelector("#views :checked")?.parentElement.offsetLeft - 40;
}

function keep(change = {}) {
  for (const [name, value] of Object.entries(change)) form.elements[name].value = value;
  show();
  history.replaceState(null, "", `#${new URLSearchParams([...new FormData(form)].filter(([, value]) => value))}`);
}

function show() {
  const boxes = [...form.querySelectorAll("[name=study]")], view = new FormData(form).get("view");
  if (!boxes.some((box) => box.checked)) boxes[0].checked = true;
  for (const part of form.querySelectorAll("fieldset")) part.disabled = part.dataset.view !== view;
  S = { ...Object.fromEntries(new FormData(form)), studies: new FormData(form).getAll("study") };
  const fits = matcher(S.filter), by = S.lines ?? "configuration";
  const runs = [...(DATA.runs.id ?? []).keys()].filter((i) => S.studies.includes(DATA.runs.study[i]) && fits(i));
  LINES = DATA.lines[by === "configuration" && S.studies.length > 1 ? "with study" : by];
  document.documentElement.dataset.theme = theme();
  $("found").textContent = S.filter ? `${runs.length} of ${DATA.runs.id.length} runs fit` : "";
  $("studies").firstElementChild.textContent = `Studies: ${S.studies.length} of ${boxes.length}`;
  for (const part of document.querySelectorAll("[data-study]")) part.hidden = !S.studies.includes(part.dataset.study);
  fillRuns(runs);
  if (view) draw(DATA.views.find(({ name }) => name === view), runs);
}

function draw(view, runs) {
  const { data, layout, lines = [], head: cells } = chart(view, runs), { templates, config, none } = DATA.style;
  [head, place] = [cells, [0, -1]];
  $("caption").textContent = view.caption;
  $("chart").ariaLabel = `${view.title}. Arrow keys read the points.`;
  $("key").replaceChildren(...lines.map((line) => {
    const name = LINES.names[line], className = LINES.looks[line].dash, style = `--colour:${colourOf(line)}`;
    return el("button", { type: "button", className, style, ariaPressed: !hidden.has(name) }, name);
  }));
  const kept = { template: templates[theme()], uirevision: JSON.stringify(S) };
  drawn = Plotly.react("chart", data, { ...layout, ...(runs.length ? {} : none), ...kept }, config);
}

function fillRuns(runs, most = 25) {
  const [, down, by] = S.sort.match(/^(-?)(.*)$/), heads = [...$("runs-head").cells];
  const rows = by in DATA.runs ? sorted(runs, (i) => DATA.runs[by][i], down) : runs;
  const cell = (i, { dataset: { field }, className }) => {
    const value = DATA.runs[field][i], copy = { type: "button", className: "copy", title: "copy" };
    return el("td", { className, title: value ?? "" }, field === "id" ? el("button", copy, value) : short(value));
  };
  for (const th of heads) th.ariaSort = th.dataset.field !== by ? "none" : down ? "descending" : "ascending";
  $("runs-body").replaceChildren(...rows.slice(0, most).map((i) => el("tr", {}, ...heads.map((th) => cell(i, th)))));
  const left = rows.length - most, onclick = () => fillRuns(runs, 10 * most);
  Object.assign($("more"), { hidden: left <= 0, textContent: `Show more (${left} left)`, onclick });
  const all = Object.keys(DATA.runs).filter((name) => name !== "curve");
  $("runs-csv").onclick = () => saveCsv("runs", all, rows.map((i) => all.map((name) => DATA.runs[name][i])));
}

function sortTable(th) { // the table of runs by its data, any other by the values in its cells
  const down = th.ariaSort !== "descending", body = th.closest("table").tBodies[0];
  if (th.dataset.field) return keep({ sort: `${down ? "-" : ""}${th.dataset.field}` });
  for (const each of th.parentElement.cells) each.ariaSort = each !== th ? "none" : down ? "descending" : "ascending";
  body.append(...sorted([...body.rows], (row) => JSON.parse(row.cells[th.cellIndex].dataset.value), down));
}

async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  $("spoken").textContent = `${text} copied`;
  button.animate([{ color: "var(--good)", transform: "scale(1.08)" }, {}], 900);
}

function saveCsv(name, heads, rows) { // a spreadsheet must not take a text for a formula
  const quoted = (text) => `"${text.replace(/^([=+\-@\t\r])/, "'$1").replaceAll('"', '""')}"`;
  const cell = (value) => (typeof value === "string" ? quoted(value) : (value ?? ""));
  const text = [heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
  el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `${name}.csv` }).click();
}

function saveImage(format) {
  const { data, layout } = $("chart"), { size, ...around } = DATA.style.picture;
  const title = { text: $("chart").ariaLabel.split(".")[0] }, showlegend = data[0]?.type === "scatter";
  const whole = { ...layout, ...around, ...size, title, showlegend };
  Plotly.downloadImage({ data, layout: whole }, { format, filename: S.view, ...size });
}

// The points of the chart by line: the cells of each, and how Plotly finds it.
function points() {
  return $("chart").data.flatMap(({ z, customdata = [] }, curveNumber) => {
    const at = (row, k) => (z ? { xval: k, yval: row } : [{ curveNumber, pointNumber: k }]);
    const line = (all, row) => all.map((cells, k) => [cells, at(row, k)]);
    return (z ? customdata : [customdata]).map(line).filter((some) => some.length);
  });
}

function readPoint(event) { // arrow keys: along a line, and from line to line
  const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const lines = points();
  if (!way || !lines.length) return;
  event.preventDefault();
  const line = (place[0] + way[0] + lines.length) % lines.length;
  place = [line, Math.min(Math.max(place[1] + way[1], 0), lines[line].length - 1)];
  const [cells, point] = lines[line][place[1]];
  if ($("chart").data[0].type !== "parcoords") drawn.then(() => Plotly.Fx.hover("chart", point));
  $("spoken").textContent = cells.map((cell, k) => `${head[k]} ${short(cell)}`).join(", ");
}

function clicked({ target }) {
  const th = target.closest("th"), name = target.closest("#key button")?.textContent;
  if (th) sortTable(th);
  if (target.matches(".copy")) copied(target, target.textContent);
  if (target.id === "link") copied(target, location.href);
  if (target.id === "theme") keep({ theme: theme() === "dark" ? "light" : "dark" });
  if (target.id === "csv") saveCsv(S.view, head, points().flat().map(([cells]) => cells));
  if (["svg", "png"].includes(target.id)) saveImage(target.id);
  if (!name) return;
  hidden.delete(name) || hidden.add(name);
  show();
}

const fault = ({ message, reason }) => $("faults").append(el("p", {}, `This page has a fault: ${message ?? reason}`));

async function start() {
  const bytes = Uint8Array.from(atob($("data").textContent), (letter) => letter.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  DATA = await new Response(text).json();
  readLink();
  addEventListener("hashchange", () => (/^#(main|item-.*|verdicts)$/.test(location.hash) ? null : readLink()));
  addEventListener("click", clicked);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  form.addEventListener("input", () => keep());
  $("chart").addEventListener("keydown", readPoint);
  document.documentElement.dataset.ready = "yes";
}
addEventListener("error", fault);
addEventListener("unhandledrejection", fault);
start();
