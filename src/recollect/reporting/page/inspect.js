// What every drawing shares: how its groups look, its key, and how mouse and keyboard read its values.

const WIDTH = 960;
const LOOKS = 8;
const DASHES = ["", "6 3", "7 3 1.5 3", "1.5 3", "10 2", "5 2 1.5 2 1.5 2", "2 1.5", "10 3 2 3"];
const MARKS = [
  "M-3.2,0a3.2,3.2 0 1,0 6.4,0a3.2,3.2 0 1,0 -6.4,0",
  "M-3,-3h6v6h-6z",
  "M0,-3.8L3.6,2.8H-3.6z",
  "M0,-4L4,0L0,4L-4,0z",
  "M0,3.8L3.6,-2.8H-3.6z",
  "M-1.3,-3.8h2.6v2.5h2.5v2.6h-2.5v2.5h-2.6v-2.5h-2.5v-2.6h2.5z",
  "M-3.5,-2L-2,-3.5L0,-1.5L2,-3.5L3.5,-2L1.5,0L3.5,2L2,3.5L0,1.5L-2,3.5L-3.5,2L-1.5,0z",
  "M0,-4.4L1.1,-1.4L4.2,-1.4L1.8,.6L2.6,3.6L0,1.8L-2.6,3.6L-1.8,.6L-4.2,-1.4L-1.1,-1.4z",
];
const colour = (look) => `var(--series-${look % LOOKS})`;
const turned = (look) => (look + Math.floor(look / LOOKS)) % LOOKS; // the ninth has the first's colour, not its marks
const dash = (look) => DASHES[turned(look)];
const mark = (look, x, y) =>
  svg("path", { d: MARKS[turned(look)], fill: colour(look), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` });

const AT_FIRST = 12; // groups shown before the reader chooses

// A key of groups, each a button that shows or hides its lines.
function legend(groups, hidden, redraw) {
  const buttons = groups.map((name, look) => el("button", {
    type: "button", "data-name": name,
    click: () => { if (!hidden.delete(name)) hidden.add(name); refresh(); },
  }, svg("svg", { width: 30, height: 12, "aria-hidden": "true" },
    svg("path", { class: "curve", d: "M0,6H30", stroke: colour(look), "stroke-dasharray": dash(look) }),
    mark(look, 15, 6)), name));
  function press() {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(!hidden.has(groups[i]))));
  }
  function refresh() { press(); redraw(); }
  const every = (title, change) =>
    el("button", { type: "button", class: "all", click: () => { change(); refresh(); } }, title);
  press();
  return el("div", { class: "legend", role: "group", "aria-label": "Shown" }, buttons, groups.length > 1 ? [
    every("all", () => hidden.clear()), every("none", () => groups.forEach((name) => hidden.add(name))),
  ] : []);
}

function nearest(points, x, y) {
  let [place, closest] = [-1, Infinity];
  points.forEach((point, i) => {
    const far = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (far < closest) [place, closest] = [i, far];
  });
  return [place, closest];
}

// Puts a drawing into its host. targets[row][column] {x, y, about}: what mouse and arrow keys visit, and tell.
function inspectable(host, drawing, targets, label, height, ring) {
  let row = -1, column = 0;
  const tip = el("div", { class: "tip", hidden: true }), here = svg("g", { class: "here", visibility: "hidden" }, ring());

  function show(spoken) {
    const target = targets[row][column], share = host.clientWidth / WIDTH;
    const [late, low] = [target.x > WIDTH * 0.62, target.y > height * 0.6];
    here.setAttribute("transform", `translate(${target.x},${target.y})`);
    here.setAttribute("visibility", "visible");
    tip.textContent = target.about;
    tip.hidden = false;
    tip.style.left = late ? "" : `${target.x * share + 12}px`;
    tip.style.right = late ? `${(WIDTH - target.x) * share + 12}px` : "";
    tip.style.top = low ? "" : `${target.y * share + 8}px`;
    tip.style.bottom = low ? `${(height - target.y) * share + 8}px` : "";
    if (spoken) document.getElementById("spoken").textContent = target.about;
  }

  function hide() {
    tip.hidden = true;
    here.setAttribute("visibility", "hidden");
  }

  function point(event) {
    const box = drawing.getBoundingClientRect(), share = WIDTH / box.width;
    const [x, y] = [(event.clientX - box.left) * share, (event.clientY - box.top) * share];
    let closest = Infinity;
    targets.forEach((points, i) => {
      const [place, far] = nearest(points, x, y);
      if (far < closest) [row, column, closest] = [i, place, far];
    });
    show(false);
  }

  function step(rows, columns) {
    if (row < 0) row = 0;
    else if (rows) {
      const from = targets[row][column];
      row = (row + rows + targets.length) % targets.length;
      column = nearest(targets[row].map((target) => ({ x: target.x, y: 0 })), from.x, 0)[0];
    } else column = Math.min(Math.max(column + columns, 0), targets[row].length - 1);
    show(true);
  }

  const ways = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  make(drawing, {
    tabindex: 0, role: "group", "aria-roledescription": "chart", "aria-label": `${label}. Arrow keys read the values.`,
    pointermove: point, pointerleave: hide, blur: hide,
    keydown: (event) => {
      if (event.key === "Escape") hide();
      if (!ways[event.key]) return;
      event.preventDefault();
      step(...ways[event.key]);
    },
  }, [here]);
  host.replaceChildren(drawing, tip);
}

const nothing = (host) => host.replaceChildren(el("p", { class: "soft" }, "Nothing to draw with these choices."));
