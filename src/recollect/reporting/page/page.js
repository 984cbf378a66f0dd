// The page from its data, from the top to the bottom.

const spanned = (a, b, digits) => (missing(a) || missing(b) ? null : `${a.toFixed(digits)} to ${b.toFixed(digits)}`);
const rateOrNone = (value) => (missing(value) ? "–" : rate(value));
const withInterval = (row, name) => {
  const interval = spanned(row[`${name}_low`], row[`${name}_high`], 3);
  return missing(row[name]) ? "–" : row[name].toFixed(3) + (interval ? ` (${interval})` : "");
};
const WINDOWS = [
  {
    title: "window, decades", number: true, cell: (row) => row.decades,
    about: "decades of learning rate on which the mean over seeds reaches the threshold; ≥: it goes on beyond the rates tried",
    show: (value, row) => (value > 0 ? `${row.open_low || row.open_high ? "≥ " : ""}${value.toFixed(2)}` : "none"),
  },
  {
    title: "95 % interval", number: true, about: "bootstrap over seeds",
    cell: (row) => spanned(row.interval_low, row.interval_high, 2),
  },
  {
    title: "single seeds", number: true, about: "narrowest and widest window of one seed",
    cell: (row) => spanned(row.seed_min, row.seed_max, 2),
  },
  { title: "from", number: true, cell: (row) => row.low, show: rateOrNone },
  { title: "to", number: true, cell: (row) => row.high, show: rateOrNone },
  {
    title: "of best checkpoints", number: true, cell: (row) => row.checkpoint_decades,
    about: "the window, in decades, of each run's best validation accuracy instead of its last test accuracy",
    show: (value) => (value > 0 ? value.toFixed(2) : "none"),
  },
  {
    title: "sensitivity", number: true, cell: (row) => row.sensitivity, show: (value, row) => withInterval(row, "sensitivity"),
    about: "accuracy lost on average at a rate drawn from 3e-4 to 1e-1, over the best rate; 95 % interval over seeds",
  },
  {
    title: "by loss", number: true, cell: (row) => row.loss_sensitivity, show: (value, row) => withInterval(row, "loss_sensitivity"),
    about: "the same in nats of test loss, no rate counting as worse than the loss before training",
  },
  {
    title: "Zoology's 4 rates", about: "whether one of Zoology's four rates lies in a window",
    cell: (row) => (!(row.decades > 0) ? null : row.zoology_finds ? "find it" : "miss it"),
  },
];
const ACCURACY = [
  {
    title: "accuracy", number: true, about: "final, mean over seeds at the best learning rate",
    cell: (row) => row.accuracy, show: (value) => value.toFixed(3),
  },
  {
    title: "over seeds", number: true, about: "lowest and highest seed at that rate",
    cell: (row) => spanned(row.lowest, row.highest, 3),
  },
  {
    title: "best rate", number: true, about: "the learning rate with the highest mean",
    cell: (row) => row.best_rate, show: rate,
  },
  {
    title: "of it", number: true, about: "the best rate's 95 % interval over seeds",
    cell: (row) => (missing(row.best_lr_low) ? null : `${rate(row.best_lr_low)} to ${rate(row.best_lr_high)}`),
  },
  { title: "runs", number: true, cell: (row) => row.runs },
  {
    title: "diverged", number: true, about: "runs that diverged, and the 95 % interval of their share", cell: (row) => row.diverged,
    show: (value, row) => (missing(row.diverged_low) ? `${value}` : `${value} (${spanned(row.diverged_low, row.diverged_high, 2)})`),
  },
  { title: "parameters", number: true, cell: (row) => row.parameters },
];

// One row per configuration: its window where rates vary, and its accuracy where it is best.
function headline(study) {
  const swept = "decades" in study.headline[0];
  const accuracy = ACCURACY.filter((column) => column.title !== "diverged" || study.statuses.diverged);
  const name = { title: "configuration", kind: "text", cell: (row) => row.configuration };
  const caption = swept ? `Learning-rate windows: accuracy at least ${study.threshold}` : "Final accuracy";
  return table([name, ...(swept ? WINDOWS : []), ...accuracy], study.headline, caption, false, 20);
}

function runTable(study) {
  const first = ["configuration", "train.lr", "train.seed", "status"];
  const names = distinct([...first, ...study.measures, ...study.fields, "id"]);
  const kinds = { id: "mono", configuration: "text" };
  return table(names.map((name) => ({
    title: plain(name).replace(/^(model|task)\./, ""), kind: kinds[name], cell: (i) => study.runs[name][i], show: (value) => shown(name, value),
    number: study.runs[name].every((value) => isNumber(value) || missing(value)),
  })), runNumbers(study), null, true);
}

function failures(study) {
  if (!study.failures.length) return null;
  return part(`Failures (${study.failures.length})`, study.failed > 0, study.failures.map((failure) =>
    part(failure.error, false, terms([
      ["run", failure.run], ["which is", failure.about || "not in the study file"], ["attempt", String(failure.attempt)],
      ["time", failure.when], ["in the end", failure.ended ? `it ended: ${failure.ended}` : "it has no result"],
    ]), el("pre", {}, failure.traceback))));
}

const counted = (pairs) =>
  pairs.map(([text, count]) => el("div", {}, `${text} (${count} ${count === 1 ? "run" : "runs"})`));

function provenance({ provenance: made }) {
  return part("Provenance", false, terms([
    ["made with", counted(made.versions)], ["on", counted(made.devices)],
    ["results from", `${made.first} to ${made.last}`], ["training time", `${short(made.seconds)} s in sum`],
    ["notes", made.notes.length ? counted(made.notes) : "none"], ["to train it again", el("code", {}, made.command)],
  ]));
}

function specification(study) {
  const shared = Object.entries(study.shared).map(([name, value]) => [name, short(value)]);
  const unknown = el("ul", {}, study.unknowns.map((text) => el("li", {}, text)));
  return part("Specification", false,
    el("h3", {}, "The study file"), el("pre", { class: "source" }, study.source),
    el("h3", {}, "What no source states, and the value chosen"),
    study.unknowns.length ? unknown : el("p", { class: "soft" }, "Nothing is marked as unknown."),
    shared.length ? [el("h3", {}, "What all runs share"), terms(shared)] : []);
}

function studyParts(study) {
  const counts = [
    [study.planned, study.planned === study.ended ? "runs, all ended" : "runs"],
    ...Object.entries(study.statuses).map(([status, count]) => [count, status, status === "diverged"]),
    [study.failed, "failed", true], [study.planned - study.ended, "without a result"],
  ].filter(([count], i) => count || !i);
  const pills = counts.map(([count, what, bad]) => el("li", { class: bad ? "bad" : null }, `${count} ${what}`));
  const top = [el("p", { class: "question" }, study.question), el("ul", { class: "counts" }, pills)];
  if (!study.ended) return [...top, el("p", {}, "No run of this study has ended yet."), failures(study), specification(study)];
  return [...top, headline(study), sweep(study), curves(study), grid(study), slices(study),
    part(`Runs (${study.ended})`, false, runTable(study)), failures(study), specification(study), provenance(study)];
}

const SIGNS = {
  holds: ["good", "✓"], "does not hold": ["bad", "✗"],
  "not seen at this scale": ["open", "○"], "needs more seeds": ["open", "?"], "needs longer training": ["open", "?"],
  "best rate at the edge of the grid": ["open", "?"], "runs are missing": ["open", "?"],
};

function reproduction(found) {
  function told(answer) {
    const [kind, sign] = SIGNS[answer] || ["open", ""];
    return el("span", { class: `verdict ${kind}` }, `${sign} ${answer}`);
  }
  const columns = [
    { title: "item", cell: (v) => v.item, show: (name) => el("a", { href: `#item-${name}` }, name) },
    { title: "claim", kind: "text", cell: (v) => v.says },
    { title: "verdict", cell: (v) => v.answer, show: told },
    {
      title: "numbers", kind: "text", cell: (v) => Object.entries(v.numbers).join(" "),
      show: (_, v) => terms(Object.entries(v.numbers)),
    },
    { title: "note", kind: "text", cell: (v) => v.note },
    { title: "scale", cell: (v) => v.scale },
  ];
  const caption = `${found.paper}: what the results say of each claim`;
  const counts = Object.keys(SIGNS).map((answer) => [found.verdicts.filter((v) => v.answer === answer).length, answer]);
  const pills = counts.filter(([count]) => count).map(([count, answer]) => el("li", {}, `${count} ${answer}`));
  return el("section", { class: "reproduction", id: "verdicts" }, el("h2", {}, "Verdicts"), el("ul", { class: "counts" }, pills),
    found.verdicts.length ? table(columns, found.verdicts, caption) : el("p", {}, "There are no verdicts yet."),
    found.items.map(item));
}

function item({ name, title, shows, differs, picture, numbers }) {
  const some = numbers && numbers.of > numbers.rows.length ? `${numbers.rows.length} of ` : "";
  const columns = numbers && numbers.columns.map((column, k) => ({
    title: column, cell: (row) => row[k], number: numbers.rows.every((row) => isNumber(row[k]) || missing(row[k])),
  }));
  return el("section", { id: `item-${name}` }, el("h3", {}, title),
    shows ? el("p", {}, shows) : null, differs ? el("p", { class: "soft" }, differs) : null,
    picture ? el("figure", { class: "picture" }, el("img", { src: picture, alt: `${title}. ${shows || ""}` })) : null,
    numbers ? part(`Numbers of ${name} (${some}${numbers.of} rows)`, false, table(columns, numbers.rows, null, true)) : null);
}

function overview(studies) {
  const best = (study) => study.headline.reduce((top, row) => (row.accuracy > top.accuracy ? row : top), { accuracy: -1 });
  return table([
    { title: "study", cell: (s) => s.name, show: (name, s) => el("a", { href: `#study-${studies.indexOf(s)}` }, name) },
    { title: "runs", number: true, cell: (s) => s.planned },
    { title: "ended", number: true, cell: (s) => s.ended },
    { title: "diverged", number: true, cell: (s) => s.statuses.diverged || 0 },
    { title: "failed", number: true, cell: (s) => s.failed },
    { title: "highest accuracy", number: true, cell: (s) => (s.ended ? best(s).accuracy : null) },
    { title: "of", cell: (s) => best(s).configuration },
  ], studies, "Studies");
}

const FEW = 3; // studies that are all open at first

// A study's part of the page, drawn when it is first opened; gives the function that draws it.
function studySection(main, study, i) {
  const alone = DATA.studies.length === 1 && !DATA.reproduction; // the page's title names it already
  const open = alone || (DATA.reproduction ? false : DATA.studies.length <= FEW || i === 0);
  const body = el("div"), id = `study-${i}`;
  const draw = () => { if (!body.hasChildNodes()) body.append(...studyParts(study).filter(Boolean)); };
  const shell = alone ? el("section", { class: "study", id }, body) : el("details", {
    class: "study", id, open, toggle: () => { if (shell.open) draw(); },
  }, el("summary", {}, el("h2", {}, study.name)), body);
  main.append(shell);
  if (open) draw();
  return draw;
}

function fillPage() {
  const main = document.getElementById("main"), { studies } = DATA;
  document.getElementById("made").textContent = `From ${DATA.store}, by recollect ${DATA.recollect} on ${DATA.made}.`;
  if (DATA.reproduction) main.append(reproduction(DATA.reproduction));
  if (studies.length > 1) main.append(overview(studies));
  const draws = studies.map((study, i) => studySection(main, study, i));
  main.append(el("p", { class: "soft" }, "This page was made by ", el("code", {}, DATA.command)));
  const links = studies.slice(0, 40).map((study, i) => [`#study-${i}`, study.name]);
  if (DATA.reproduction) links.unshift(["#verdicts", "Verdicts"]);
  const list = el("ul", {}, links.map(([href, text]) => el("li", {}, el("a", { href }, text))));
  if (links.length > 1) document.getElementById("contents").append(list);
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches("details")) target.open = true;
  };
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => {
    draws.forEach((draw) => draw());
    document.querySelectorAll("details.study").forEach((shell) => { shell.open = true; });
  });
  follow();
}

addEventListener("error", (event) => {
  const faults = document.getElementById("faults");
  faults.hidden = false;
  faults.append(el("p", {}, `This page has a fault: ${event.message}`));
});
const DATA = JSON.parse(document.getElementById("data").textContent);
fillPage();
document.documentElement.dataset.ready = "yes";
