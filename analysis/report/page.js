"use strict";
// The page of one sweep. `D` is everything that report/__init__.py's content() puts in; filters decide which trials are
// shown, and every plot and table is drawn again from those.
const D = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid"];
const RETURN = "after/return";
const byTrial = new Map(D.trials.map((trial) => [trial.trial, trial]));
const $ = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
const values = (name) => unique(D.trials.map((trial) => trial[name]));
const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
const filters = D.varying.length ? D.varying.filter((name) => values(name).length <= 24) : ["method"];
const chosen = Object.fromEntries(filters.map((name) => [name, new Set(values(name))]));
let brushed = {}; // axis -> ranges, set by dragging on the parallel coordinates
const sorting = {};

function element(tag, attributes = {}, ...children) {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
}

function shown() {
  return D.trials.filter((trial) =>
    filters.every((name) => chosen[name].has(trial[name])) &&
    Object.entries(brushed).every(([name, ranges]) => ranges.some(([low, high]) => trial[name] >= low && trial[name] <= high)));
}

function colourOf(value) {
  const all = values($("colour").value);
  const place = all.indexOf(value);
  if (all.length <= PALETTE.length) return PALETTE[place];
  const share = place / (all.length - 1); // many values: from blue to vermillion through grey
  return `hsl(${Math.round(205 - 180 * share)}, ${Math.round(75 - 60 * Math.sin(Math.PI * share))}%, 42%)`;
}
function dashOf(trial) { // by another setting than the colour's where there is one
  const name = filters.find((other) => other !== $("colour").value && values(other).length > 1) ?? $("colour").value;
  return DASHES[values(name).indexOf(trial[name]) % DASHES.length];
}

// ---- the side: filters ----
function drawFilters() {
  $("filters").replaceChildren(...filters.map((name) => {
    const toggle = element("button", { type: "button", textContent: "all / none" });
    toggle.onclick = () => {
      chosen[name] = chosen[name].size === values(name).length ? new Set() : new Set(values(name));
      drawFilters();
      draw();
    };
    const chips = values(name).map((value) => {
      const box = element("input", { type: "checkbox", checked: chosen[name].has(value) });
      box.dataset.setting = name;
      box.dataset.value = value;
      box.onchange = () => {
        chosen[name][box.checked ? "add" : "delete"](value);
        draw();
      };
      const parts = [box];
      if (name === $("colour").value) {
        const swatch = element("span", { className: "swatch" });
        swatch.style.background = colourOf(value);
        parts.push(swatch);
      }
      parts.push(String(value), element("span", { className: "count", textContent: D.trials.filter((t) => t[name] === value).length }));
      return element("label", { className: "chip" }, ...parts);
    });
    return element("fieldset", {}, element("legend", {}, name, toggle), ...chips);
  }));
}

// ---- plots ----
const LAYOUT = {
  margin: { l: 58, r: 16, t: 12, b: 46 }, hovermode: "closest", showlegend: true, paper_bgcolor: "white", plot_bgcolor: "white",
  font: { family: "system-ui, 'Segoe UI', Roboto, Arial, 'DejaVu Sans', sans-serif", size: 12.5, color: "#1d2733" },
  legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, uirevision: "keep",
  modebar: { orientation: "v" },
};
const AXIS = { automargin: true, gridcolor: "#e8ecf0", zeroline: false, linecolor: "#9aa5b1", ticks: "outside", tickcolor: "#9aa5b1" };
const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const size = (m_adapt) => (m_adapt === "exact" ? Infinity : Number(m_adapt));

// The curves of the trials shown: [{trial, x: [...], y: [...]}].
function curves(trials) {
  const [x, y, split, adapt] = ["x", "measure", "split", "adapt"].map((id) => $(id).value);
  const wanted = new Set(trials.map((trial) => trial.trial));
  const all = D.curves.filter((curve) => wanted.has(curve.trial) && curve.split === split);
  if (x === "m_adapt") {
    return [...Map.groupBy(all, (curve) => curve.trial)].map(([trial, parts]) => {
      const numbers = parts.filter((part) => part.m_adapt !== "exact").sort((a, b) => size(a.m_adapt) - size(b.m_adapt));
      return { trial: byTrial.get(trial), x: numbers.map((part) => size(part.m_adapt)), y: numbers.map((part) => part[y].at(-1)) };
    });
  }
  const largest = new Map();
  for (const curve of all) largest.set(curve.trial, Math.max(size(curve.m_adapt), largest.get(curve.trial) ?? -1));
  return all
    .filter((curve) => (adapt === "largest" ? size(curve.m_adapt) === largest.get(curve.trial) : curve.m_adapt === adapt))
    .map((curve) => ({ trial: byTrial.get(curve.trial), x: curve[x], y: curve[y] }));
}

function medianTraces(group, name) {
  const at = new Map();
  for (const curve of group) curve.x.forEach((x, i) => at.set(x, [...(at.get(x) ?? []), curve.y[i]]));
  const xs = unique([...at.keys()]);
  const sorted = xs.map((x) => at.get(x).filter((y) => typeof y === "number").sort((a, b) => a - b));
  const colour = colourOf(group[0].trial[$("colour").value]);
  const rank = (which) => sorted.map((s) => s[(D.ranks[s.length] ?? [0, s.length - 1])[which]]);
  const line = { color: colour, width: 2.6, dash: dashOf(group[0].trial) };
  const band = { x: [...xs, ...xs.toReversed()], y: [...rank(1), ...rank(0).toReversed()], fill: "toself", fillcolor: colour,
    opacity: 0.16, line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false };
  return [band, { x: xs, y: sorted.map(median), name, mode: xs.length > 24 ? "lines" : "lines+markers", line,
    hovertemplate: `median of ${group.length} seeds: %{y:.4g}<extra>${name}</extra>` }];
}

function drawCurves(trials) {
  const found = curves(trials);
  const colour = $("colour").value;
  const traces = [...Map.groupBy(found, (curve) => curve.trial[colour])].map(([value, group]) => ({
    x: group.flatMap((curve) => [...curve.x, null]), y: group.flatMap((curve) => [...curve.y, null]),
    text: group.flatMap((curve) => [...curve.x.map(() => curve.trial.label), ""]), name: `${colour} ${value}`, mode: "lines+markers",
    line: { color: colourOf(value), width: 1 }, marker: { size: 3 }, opacity: $("medians").checked ? 0.3 : 0.75,
    hovertemplate: "%{y:.4g}<extra>%{text}</extra>", showlegend: !$("medians").checked,
  }));
  if ($("medians").checked) {
    const point = (curve) => D.varying.map((name) => `${name} ${curve.trial[name]}`).join(", ") || curve.trial.method;
    const groups = [...Map.groupBy(found, point)].sort((a, b) => a[0].localeCompare(b[0], undefined, { numeric: true }));
    if (groups.length <= 40) for (const [name, group] of groups) traces.push(...medianTraces(group, name));
  }
  const x = { ...AXIS, title: { text: { round: "round", trajectories: "trajectories per agent", m_adapt: "trajectories of the adaptation step" }[$("x").value] } };
  Plotly.react("curves", traces, { ...LAYOUT, xaxis: x, yaxis: { ...AXIS, title: { text: $("measure").value.replace("_", " ") } },
    showlegend: traces.filter((trace) => trace.showlegend !== false).length <= 12 }, CONFIG);
}

function drawOutcomes(trials) {
  const [by, colour] = [$("by").value, $("colour").value];
  const places = values(by);
  const groups = values(colour);
  const finished = trials.filter((trial) => trial.status === "finished");
  const beside = new Map([...Map.groupBy(finished, (t) => t[by])].map(([place, part]) => [place, groups.filter((g) => part.some((t) => t[colour] === g))]));
  const offset = (trial) => { // the colours that are at a place stand side by side in it
    const here = beside.get(trial[by]);
    return here.length > 1 ? (here.indexOf(trial[colour]) / (here.length - 1) - 0.5) * 0.6 : 0;
  };
  const jitter = (i) => (((i * 0.618034 + 0.5) % 1) - 0.5) * (by === colour ? 0.3 : 0.5 / Math.max(groups.length, 2));
  const traces = [];
  for (const [value, group] of Map.groupBy(finished, (trial) => trial[colour])) {
    traces.push({ x: group.map((t, i) => places.indexOf(t[by]) + offset(t) + jitter(i)), y: group.map((t) => t[RETURN]), mode: "markers",
      name: `${colour} ${value}`, marker: { color: colourOf(value), size: 6, opacity: 0.65 }, text: group.map((t) => t.label),
      hovertemplate: "%{y:.4g}<extra>%{text}</extra>" });
    const bars = { x: [], y: [], mode: "lines", line: { color: colourOf(value), width: 3.5 }, showlegend: false, hoverinfo: "skip" };
    for (const [, part] of Map.groupBy(group, (trial) => trial[by])) {
      const at = places.indexOf(part[0][by]) + offset(part[0]);
      const middle = median(part.map((t) => t[RETURN]).sort((a, b) => a - b));
      const half = by === colour ? 0.3 : 0.4 / Math.max(groups.length, 2);
      bars.x.push(at - half, at + half, null);
      bars.y.push(middle, middle, null);
    }
    traces.push(bars);
  }
  const x = { ...AXIS, title: { text: by }, tickvals: places.map((_, i) => i), ticktext: places.map(String), range: [-0.6, places.length - 0.4] };
  Plotly.react("outcomes", traces, { ...LAYOUT, xaxis: x, yaxis: { ...AXIS, title: { text: "return after adaptation" } } }, CONFIG);
}

function drawParallel(trials) {
  const finished = trials.filter((trial) => trial.status === "finished");
  const dimensions = [...(D.varying.includes("method") ? ["method"] : []), ...D.axes, RETURN].map((name) => {
    if (typeof D.trials[0][name] === "number" && name === RETURN) return { label: "return", values: finished.map((t) => t[name]) };
    const all = values(name); // evenly spaced, whatever the values
    return { label: name, values: finished.map((t) => all.indexOf(t[name])), tickvals: all.map((_, i) => i), ticktext: all.map(String), range: [-0.05, Math.max(all.length - 1, 0.1) + 0.05] };
  });
  const colour = finished.map((t) => t[RETURN]);
  Plotly.react("parallel", [{ type: "parcoords", dimensions, labelfont: { size: 13 }, tickfont: { size: 12 },
    line: { color: colour, colorscale: "Viridis", showscale: true, colorbar: { title: { text: "return" }, thickness: 12, x: 1.06 } } }],
  { ...LAYOUT, margin: { l: 96, r: 90, t: 46, b: 20 } }, CONFIG);
}

function brush() {
  brushed = {};
  const names = [...(D.varying.includes("method") ? ["method"] : []), ...D.axes, RETURN];
  $("parallel").data[0].dimensions.forEach((dimension, i) => {
    const range = dimension.constraintrange;
    if (!range || !range.length) return;
    const ranges = Array.isArray(range[0]) ? range : [range];
    const all = values(names[i]);
    brushed[names[i]] = names[i] === RETURN ? ranges : ranges.map(([low, high]) => [all[Math.ceil(low)] ?? Infinity, all[Math.floor(high)] ?? -Infinity]);
  });
  draw(false);
}

// ---- tables ----
function drawTable(id, columns, rows, mark = () => "") {
  const { column, up } = sorting[id] ?? {};
  const numeric = new Set(columns.filter((name) => rows.every((row) => row[name] === undefined || row[name] === "" || !Number.isNaN(Number(row[name])))));
  const compare = numeric.has(column) ? (a, b) => Number(a) - Number(b) : (a, b) => String(a).localeCompare(String(b));
  const ordered = column === undefined ? rows : rows.toSorted((a, b) => (up ? 1 : -1) * compare(a[column] ?? "", b[column] ?? ""));
  const heads = columns.map((name) => {
    const head = element("th", { textContent: name + (name === column ? (up ? " ▴" : " ▾") : ""), className: numeric.has(name) ? "number" : "" });
    head.onclick = () => {
      sorting[id] = { column: name, up: name === column ? !up : true };
      draw();
    };
    return head;
  });
  const body = ordered.map((row) => element("tr", { className: mark(row) }, ...columns.map((name) =>
    element("td", { textContent: row[name] ?? "", className: numeric.has(name) ? "number" : "" }))));
  $(id).replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
}

function drawTables(trials) {
  const inside = (row) => filters.every((name) => !(name in row.where) || chosen[name].has(row.where[name]));
  const rows = D.statistics.filter(inside).map(({ where, ...rest }) => ({ ...where, ...rest }));
  drawTable("statistics", [...new Set(rows.flatMap(Object.keys))], rows);
  const told = ["status", "before/return", RETURN, "before/success", "after/success", "trajectories", "seconds", "message"];
  const columns = ["trial", ...D.varying, "seed", ...told].filter((name) => D.trials.some((trial) => trial[name] !== undefined && trial[name] !== ""));
  drawTable("trials", columns, trials, (row) => (row.status === "finished" ? "" : "ended"));
}

// ---- the page ----
function draw(parallel = true) {
  const trials = shown();
  $("shown").textContent = `${trials.length} of ${D.trials.length} trials shown`;
  drawCurves(trials);
  drawOutcomes(trials);
  if (parallel) drawParallel(trials);
  drawTables(trials);
}

function options(id, entries, onchange = () => draw()) {
  $(id).replaceChildren(...entries.map(([value, text]) => element("option", { value, textContent: text ?? value })));
  $(id).onchange = onchange;
  if (entries.length < 2) $(id).parentElement.hidden = true;
}

function start() {
  const pairs = (id, entries, wrap) => $(id).replaceChildren(...Object.entries(entries).flatMap(([name, value]) => {
    const nodes = [element("dt", { textContent: name }), element("dd", { textContent: value })];
    return wrap ? [element("div", {}, ...nodes)] : nodes;
  }));
  pairs("run", D.run, false);
  pairs("fixed", Object.fromEntries(Object.entries(D.fixed).filter(([, value]) => value !== "")), true);
  if (D.gaps.length) {
    $("gaps").hidden = false;
    $("gaps").textContent = `${D.gaps.length} of ${D.planned} planned trials did not finish and are in no figure here: ${D.gaps.join("; ")}.`;
  }
  const adapts = unique(D.curves.map((curve) => curve.m_adapt)).sort((a, b) => size(a) - size(b));
  const named = adapts.filter((m) => m !== "exact").length > 2;
  const single = D.curves.every((curve) => curve.round.length === 1);
  const xs = [["round"], ["trajectories", "trajectories per agent"], ["m_adapt"]].filter(([name]) => name !== "m_adapt" || named);
  options("measure", D.measures.map((name) => [name, name.replace("_", " ")]));
  options("x", named && single ? xs.toReversed() : xs);
  const trialsOf = (split) => new Set(D.curves.filter((curve) => curve.split === split).map((curve) => curve.trial)).size;
  const splits = unique(D.curves.map((curve) => curve.split)).reverse().sort((a, b) => trialsOf(b) - trialsOf(a));
  options("split", splits.map((split) => [split, split.replace("_", " ")]));
  options("adapt", [["largest", "largest (after adaptation)"], ...adapts.map((m) => [m, m === "0" ? "0 (before adaptation)" : m])]);
  const many = filters.filter((name) => values(name).length > 1);
  options("colour", (many.length ? many : ["method"]).map((name) => [name]), () => {
    drawFilters();
    draw();
  });
  $("colour").value = many.findLast((name) => values(name).length <= PALETTE.length) ?? many[0] ?? "method";
  options("by", (many.length ? many : ["method"]).map((name) => [name]));
  $("medians").onchange = () => draw();
  $("reset").onclick = () => {
    for (const name of filters) chosen[name] = new Set(values(name));
    brushed = {};
    Plotly.purge("parallel");
    drawFilters();
    draw();
    $("parallel").on("plotly_restyle", brush);
  };
  drawFilters();
  draw();
  $("parallel").on("plotly_restyle", brush);
}

start();
