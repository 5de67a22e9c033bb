"use strict";
// The page of one sweep. `D` is everything that report/__init__.py's content() puts in; filters decide which trials are
// shown, and every plot and table is drawn again from those. What came from a run is only ever text: textContent in the
// page, and escaped (`text`) in plots, where Plotly would read some HTML.
const PALETTES = {
  light: ["#0067a3", "#c75100", "#00805d", "#b8558a", "#8a6d00", "#3a8fc4", "#444444", "#7341a0"],
  dark: ["#5cb5f2", "#ff9552", "#35cfa3", "#f0a3cc", "#eec64e", "#a5d8fa", "#d0d6de", "#c9a4f5"],
};
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const STROKES = { solid: "", dash: "6 3", dot: "2 2", dashdot: "6 2 2 2", longdash: "10 3", longdashdot: "10 2 2 2" };
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
const LOOKS = PALETTES.light.length * DASHES.length; // curves that can be told apart
const MOST_SEEDS = 40; // trials whose own curves are drawn without asking
const MOST_DOTS = 2000; // dots of the outcomes, and lines of the parallel coordinates; medians are of all trials
const PAGE = 200; // rows of a table that are shown at once
const RETURN = "after/return";
const PLURAL = { round: "round", trajectories: "trajectories per agent", m_adapt: "trajectories of the adaptation step" };
const $ = (id) => document.getElementById(id);
const collator = new Intl.Collator(undefined, { numeric: true });
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));
const unique = (values) => [...new Set(values)].sort(compare);
const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
const size = (m_adapt) => (m_adapt === "exact" ? Infinity : Number(m_adapt));
const text = (value) => String(value).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const said = (name) => text(String(name).replaceAll("_", " "));
let D, TRIALS, CURVES, METRICS, filters, chosen, separate, selected = null;
const [all, hidden, sorting, pages] = [new Map(), new Set(), {}, {}];

async function unpacked(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function element(tag, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
}

const values = (name) => {
  if (!all.has(name)) all.set(name, unique(TRIALS.map((trial) => trial[name])));
  return all.get(name);
};
const filtered = () => TRIALS.filter((trial) => filters.every((name) => chosen[name].has(trial[name])));
const shown = () => filtered().filter((trial) => !selected || selected.has(trial.number));

// ---- groups: trials that share the settings which stand apart; the rest, seeds included, is averaged ----
const told = (name, value) => (name === "method" ? String(value) : `${name}=${value === "" ? "none" : value}`);
const pointOf = (trial) => [...separate].map((name) => told(name, trial[name])).join(" ") || "all trials";
let order = new Map();
function arrange() { // looks belong to all groups, whatever is filtered, so that a colour stays
  order = new Map(unique(TRIALS.map(pointOf)).map((point, place) => [point, place]));
}
function lookOf(point) {
  const place = order.get(point) % LOOKS;
  const palette = PALETTES[document.documentElement.classList.contains("dark") ? "dark" : "light"];
  return { color: palette[place % palette.length], dash: DASHES[Math.floor(place / palette.length)], symbol: SYMBOLS[Math.floor(place / palette.length)] };
}

// ---- the side: filters ----
function drawFilters() {
  $("filters").replaceChildren(...filters.map((name) => {
    const toggle = element("button", { type: "button", textContent: "all / none" });
    toggle.setAttribute("aria-label", `all or none of ${name}`);
    toggle.onclick = () => {
      chosen[name] = chosen[name].size === values(name).length ? new Set() : new Set(values(name));
      drawFilters();
      draw();
    };
    const counts = new Map();
    for (const trial of TRIALS) counts.set(trial[name], (counts.get(trial[name]) ?? 0) + 1);
    const chips = values(name).map((value) => {
      const box = element("input", { type: "checkbox", checked: chosen[name].has(value) });
      box.dataset.setting = name;
      box.dataset.value = value;
      box.onchange = () => {
        chosen[name][box.checked ? "add" : "delete"](value);
        draw();
      };
      const shownAs = value === "" ? "none" : String(value);
      return element("label", { className: "chip" }, box, shownAs, element("span", { className: "count", textContent: counts.get(value) }));
    });
    return element("fieldset", {}, element("legend", {}, name, toggle), ...chips);
  }));
}

// ---- plots ----
const CONFIG = { responsive: true, displayModeBar: innerWidth > 820 ? "hover" : false, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "autoScale2d"] };
function layout(more) {
  const style = getComputedStyle(document.documentElement);
  const [ink, line, paper] = ["--ink", "--line", "--paper"].map((name) => style.getPropertyValue(name).trim());
  const axis = { automargin: true, gridcolor: line, zeroline: false, linecolor: line, ticks: "outside", tickcolor: line };
  const made = { margin: { l: 58, r: 16, t: 12, b: 46 }, hovermode: "closest", showlegend: false, paper_bgcolor: paper, plot_bgcolor: paper,
    font: { family: "system-ui, 'Segoe UI', Roboto, Arial, 'DejaVu Sans', sans-serif", size: 12.5, color: ink },
    uirevision: "keep", modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: style.getPropertyValue("--soft").trim() }, ...more };
  for (const name of Object.keys(made)) if (/^[xy]axis/.test(name)) made[name] = { ...axis, ...made[name] };
  return made;
}

// The curves of the trials shown: [{trial, x: [...], y: [...]}].
function curves(trials) {
  const [x, y, split, adapt] = ["x", "measure", "split", "adapt"].map((id) => $(id).value);
  const wanted = new Set(trials.map((trial) => trial.number));
  if (y.startsWith("metric:")) return (METRICS.get(y.slice(7)) ?? []).filter((curve) => wanted.has(curve.trial.number)).map((curve) => ({ ...curve, x: curve.round }));
  const here = CURVES.filter((curve) => wanted.has(curve.trial.number) && curve.split === split);
  if (x === "m_adapt") {
    return [...Map.groupBy(here, (curve) => curve.trial)].map(([trial, parts]) => {
      const numbers = parts.filter((part) => part.m_adapt !== "exact").sort((a, b) => size(a.m_adapt) - size(b.m_adapt));
      return { trial, x: numbers.map((part) => size(part.m_adapt)), y: numbers.map((part) => part[y].at(-1)) };
    });
  }
  const largest = new Map();
  for (const curve of here) largest.set(curve.trial, Math.max(size(curve.m_adapt), largest.get(curve.trial) ?? -1));
  return here
    .filter((curve) => (adapt === "largest" ? size(curve.m_adapt) === largest.get(curve.trial) : curve.m_adapt === adapt))
    .map((curve) => ({ trial: curve.trial, x: curve[x], y: curve[y] }));
}

// The median over seeds at every x; a seed's value is its mean over the settings that are averaged.
function averaged(group) {
  const at = new Map();
  for (const { trial, x, y } of group) {
    x.forEach((place, i) => {
      if (typeof y[i] !== "number") return;
      if (!at.has(place)) at.set(place, new Map());
      const seeds = at.get(place);
      seeds.set(trial.seed, [...(seeds.get(trial.seed) ?? []), y[i]]);
    });
  }
  const most = Math.max(0, ...[...at.values()].map((seeds) => seeds.size));
  const xs = unique([...at.keys()]).filter((x) => at.get(x).size * 2 >= most); // an x of few seeds would make the line jump
  const sorted = xs.map((x) => [...at.get(x).values()].map((ys) => ys.reduce((a, b) => a + b) / ys.length).sort((a, b) => a - b));
  const rank = (which) => sorted.map((s) => s[(D.ranks[s.length] ?? [0, s.length - 1])[which]]);
  return { xs, middle: sorted.map(median), low: rank(0), high: rank(1), counts: sorted.map((s) => s.length) };
}

function drawCurves(trials) {
  const found = curves(trials);
  const groups = [...Map.groupBy(found, (curve) => pointOf(curve.trial))].sort((a, b) => order.get(a[0]) - order.get(b[0]));
  const drawn = groups.slice(0, LOOKS);
  const eachTrial = $("seeds").checked;
  const open = (curve) => ["running", "waiting"].includes(curve.trial.status);
  const traces = [];
  for (const [point, group] of drawn) {
    if (hidden.has(point)) continue;
    const { color, dash } = lookOf(point);
    const thin = eachTrial ? group : group.filter((curve) => curve.trial.status !== "finished").slice(0, MOST_SEEDS);
    for (const [part, kind] of [[thin.filter((c) => !open(c)), "solid"], [thin.filter(open), "dot"]]) {
      if (!part.length) continue;
      traces.push({ x: part.flatMap((c) => [...c.x, null]), y: part.flatMap((c) => [...c.y, null]), mode: "lines", opacity: 0.45,
        text: part.flatMap((c) => [...c.x.map(() => text(`${c.trial.label} (${c.trial.status})`)), ""]), line: { color, width: 1, dash: kind },
        hovertemplate: "%{y:.4g}<extra>%{text}</extra>" });
    }
    const { xs, middle, low, high, counts } = averaged(group);
    traces.push({ x: [...xs, ...xs.toReversed()], y: [...high, ...low.toReversed()], fill: "toself", fillcolor: color, opacity: 0.15,
      line: { width: 0 }, mode: "lines", hoverinfo: "skip" });
    traces.push({ x: xs, y: middle, name: text(point), mode: xs.length > 24 ? "lines" : "lines+markers", line: { color, width: 2.6, dash }, customdata: counts,
      marker: { symbol: lookOf(point).symbol, size: 6 }, hovertemplate: `median of %{customdata} seeds: %{y:.4g}<extra>${text(point)}</extra>` });
  }
  const measure = $("measure").selectedOptions[0]?.textContent ?? "";
  const x = $("measure").value.startsWith("metric:") ? "round" : $("x").value;
  Plotly.react("curves", traces, layout({ xaxis: { title: { text: PLURAL[x] } }, yaxis: { title: { text: text(measure) } } }), CONFIG);
  $("curves").setAttribute("aria-label", `${measure} against ${PLURAL[x]}: ${drawn.length} curves; the statistics stand in the table below`);
  $("legend").replaceChildren(...drawn.map(([point, group]) => legendEntry(point, group)));
  $("curves-note").textContent = (groups.length > LOOKS ? `The first ${LOOKS} of ${groups.length} curves: filter, or average over a setting. ` : "") +
    "Thick: median over seeds; band: its exact order-statistic interval (95 % or more from six seeds on, else the seeds' range). " +
    (separate.size < D.varying.length ? "A seed's value is its mean over the settings that are averaged. " : "") +
    "Dotted and thin: trials that still run; thin: trials that did not finish" + (eachTrial ? ", and each trial." : ".");
}

function legendEntry(point, group) {
  const { color, dash } = lookOf(point);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [name, value] of Object.entries({ width: 30, height: 8, "aria-hidden": "true" })) svg.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 0, x2: 30, y1: 4, y2: 4, stroke: color, "stroke-width": 3, "stroke-dasharray": STROKES[dash] })) line.setAttribute(name, value);
  svg.append(line);
  const button = element("button", { type: "button" }, svg, `${point} (${group.length})`);
  button.setAttribute("aria-pressed", String(!hidden.has(point)));
  button.onclick = () => {
    hidden[hidden.has(point) ? "delete" : "add"](point);
    draw();
  };
  return element("li", {}, button);
}

function drawOutcomes(trials) {
  const by = $("by").value;
  const places = values(by);
  const finished = trials.filter((trial) => trial.status === "finished" && !hidden.has(pointOf(trial)));
  const beside = new Map([...Map.groupBy(finished, (t) => t[by])].map(([place, part]) => [place, unique(part.map((t) => order.get(pointOf(t))))]));
  const most = Math.max(1, ...[...beside.values()].map((here) => here.length));
  const at = (trial) => { // the groups that are at a place stand side by side in it
    const here = beside.get(trial[by]);
    return places.indexOf(trial[by]) + (here.length > 1 ? (here.indexOf(order.get(pointOf(trial))) / (here.length - 1) - 0.5) * 0.7 : 0);
  };
  const jitter = (i) => (((i * 0.618034 + 0.5) % 1) - 0.5) * (most > 1 ? 0.5 / most : 0.3);
  const traces = [];
  const dots = new Set(thinned(finished));
  const looks = Map.groupBy(finished, (trial) => order.get(pointOf(trial)) % LOOKS); // one trace a look: a thousand are slow
  for (const [, group] of looks) {
    const { color, symbol } = lookOf(pointOf(group[0]));
    const part = group.filter((trial) => dots.has(trial));
    traces.push({ x: part.map((t, i) => at(t) + jitter(i)), y: part.map((t) => t[RETURN]), mode: "markers", marker: { color, symbol, size: 6, opacity: 0.65 },
      text: part.map((t) => text(t.label)), hovertemplate: "%{y:.4g}<extra>%{text}</extra>" });
    const bars = { x: [], y: [], mode: "lines", line: { color, width: 3.5 }, hoverinfo: "skip" };
    for (const [, same] of Map.groupBy(group, (trial) => `${order.get(pointOf(trial))} ${places.indexOf(trial[by])}`)) {
      const middle = median(same.map((t) => t[RETURN]).sort((a, b) => a - b));
      const half = most > 1 ? 0.35 / most : 0.25;
      bars.x.push(at(same[0]) - half, at(same[0]) + half, null);
      bars.y.push(middle, middle, null);
    }
    traces.push(bars);
  }
  const x = { title: { text: text(by) }, tickvals: places.map((_, i) => i), ticktext: places.map((p) => text(p === "" ? "none" : p)), range: [-0.6, places.length - 0.4] };
  Plotly.react("outcomes", traces, layout({ xaxis: x, yaxis: { title: { text: "return after adaptation" } } }), CONFIG);
  $("outcomes").setAttribute("aria-label", `return after adaptation of ${finished.length} finished trials against ${by}; the table of trials has the numbers`);
}

// ---- parallel coordinates: one line a finished trial, in seven colours by its return; a box selects ----
const VIRIDIS = ["#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743", "#fde725"];
const thinned = (list) => list.filter((_, i) => i % Math.ceil(list.length / MOST_DOTS) === 0);
let heights = new Map(); // axis -> (trial -> 0 at the bottom to 1 at the top)

function drawParallel() {
  const trials = filtered().filter((trial) => trial.status === "finished" && typeof trial[RETURN] === "number");
  const axes = [...(D.varying.includes("method") ? ["method"] : []), ...D.axes, RETURN];
  heights = new Map(axes.map((name) => {
    const known = values(name).filter((value) => name !== RETURN || Number.isFinite(value));
    const place = name === RETURN ? undefined : new Map(known.map((value, i) => [value, i]));
    const [low, high] = place ? [0, known.length - 1] : [known[0], known.at(-1)];
    return [name, (value) => (high > low ? ((place ? place.get(value) : value) - low) / (high - low) : 0.5)];
  }));
  const sorted = thinned(trials.toSorted((a, b) => a[RETURN] - b[RETURN]));
  const traces = VIRIDIS.map((color, bin) => {
    const part = sorted.filter((_, i) => Math.floor((i * VIRIDIS.length) / sorted.length) === bin);
    return { x: part.flatMap(() => [...axes.keys(), null]), y: part.flatMap((trial) => [...axes.map((name) => heights.get(name)(trial[name])), null]),
      text: part.flatMap((trial) => [...axes.map((name) => text(`${trial.label}: ${name} ${trial[name]}`)), ""]),
      mode: "lines", line: { color, width: 1 }, opacity: 0.7, hovertemplate: "%{text}<extra></extra>" };
  });
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  const annotations = axes.flatMap((name, place) => {
    const known = values(name).filter((value) => name !== RETURN || Number.isFinite(value));
    const few = name === RETURN || known.length > 12 ? [...new Set([known[0], known.at(-1)])] : known;
    return few.map((value) => ({ x: place, y: heights.get(name)(value), text: text(name === RETURN ? Number(value).toPrecision(3) : value === "" ? "none" : value),
      showarrow: false, xanchor: "left", xshift: 5, font: { size: 11 }, bgcolor: paper, opacity: 0.85 }));
  });
  Plotly.react("parallel", traces, layout({ dragmode: "select", annotations, xaxis: { tickvals: [...axes.keys()], ticktext: axes.map(text), range: [-0.15, axes.length - 0.5], fixedrange: true, side: "top" },
    yaxis: { visible: false, range: [-0.06, 1.06], fixedrange: true }, margin: { l: 20, r: 60, t: 40, b: 10 } }), { ...CONFIG, displayModeBar: false });
  $("parallel").setAttribute("aria-label", `settings and return of ${trials.length} finished trials as parallel coordinates; the filters choose the same`);
}

// A box over axes keeps the trials that pass it on each of them.
function brush(range) {
  const over = range ? [...heights.keys()].filter((_, place) => place >= Math.min(...range.x) && place <= Math.max(...range.x)) : [];
  const passes = (trial) => over.every((name) => {
    const height = heights.get(name)(trial[name]);
    return height >= Math.min(...range.y) && height <= Math.max(...range.y);
  });
  selected = over.length ? new Set(TRIALS.filter(passes).map((trial) => trial.number)) : null;
  draw(false);
}

function drawRollouts() {
  const { phase, episode, x, y, goal_x, goal_y } = D.rollouts;
  $("rollouts-card").hidden = !phase && !D.film;
  $("rollouts").hidden = !phase;
  $("film").hidden = !D.film;
  if (D.film && !$("film").src) $("film").src = D.film;
  if (!phase) return;
  const phases = [...new Set(phase)];
  const parts = {};
  const traces = phases.map((name, number) => {
    const [along, up] = [[], []];
    phase.forEach((p, i) => {
      if (p !== name) return;
      if (i && episode[i] !== episode[i - 1]) { along.push(null); up.push(null); }
      along.push(x[i]);
      up.push(y[i]);
    });
    const axis = number ? number + 1 : "";
    parts[`xaxis${axis}`] = { domain: [number / phases.length + 0.02, (number + 1) / phases.length - 0.02], range: [-1.05, 1.05], title: { text: text(name) } };
    parts[`yaxis${axis}`] = { range: [-1.05, 1.05], anchor: `x${axis}`, scaleanchor: `x${axis}` };
    return { x: along, y: up, xaxis: `x${axis}`, yaxis: `y${axis}`, mode: "lines", line: { color: lookOf([...order.keys()][number % order.size]).color, width: 1.2 }, hoverinfo: "skip" };
  });
  phases.forEach((_, number) => traces.push({ x: [goal_x[0]], y: [goal_y[0]], xaxis: `x${number ? number + 1 : ""}`, yaxis: `y${number ? number + 1 : ""}`, mode: "markers",
    marker: { symbol: "star", size: 13, color: "#d19a00" }, hovertemplate: "goal<extra></extra>" }));
  Plotly.react("rollouts", traces, layout(parts), CONFIG);
}

// ---- tables ----
function drawTable(id, title, columns, rows, mark = () => "") {
  const { column, up } = sorting[id] ?? {};
  const numeric = new Set(columns.filter((name) => rows.every((row) => row[name] === undefined || row[name] === "" || !Number.isNaN(Number(row[name])))));
  const by = numeric.has(column) ? (a, b) => Number(a) - Number(b) : compare;
  const ordered = column === undefined ? rows : rows.toSorted((a, b) => (up ? 1 : -1) * by(a[column] ?? "", b[column] ?? ""));
  const heads = columns.map((name) => {
    const button = element("button", { type: "button", textContent: name + (name === column ? (up ? " ▴" : " ▾") : "") });
    button.onclick = () => {
      sorting[id] = { column: name, up: name === column ? !up : true };
      drawTables(shown());
      $(id).querySelectorAll("th button")[columns.indexOf(name)].focus();
    };
    const head = element("th", { scope: "col", className: numeric.has(name) ? "number" : "" }, button);
    head.setAttribute("aria-sort", name === column ? (up ? "ascending" : "descending") : "none");
    return head;
  });
  const body = ordered.slice(0, pages[id] ?? PAGE).map((row) => element("tr", { className: mark(row) }, ...columns.map((name) =>
    element("td", { textContent: row[name] ?? "", title: row[name] ?? "", className: numeric.has(name) ? "number" : "" }))));
  $(id).replaceChildren(element("caption", { textContent: title }), element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
  $(`${id}-more`)?.remove();
  if (ordered.length > body.length) {
    const more = element("button", { id: `${id}-more`, className: "more", type: "button", textContent: `${body.length} of ${ordered.length} rows; show ${PAGE} more` });
    more.onclick = () => {
      pages[id] = body.length + PAGE;
      drawTables(shown());
    };
    $(id).parentElement.after(more);
  }
}

function drawTables(trials) {
  const inside = (row) => filters.every((name) => !(name in row.where) || chosen[name].has(row.where[name]));
  const rows = D.statistics.filter(inside).map(({ where, ...rest }) => ({ ...where, ...rest }));
  drawTable("statistics", "Statistics of every point", [...new Set(rows.flatMap(Object.keys))], rows);
  const compared = D.comparison.rows.map((row) => row.why_not
    ? { agents: row.split, compared: row.kind, a: row.a, b: row.b, seeds: row.seeds, interval: row.why_not }
    : { agents: row.split, compared: row.kind, at: row.at, a: row.a, b: row.b, seeds: row.seeds, "a - b": Number(row.difference).toPrecision(3), interval: `${Number(row.low).toPrecision(3)} to ${Number(row.high).toPrecision(3)}`,
      covers: `${(100 * row.level).toFixed(1)} %`, wins: `${row.wins} of ${row.seeds}`, p: Number(row.p).toPrecision(2), "p (Holm)": Number(row.p_holm).toPrecision(2), effect: Number(row.effect).toFixed(2) });
  if (compared.length) drawTable("comparison", "Comparisons", ["agents", "compared", "at", "a", "b", "seeds", "a - b", "interval", "covers", "wins", "p", "p (Holm)", "effect"], compared);
  const outcome = ["status", "before/return", RETURN, "before/success", "after/success", "trajectories", "seconds", "message"];
  const columns = ["trial", ...D.varying, "seed", ...outcome].filter((name) => TRIALS.some((trial) => trial[name] !== undefined && trial[name] !== ""));
  drawTable("trials", "Trials", columns, trials, (row) => ({ finished: "", running: "open", waiting: "open" })[row.status] ?? "ended");
}

// ---- the page ----
function draw(parallel = true) {
  const trials = shown();
  $("shown").textContent = `${trials.length} of ${TRIALS.length} trials shown`;
  drawCurves(trials);
  drawOutcomes(trials);
  if (parallel) drawParallel();
  drawTables(trials);
  remember();
}

function options(id, entries, onchange = () => draw()) {
  $(id).replaceChildren(...entries.map(([value, shownAs]) => element("option", { value, textContent: shownAs ?? value })));
  $(id).onchange = onchange;
  if (entries.length < 2) $(id).parentElement.hidden = true;
}

// What was chosen stands in the address: it survives a reload, and can be sent to somebody.
const SELECTS = ["measure", "x", "split", "adapt", "by"];
function remember() {
  const left = Object.fromEntries(filters.map((name) => [name, values(name).filter((value) => !chosen[name].has(value))]).filter(([, out]) => out.length));
  const state = { left, apart: [...separate], seeds: $("seeds").checked, dark: document.documentElement.classList.contains("dark"), ...Object.fromEntries(SELECTS.map((id) => [id, $(id).value])) };
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`);
}
function recall() {
  let state = {};
  try { state = JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return {}; }
  for (const name of filters) for (const value of state.left?.[name] ?? []) chosen[name].delete(value);
  if (Array.isArray(state.apart)) separate = new Set(D.varying.filter((name) => state.apart.includes(name)));
  if (typeof state.seeds === "boolean") $("seeds").checked = state.seeds;
  for (const id of SELECTS) if ([...$(id).options].some((option) => option.value === state[id])) $(id).value = state[id];
  return state;
}

function setTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  $("theme").setAttribute("aria-pressed", String(dark));
  $("theme").textContent = dark ? "Light" : "Dark";
}

function unfold() {
  TRIALS = D.trials.trial.map((_, number) => Object.assign({ number }, ...Object.entries(D.trials).map(([name, column]) => ({ [name]: column[number] }))));
  const E = D.evaluations;
  const measures = ["return", "success", "final_distance", "drift"].filter((name) => E[name]?.some((value) => value !== ""));
  const found = new Map();
  E.trial.forEach((number, i) => {
    const key = `${number} ${E.split[i]} ${E.m_adapt[i]}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(i);
  });
  CURVES = [...found.values()].map((rows) => {
    rows.sort((a, b) => E.round[a] - E.round[b]);
    const column = (name) => rows.map((i) => E[name]?.[i] ?? "");
    const curve = { trial: TRIALS[E.trial[rows[0]]], split: E.split[rows[0]], m_adapt: String(E.m_adapt[rows[0]]), round: column("round"), trajectories: column("trajectories") };
    for (const name of measures) curve[name] = column(name);
    return curve;
  });
  METRICS = new Map();
  const M = D.metrics;
  M.trial?.forEach((number, i) => {
    if (typeof M.value[i] !== "number") return;
    if (!METRICS.has(M.metric[i])) METRICS.set(M.metric[i], new Map());
    const byTrial = METRICS.get(M.metric[i]);
    if (!byTrial.has(number)) byTrial.set(number, { trial: TRIALS[number], round: [], y: [] });
    byTrial.get(number).round.push(M.round[i]);
    byTrial.get(number).y.push(M.value[i]);
  });
  METRICS = new Map([...METRICS].map(([name, byTrial]) => [name, [...byTrial.values()]]));
  return measures;
}

async function start() {
  D = JSON.parse(await unpacked("data"));
  document.head.append(element("script", { textContent: await unpacked("plotly") }));
  const measures = unfold();
  filters = [...(D.varying.length ? D.varying : ["method"]).filter((name) => values(name).length <= 24), ...(values("status").length > 1 ? ["status"] : [])];
  chosen = Object.fromEntries(filters.map((name) => [name, new Set(values(name))]));
  separate = new Set(D.varying);
  $("name").replaceChildren(...D.name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]));
  $("live").hidden = !D.live;
  const pairs = (id, entries, wrap) => $(id).replaceChildren(...Object.entries(entries).flatMap(([name, value]) => {
    const nodes = [element("dt", { textContent: name }), element("dd", { textContent: value })];
    return wrap ? [element("div", {}, ...nodes)] : nodes;
  }));
  pairs("run", { ...D.run, ...D.sources }, false);
  pairs("fixed", Object.fromEntries(Object.entries(D.fixed).filter(([, value]) => value !== "")), true);
  if (D.gaps.length) {
    $("gaps").hidden = false;
    $("gaps").querySelector("summary").textContent = `${D.gaps.length} of ${TRIALS.length} planned trials did not finish, and count in no statistic here`;
    $("gaps").querySelector("ul").replaceChildren(...D.gaps.slice(0, PAGE).map((gap) => element("li", { textContent: gap })));
  }
  $("comparison-notes").replaceChildren(...D.comparison.notes.map((note) => element("p", { textContent: note })));
  const adapts = unique(CURVES.map((curve) => curve.m_adapt)).sort((a, b) => size(a) - size(b));
  const named = adapts.filter((m) => m !== "exact").length > 2;
  const single = CURVES.every((curve) => curve.round.length === 1);
  const xs = [["round"], ["trajectories", "trajectories per agent"], ["m_adapt"]].filter(([name]) => name !== "m_adapt" || named);
  options("measure", [...measures.map((name) => [name, name.replaceAll("_", " ")]), ...[...METRICS.keys()].sort().map((name) => [`metric:${name}`, name])]);
  options("x", named && single ? xs.toReversed() : xs);
  const trialsOf = (split) => new Set(CURVES.filter((curve) => curve.split === split).map((curve) => curve.trial)).size;
  const splits = unique(CURVES.map((curve) => curve.split)).reverse().sort((a, b) => trialsOf(b) - trialsOf(a));
  options("split", splits.map((split) => [split, split.replaceAll("_", " ")]));
  options("adapt", [["largest", "largest (after adaptation)"], ...adapts.map((m) => [m, m === "0" ? "0 (before adaptation)" : m])]);
  options("by", (D.varying.length ? D.varying : ["method"]).map((name) => [name]));
  $("by").value = D.varying.findLast((name) => values(name).length <= 24) ?? D.varying[0] ?? "method";
  $("seeds").checked = TRIALS.length <= MOST_SEEDS;
  const state = recall();
  setTheme(state.dark ?? matchMedia("(prefers-color-scheme: dark)").matches);
  $("separate").hidden = D.varying.length === 0;
  $("separate").append(...D.varying.map((name) => {
    const box = element("input", { type: "checkbox", checked: separate.has(name) });
    box.dataset.apart = name;
    box.onchange = () => {
      separate = new Set(D.varying.filter((other) => (other === name ? box.checked : separate.has(other))));
      hidden.clear();
      arrange();
      draw();
    };
    return element("label", {}, box, name);
  }));
  $("seeds").onchange = () => draw();
  $("theme").onclick = () => {
    setTheme(!document.documentElement.classList.contains("dark"));
    draw();
    drawRollouts();
  };
  $("reset").onclick = () => {
    for (const name of filters) chosen[name] = new Set(values(name));
    selected = null;
    hidden.clear();
    Plotly.purge("parallel");
    drawFilters();
    draw();
    brushable();
  };
  const brushable = () => {
    $("parallel").on("plotly_selected", (event) => brush(event?.range));
    $("parallel").on("plotly_deselect", () => brush());
  };
  arrange();
  drawFilters();
  draw();
  drawRollouts();
  brushable();
  document.documentElement.dataset.ready = "yes";
  if (D.live) setTimeout(() => location.reload(), 5000);
}

start().catch((error) => {
  $("shown").textContent = `This page could not be shown: ${error.message}`;
  throw error;
});
