// Lines over an axis, with bands, rules and windows.

// A map from values to pixels, and its ticks. range: the ends, where the values do not decide them.
function scale(values, from, to, log, range) {
  let low = range ? range[0] : Infinity, high = range ? range[1] : -Infinity;
  if (!range) for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low === high) {
    const around = Math.abs(low) / 2 || 1;
    [low, high] = log ? [low / 2, high * 2] : [low - around, high + around];
  }
  const [a, b] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const place = (value) => from + (((log ? Math.log10(value) : value) - a) / (b - a)) * (to - from);
  const ticks = log ? logTicks(a, b) : linearTicks(a, b);
  return { place, ticks: ticks.map((value) => [tickText(value, log), place(value)]) };
}

function linearTicks(a, b) {
  const rough = (b - a) / 6, power = 10 ** Math.floor(Math.log10(rough)), ticks = [];
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  for (let i = Math.ceil(a / step - 1e-9); i * step <= b + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(a, b) {
  const every = Math.max(1, Math.ceil((b - a) / 8)), ticks = [];
  for (let power = Math.floor(a); power <= Math.ceil(b); power += every)
    for (const times of b - a < 2.5 ? [1, 2, 5] : [1]) ticks.push(Number(`${times}e${power}`));
  return ticks.filter((value) => Math.log10(value) >= a - 1e-9 && Math.log10(value) <= b + 1e-9);
}

function tickText(value, log) {
  const size = Math.abs(value);
  return value && (size < (log ? 1e-2 : 1e-3) || size >= 1e6) ? value.toExponential().replace("+", "") : String(value);
}

const BOX = { left: 60, right: WIDTH - 14, top: 10, bottom: 330 };
const path = (points, first = "M") =>
  points.map(([x, y], i) => `${i ? "L" : first}${x.toFixed(1)},${y.toFixed(1)}`).join("");

// spec: label; x and y {title, log, range}; rules [{x or y, about}];
// lines [{group, look, window, points: [{x, y, low, high, about}]}], y missing where there is nothing to draw.
function lineChart(host, spec) {
  const fits = (p) => !missing(p.x) && !missing(p.y) && (!spec.x.log || p.x > 0) && (!spec.y.log || p.y > 0);
  const lines = spec.lines.map((line) => ({ ...line, drawn: line.points.filter(fits) })).filter((line) => line.drawn.length);
  if (!lines.length) return nothing(host);
  const all = lines.flatMap((line) => line.drawn), barred = lines.filter((line) => line.window);
  const spread = all.flatMap((p) => (missing(p.low) ? [p.y] : [p.low, p.high])).filter((value) => !spec.y.log || value > 0);
  const x = scale(all.map((p) => p.x), BOX.left, BOX.right, spec.x.log);
  const y = scale(spread, BOX.bottom, BOX.top, spec.y.log, spec.y.log ? null : spec.y.range);
  const foot = BOX.bottom + (barred.length ? 6 + 7 * barred.length : 0), height = foot + 46;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}` });
  axes(drawing, spec, x, y, foot, height);
  for (const rule of spec.rules || []) drawRule(drawing, rule, x, y);
  for (const line of lines) drawLine(drawing, line, x, y, fits, spec.y.log, lines.length > 24, all.length <= 600);
  barred.forEach((line, i) => {
    const [low, high] = line.window.map(x.place);
    drawing.append(svg("rect", {
      class: "window", x: low, y: BOX.bottom + 6 + 7 * i, width: Math.max(2, high - low), height: 4, fill: colour(line.look),
    }, svg("title", {}, `window of ${line.group}`)));
  });
  const targets = lines.map((line) => line.drawn.map((p) => ({ x: x.place(p.x), y: y.place(p.y), about: p.about })));
  inspectable(host, drawing, targets, spec.label, height, () => svg("circle", { r: 6 }));
}

function axes(drawing, spec, x, y, foot, height) {
  const { left, right, top, bottom } = BOX;
  for (const [text, at] of y.ticks)
    drawing.append(svg("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
      svg("text", { class: "soft", x: left - 6, y: at + 4, "text-anchor": "end" }, text));
  for (const [text, at] of x.ticks)
    drawing.append(svg("line", { class: "grid", x1: at, x2: at, y1: top, y2: foot }),
      svg("text", { class: "soft", x: at, y: foot + 16, "text-anchor": "middle" }, text));
  const side = `translate(14,${(top + bottom) / 2}) rotate(-90)`;
  drawing.append(svg("path", { class: "axis", d: `M${left},${top}V${foot}H${right}` }),
    svg("text", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }, spec.x.title),
    svg("text", { "text-anchor": "middle", transform: side }, spec.y.title));
}

function drawRule(drawing, rule, x, y) {
  const { left, right, top, bottom } = BOX, level = missing(rule.x), at = level ? y.place(rule.y) : x.place(rule.x);
  if (level ? at < top || at > bottom : at < left || at > right) return;
  const ends = level ? { x1: left, x2: right, y1: at, y2: at } : { x1: at, x2: at, y1: top, y2: bottom };
  drawing.append(svg("line", { class: level ? "threshold" : "reference", ...ends }, svg("title", {}, rule.about)));
}

function drawLine(drawing, line, x, y, fits, log, crowded, marked) {
  const banded = line.drawn.filter((p) => !missing(p.low) && (!log || p.low > 0));
  if (banded.some((p) => p.high > p.low)) {
    const upper = path(banded.map((p) => [x.place(p.x), y.place(p.high)]));
    const lower = path(banded.map((p) => [x.place(p.x), y.place(p.low)]).reverse(), "L");
    drawing.append(svg("path", { class: "band", fill: colour(line.look), d: `${upper}${lower}Z` }));
  }
  let d = "", pen = "M"; // a point that cannot be drawn interrupts the line
  for (const p of line.points) {
    if (fits(p)) d += path([[x.place(p.x), y.place(p.y)]], pen);
    pen = fits(p) ? "L" : "M";
  }
  drawing.append(svg("path", {
    class: crowded ? "curve crowded" : "curve", d, stroke: colour(line.look), "stroke-dasharray": dash(line.look),
    "data-group": line.group,
  }));
  if (line.drawn.length === 1 || (marked && line.drawn.length <= 40))
    for (const p of line.drawn) drawing.append(mark(line.look, x.place(p.x), y.place(p.y)));
}
