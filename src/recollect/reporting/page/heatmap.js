// Cells of colour.

const RAMP = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]]; // viridis
const LETTER = 6.6; // pixels, about

function shade(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), i = Math.min(Math.floor(at), RAMP.length - 2);
  return RAMP[i].map((part, k) => Math.round(part + (RAMP[i + 1][k] - part) * (at - i)));
}

function brief(value) {
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e4 || size < 1e-2 ? value.toExponential(0) : String(Number(value.toPrecision(2)));
}

// spec: label, rowTitle, columnTitle, rows and columns (texts), cells[row][column] {value, about} or null, range.
function heatmap(host, spec) {
  const known = spec.cells.flat().filter(Boolean).map((cell) => cell.value);
  if (!known.length) return nothing(host);
  const ends = (pair, value) => [Math.min(pair[0], value), Math.max(pair[1], value)];
  const [low, high] = spec.range || known.reduce(ends, [known[0], known[0]]);
  const told = spec.range ? (value) => value.toFixed(2) : brief;
  const count = spec.rows.length, longest = Math.max(...spec.rows.map((row) => row.length));
  const left = Math.min(300, 30 + LETTER * longest), right = WIDTH - 70, top = 8;
  const across = (right - left) / spec.columns.length, down = Math.min(26, Math.max(count <= 60 ? 13 : 5, 420 / count));
  const bottom = top + down * count, height = Math.max(bottom + 44, 130);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}` });
  headings(drawing, spec, { left, right, top, bottom, across, down });
  const targets = spec.cells.map((cells, i) => cells.map((cell, j) => {
    const [x, y] = [left + across * j, top + down * i];
    const ink = cell && shade(high > low ? (cell.value - low) / (high - low) : 1);
    const size = { x, y, width: across + 0.3, height: down + 0.3 };
    drawing.append(svg("rect", { class: cell ? "cell" : "absent", ...size, fill: ink && `rgb(${ink})` }));
    if (!cell) return null;
    const middle = { x: x + across / 2, y: y + down / 2 };
    if (across >= 36 && down >= 13) {
      const dark = ink[0] * 0.299 + ink[1] * 0.587 + ink[2] * 0.114 < 140;
      const style = `fill:${dark ? "#fff" : "#000"};font-size:11px`;
      drawing.append(svg("text", { x: middle.x, y: middle.y + 4, "text-anchor": "middle", style }, told(cell.value)));
    }
    return { ...middle, about: cell.about };
  }).filter(Boolean)).filter((row) => row.length);
  for (let i = 0; i < 50; i++)
    drawing.append(svg("rect", { x: right + 24, y: top + i * 2, width: 12, height: 2.2, fill: `rgb(${shade(1 - i / 49)})` }));
  for (const [value, at] of [[high, top + 8], [low, top + 100]])
    drawing.append(svg("text", { class: "soft", x: right + 40, y: at }, told(value)));
  const ring = () => svg("rect", { x: -across / 2, y: -down / 2, width: across, height: down });
  inspectable(host, drawing, targets, spec.label, height, ring);
}

function headings(drawing, spec, { left, right, top, bottom, across, down }) {
  const room = Math.floor((left - 40) / LETTER), cut = (text) => (text.length > room + 2 ? `${text.slice(0, room)}…` : text);
  const widest = Math.max(...spec.columns.map((column) => column.length));
  const [everyRow, everyColumn] = [Math.ceil(11 / down), Math.ceil((7 * widest + 8) / across)];
  spec.rows.forEach((row, i) => {
    if (i % everyRow) return;
    const place = { class: "soft", x: left - 6, y: top + down * (i + 0.5) + 4, "text-anchor": "end" };
    drawing.append(svg("text", place, cut(row), svg("title", {}, row)));
  });
  spec.columns.forEach((column, j) => {
    if (j % everyColumn) return;
    const place = { class: "soft", x: left + across * (j + 0.5), y: bottom + 15, "text-anchor": "middle" };
    drawing.append(svg("text", place, column));
  });
  drawing.append(svg("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, spec.columnTitle));
  if (bottom - top < LETTER * spec.rowTitle.length) return; // no room along the side
  const side = `translate(11,${(top + bottom) / 2}) rotate(-90)`;
  drawing.append(svg("text", { "text-anchor": "middle", transform: side }, spec.rowTitle));
}
