// Tables that sort by a click on a heading, and filter by words.

const PAGE = 100; // rows shown at first

// A column: title, about (a longer title), cell(row) -> value, show(value, row) -> text or element,
// number (whether it is one), kind (`mono` or `text`, which may wrap).
function table(columns, rows, caption, filtered, first = PAGE) {
  let sorted = null, falling = false, words = [], limit = first;
  const body = el("tbody"), said = el("span", { class: "soft", role: "status" }), text = new Map();
  const more = el("button", { class: "more", type: "button", click: () => { limit += 10 * PAGE; fill(); } });
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", title: column.about, click: () => sort(column) }, column.title);
    return el("th", { class: column.number ? "number" : null, scope: "col", "aria-sort": "none" }, button);
  });

  function sort(column) {
    falling = sorted === column ? !falling : Boolean(column.number);
    sorted = column;
    const way = falling ? "descending" : "ascending";
    heads.forEach((head, i) => head.setAttribute("aria-sort", columns[i] === column ? way : "none"));
    fill();
  }

  function compare(a, b) {
    const [x, y] = [sorted.cell(a), sorted.cell(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y); // what is not there comes last, whichever way
    const numbers = typeof x === "number" && typeof y === "number";
    const order = numbers ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return falling ? -order : order;
  }

  function matches(row) {
    if (!text.has(row)) {
      const cells = columns.map((column) => `${column.title}=${column.cell(row)}`);
      text.set(row, cells.join(" ").toLowerCase());
    }
    return words.every((word) => text.get(row).includes(word));
  }

  function cell(column, row) {
    const value = column.cell(row), told = column.show ? column.show(value, row) : short(value);
    const exact = typeof value === "number" && told !== String(value) ? String(value) : null;
    return el("td", { class: column.number ? "number" : column.kind, title: exact }, told);
  }

  function fill() {
    const found = words.length ? rows.filter(matches) : [...rows];
    if (sorted) found.sort(compare);
    body.replaceChildren(...found.slice(0, limit).map((row) => el("tr", {}, columns.map((column) => cell(column, row)))));
    said.textContent = words.length ? `${found.length} of ${rows.length} rows` : "";
    more.hidden = found.length <= limit;
    more.textContent = `${found.length - limit} more rows`;
  }

  const filter = el("input", { type: "search", placeholder: "words, or status=solved", input: () => {
    words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    fill();
  } });
  fill();
  return el("div", {},
    filtered ? el("div", { class: "controls" }, el("label", {}, "filter ", filter), said) : null,
    el("div", { class: "table" }, el("table", {},
      caption ? el("caption", {}, caption) : null, el("thead", {}, el("tr", {}, heads)), body)),
    more);
}
