// The map of a sweep: choose two keys and a limit of memory, see the best of each pair of values, and which configuration it is.
// Its points hold the best of every pair of keys under every limit, so what it shows is what walking all splits would.
"use strict";
function sweepMap(section) {
  const data = JSON.parse(section.querySelector(".map-data").textContent);
  const place = d3.select(section.querySelector(".map-place"));
  const keyCount = data.keys.length;
  const points = data.points.map((p) => ({
    at: p.slice(0, keyCount), step: p[keyCount], peak: p[keyCount + 1], ranks: p[keyCount + 2],
    tokens: p[keyCount + 3], simulated: p[keyCount + 4],
  }));
  const names = data.keys.map((k) => k.key.split(".").pop());
  const worth = (p) => (data.of_token ? -p.tokens : p.step); // less is better
  const better = (a, b) => (!b || worth(a) < worth(b) ? a : b);
  const GiB = 2 ** 30;
  const time = (s) => (s >= 10 ? s.toFixed(2) + " s" : s >= 1 ? s.toFixed(3) + " s" : (s * 1e3).toPrecision(4) + " ms");
  const short = (p) => {
    if (data.of_token) return p.tokens >= 1e6 ? (p.tokens / 1e6).toFixed(2) + "M" : p.tokens >= 1e3 ? (p.tokens / 1e3).toFixed(1) + "k" : p.tokens.toFixed(0);
    const figure = p.step * (unit === "ms" ? 1e3 : 1);
    return figure >= 100 ? figure.toFixed(0) : figure >= 10 ? figure.toFixed(1) : figure >= 1 ? figure.toFixed(2) : figure.toFixed(3);
  };
  const unit = data.of_token ? "tokens/s" : points.some((p) => p.step >= 1) ? "s" : "ms";
  const memory = (bytes) => (bytes / GiB).toFixed(1) + " GiB";

  // ---- what is asked
  const state = { row: 0, column: 1, limit: data.limits_bytes.length - 1, chosen: null };
  const controls = place.append("div").attr("class", "controls");
  const chooser = (label, field) => {
    const box = controls.append("label").text(label);
    const select = box.append("select").attr("class", field).on("change", function () {
      const other = field === "row" ? "column" : "row";
      const before = state[field];
      state[field] = Number(this.value);
      if (state[other] === state[field]) state[other] = before; // the two change places
      state.chosen = null;
      draw();
    });
    select.selectAll("option").data(names).enter().append("option").attr("value", (_, i) => i).text((d) => d);
    return select;
  };
  const rowSelect = chooser("up", "row"), columnSelect = chooser("across", "column");
  const slider = controls.append("label").text("memory of a GPU at most ");
  const said = slider.append("output");
  const range = slider.append("input").attr("type", "range").attr("class", "limit").attr("min", 0).attr("max", data.limits_bytes.length - 1)
    .attr("step", 1).property("value", state.limit).on("input", function () { state.limit = Number(this.value); state.chosen = null; draw(); });
  if (data.limits_bytes.length < 2) range.attr("disabled", true);

  const grid = place.append("div").attr("class", "map-grid");
  const heatPlace = grid.append("div").attr("class", "heat-place");
  const note = heatPlace.append("p").attr("class", "note map-note");
  const cells = heatPlace.append("div").attr("class", "map-scroll").append("svg").attr("class", "heat").attr("role", "group");
  const panel = grid.append("div").attr("class", "split").attr("aria-live", "polite");
  const frontPlace = grid.append("div").attr("class", "front-place");
  frontPlace.append("h3").text("Step against memory");
  frontPlace.append("p").attr("class", "note").text("Each dot is a configuration; those on the line are the Pareto front: nothing else is both faster and smaller.");
  const frontSvg = frontPlace.append("div").attr("class", "map-scroll").append("svg").attr("class", "front").attr("role", "group");
  const perCount = grid.append("div").attr("class", "per-count");

  // ---- one configuration in words
  function show(p, what) {
    panel.html("");
    panel.append("h3").text(what);
    if (!p) { panel.append("p").attr("class", "note").text("Nothing that fits here."); return; }
    const list = panel.append("dl");
    const line = (name, value) => { list.append("dt").text(name); list.append("dd").text(value); };
    line("step", time(p.step));
    line("tokens/s", Math.round(p.tokens).toLocaleString("en"));
    line("memory", memory(p.peak));
    line("GPUs", p.ranks.toLocaleString("en"));
    list.append("hr");
    data.keys.forEach((key, k) => line(names[k], key.values[p.at[k]]));
    panel.append("p").attr("class", "note").text(p.simulated ? "Simulated task by task." : "By the closed form, within a few percent of the simulation.");
  }

  const palette = ["#fff7bc", "#fec44f", "#d95f0e", "#7f2704"];
  function draw() {
    rowSelect.property("value", state.row);
    columnSelect.property("value", state.column);
    const limit = state.limit === data.limits_bytes.length - 1 ? "all that fit" : memory(data.limits_bytes[state.limit]);
    said.text(limit);
    range.attr("aria-valuetext", limit);
    const fitting = points.filter((p) => p.peak <= data.limits_bytes[state.limit] * (1 + 1e-4));
    const best = fitting.reduce((found, p) => better(p, found), null);
    drawCells(fitting);
    drawFront(fitting);
    drawCounts(fitting);
    if (!state.chosen) show(best, "The best of all" + (best ? "" : ": none"));
  }

  // ---- the best of each pair of values
  function drawCells(fitting) {
    const rows = data.keys[state.row].values, columns = data.keys[state.column].values;
    const found = new Map();
    for (const p of fitting) {
      const id = p.at[state.row] * 4096 + p.at[state.column];
      found.set(id, better(p, found.get(id)));
    }
    const longest = Math.max(...rows.map((v) => v.length));
    const margin = { left: 40 + 8 * longest, top: 8, bottom: 44 };
    const room = heatPlace.node().clientWidth - margin.left - 14;
    const width = Math.max(46, Math.min(96, room / columns.length)), height = 32;
    const x = d3.scaleBand().domain(d3.range(columns.length)).range([margin.left, margin.left + width * columns.length]);
    const y = d3.scaleBand().domain(d3.range(rows.length)).range([margin.top + height * rows.length, margin.top]); // upwards, as in the plot
    const figures = [...found.values()].map((p) => (data.of_token ? p.tokens : p.step));
    const low = d3.min(figures), high = d3.max(figures);
    const shade = d3.scaleLog().domain(low < high ? [0, 1, 2, 3].map((i) => low * (high / low) ** [0, 0.35, 0.7, 1][i]) : [low * 0.5, low, low * 2, low * 4])
      .range(data.of_token ? [...palette].reverse() : palette).clamp(true);
    const w = margin.left + width * columns.length + 12, h = margin.top + height * rows.length + margin.bottom;
    cells.attr("width", w).attr("height", h).attr("viewBox", `0 0 ${w} ${h}`).html("");
    note.text(`Best ${data.of_token ? "tokens/s" : "step [" + unit + "]"} of each ${names[state.row]} and ${names[state.column]}, over all other keys; empty: nothing fits. Point at a cell for its configuration.`);
    cells.append("g").attr("transform", `translate(0,${margin.top + height * rows.length})`).call(d3.axisBottom(x).tickFormat((i) => columns[i]).tickSize(0).tickPadding(6)).select(".domain").remove();
    cells.append("g").attr("transform", `translate(${margin.left},0)`).call(d3.axisLeft(y).tickFormat((i) => rows[i]).tickSize(0).tickPadding(6)).select(".domain").remove();
    cells.append("text").attr("class", "axis-name").attr("x", margin.left).attr("y", h - 6).text(names[state.column] + " →");
    cells.append("text").attr("class", "axis-name").attr("x", 12).attr("y", margin.top + height * rows.length + 18).text("↑ " + names[state.row]);
    const all = [];
    rows.forEach((_, r) => columns.forEach((__, c) => all.push({ r, c, p: found.get(r * 4096 + c) })));
    const choose = (d, node) => {
      state.chosen = d;
      cells.selectAll(".cell").classed("chosen", (o) => o === d);
      show(d.p, `${names[state.row]} = ${rows[d.r]}, ${names[state.column]} = ${columns[d.c]}`);
    };
    const cell = cells.selectAll(".cell").data(all).enter().append("g").attr("class", (d) => "cell" + (d.p ? "" : " none"))
      .attr("transform", (d) => `translate(${x(d.c)},${y(d.r)})`)
      .attr("tabindex", (d) => (d.p ? 0 : null)).attr("role", "img")
      .attr("aria-label", (d) => `${names[state.row]} ${rows[d.r]}, ${names[state.column]} ${columns[d.c]}: ${d.p ? time(d.p.step) + ", " + memory(d.p.peak) : "nothing fits"}`)
      .on("mouseenter", function (d) { choose(d, this); }).on("focus", function (d) { choose(d, this); }).on("click", function (d) { choose(d, this); });
    cell.append("rect").attr("x", 1).attr("y", 1).attr("width", x.bandwidth() - 2).attr("height", y.bandwidth() - 2).attr("rx", 3).style("fill", (d) => (d.p ? shade(data.of_token ? d.p.tokens : d.p.step) : null));
    cell.filter((d) => d.p).append("text").attr("x", x.bandwidth() / 2).attr("y", y.bandwidth() / 2 + 4.5).text((d) => short(d.p))
      .style("fill", (d) => { const share = low < high ? Math.log((data.of_token ? d.p.tokens : d.p.step) / low) / Math.log(high / low) : 0; return (data.of_token ? 1 - share : share) > 0.55 ? "#ffffff" : "#16191f"; });
  }

  // ---- step against memory
  function drawFront(fitting) {
    const sorted = [...fitting].sort((a, b) => a.peak - b.peak || a.step - b.step);
    const front = [];
    for (const p of sorted) if (!front.length || worth(p) < worth(front[front.length - 1])) front.push(p);
    const w = Math.max(300, Math.min(760, frontPlace.node().clientWidth)), h = 320, m = { left: 62, right: 14, top: 28, bottom: 46 };
    frontSvg.attr("width", w).attr("height", h).attr("viewBox", `0 0 ${w} ${h}`).html("");
    if (!front.length) return;
    const up = (p) => (data.of_token ? p.tokens : p.step);
    const x = d3.scaleLinear().domain([d3.min(fitting, (p) => p.peak / GiB) * 0.96, d3.max(fitting, (p) => p.peak / GiB) * 1.03]).range([m.left, w - m.right]);
    const shown = fitting.filter((p) => (data.of_token ? up(p) > 0.25 * d3.max(front, up) : up(p) < 4 * d3.min(front, up)));
    const y = d3.scaleLog().domain([d3.min(shown, up) * 0.94, d3.max(shown, up) * 1.06]).range([h - m.bottom, m.top]);
    const ratio = y.domain()[1] / y.domain()[0];
    const ticks = ratio > 8 ? y.ticks(5) : d3.scaleLinear().domain(y.domain()).ticks(6);
    const scale = unit === "ms" ? 1e3 : 1;
    const plain = (v) => (data.of_token ? (v >= 1e3 ? v / 1e3 + "k" : v) : Number((v * scale).toPrecision(3)));
    frontSvg.append("g").attr("transform", `translate(0,${h - m.bottom})`).call(d3.axisBottom(x).ticks(6));
    frontSvg.append("g").attr("transform", `translate(${m.left},0)`).call(d3.axisLeft(y).tickValues(ticks).tickFormat(plain));
    frontSvg.append("text").attr("class", "axis-name").attr("x", w - m.right).attr("y", h - 8).attr("text-anchor", "end").text("memory of a GPU [GiB]");
    frontSvg.append("text").attr("class", "axis-name").attr("x", 4).attr("y", 14).text(data.of_token ? "tokens/s" : `step [${unit}]`);
    const every = Math.ceil(shown.length / 2500); // more dots are no picture
    frontSvg.append("g").selectAll("circle").data(shown.filter((_, i) => i % every === 0)).enter().append("circle").attr("class", "dot")
      .attr("r", 2).attr("cx", (p) => x(p.peak / GiB)).attr("cy", (p) => y(up(p)));
    const onFront = front.filter((p) => shown.includes(p));
    const corners = [];
    onFront.forEach((p, i) => { if (i) corners.push([x(p.peak / GiB), y(up(onFront[i - 1]))]); corners.push([x(p.peak / GiB), y(up(p))]); });
    frontSvg.append("path").attr("class", "front-line").attr("d", "M" + corners.map((c) => c.join(",")).join("L"));
    const choose = (p, node) => {
      state.chosen = p;
      frontSvg.selectAll(".front-dot").classed("chosen", (o) => o === p);
      show(p, "On the Pareto front");
    };
    frontSvg.append("g").selectAll("circle").data(onFront).enter().append("circle").attr("class", "front-dot").attr("r", 5)
      .attr("cx", (p) => x(p.peak / GiB)).attr("cy", (p) => y(up(p))).attr("tabindex", 0).attr("role", "img")
      .attr("aria-label", (p) => `on the Pareto front: ${time(p.step)}, ${memory(p.peak)}`)
      .on("mouseenter", function (p) { choose(p, this); }).on("focus", function (p) { choose(p, this); }).on("click", function (p) { choose(p, this); });
  }

  // ---- the best of each number of GPUs, where that varies
  function drawCounts(fitting) {
    perCount.html("");
    const best = new Map();
    for (const p of fitting) best.set(p.ranks, better(p, best.get(p.ranks)));
    if (new Set(points.map((p) => p.ranks)).size < 2) return;
    perCount.append("h3").text("The best of each number of GPUs");
    const table = perCount.append("div").attr("class", "table").append("table");
    table.append("thead").append("tr").selectAll("th").data(["GPUs", "step", "tokens/s", "tokens/s a GPU", "memory"]).enter().append("th").attr("class", "n").text((d) => d);
    const rows = table.append("tbody").selectAll("tr").data([...best.values()].sort((a, b) => a.ranks - b.ranks)).enter().append("tr").attr("tabindex", 0)
      .on("mouseenter", (p) => show(p, `The best of ${p.ranks} GPUs`)).on("focus", (p) => show(p, `The best of ${p.ranks} GPUs`));
    rows.selectAll("td").data((p) => [p.ranks.toLocaleString("en"), time(p.step), Math.round(p.tokens).toLocaleString("en"), Math.round(p.tokens / p.ranks).toLocaleString("en"), memory(p.peak)])
      .enter().append("td").attr("class", "n").text((d) => d);
  }

  section.classList.add("drawn");
  draw();
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
}
for (const section of document.querySelectorAll("section.map")) sweepMap(section);
