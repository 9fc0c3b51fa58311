// A chart of a grid's rows: the first column along, numeric columns up. Bars, lines or points, as SVG.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const MOST_ROWS = 500;
const MOST_SERIES = 6;
const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [320, 64, 12, 14, 44];
let WIDTH = 900; // as wide as its place, so that its texts are as large as others

function svg(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function element(name, attributes = {}, ...inner) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inner);
  return made;
}

function read(table) {
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.querySelector(".sort").firstChild.textContent);
  const numeric = heads.map((head) => head.classList.contains("number"));
  const rows = [...table.tBodies[0].rows].slice(0, MOST_ROWS).map((row) =>
    [...row.cells].map((cell) => (cell.classList.contains("null") ? null : cell.textContent)),
  );
  return { names, numeric, rows, isCut: table.tBodies[0].rows.length > MOST_ROWS };
}

// Round steps: 1, 2 or 5 times a power of ten.
function ticks(low, high, most) {
  if (low === high) [low, high] = [low - 1, high + 1];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

const short = (value) =>
  Math.abs(value) >= 1e15 || (value && Math.abs(value) < 1e-6)
    ? value.toExponential(1)
    : new Intl.NumberFormat("en", { notation: Math.abs(value) >= 1e5 ? "compact" : "standard", maximumFractionDigits: 6 }).format(value);

function positions(data, x, kind) {
  const texts = data.rows.map((row) => row[x]);
  const asNumber = texts.map((text) => (text === null ? NaN : Number(text)));
  const asTime = texts.map((text) => (text !== null && /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00")) : NaN));
  const values = data.numeric[x] && asNumber.every(Number.isFinite) ? asNumber : asTime.every(Number.isFinite) ? asTime : null;
  if (kind !== "bar" && values && new Set(values).size > 1) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const scale = (value) => LEFT + 8 + ((value - low) / (high - low)) * (WIDTH - LEFT - RIGHT - 16);
    const marks = data.numeric[x] ? ticks(low, high, WIDTH / 90).map((one) => [scale(one), short(one)]) : spread(values, texts, scale);
    return { at: values.map(scale), marks };
  }
  const room = (WIDTH - LEFT - RIGHT) / Math.max(texts.length, 1);
  const at = texts.map((_text, number) => LEFT + room * (number + 0.5));
  const every = Math.max(1, Math.ceil((texts.length * 90) / WIDTH));
  const marks = texts.map((text, number) => [at[number], text ?? "NULL"]).filter((_one, number) => number % every === 0);
  return { at, marks, room };
}

function spread(values, texts, scale) {
  const order = values.map((_value, number) => number).sort((a, b) => values[a] - values[b]);
  const every = Math.max(1, Math.ceil((order.length * 130) / WIDTH));
  return order.filter((_one, number) => number % every === 0).map((number) => [scale(values[number]), texts[number]]);
}

function draw(data, kind, x, ys, room) {
  WIDTH = Math.min(Math.max(room, 300), 1400);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "picture", role: "img" });
  picture.append(svg("title", {}, `${kind} chart of ${ys.map((y) => data.names[y]).join(", ")} by ${data.names[x]}`));
  const series = ys.map((y) => data.rows.map((row) => (row[y] === null ? NaN : Number(row[y]))));
  const all = series.flat().filter(Number.isFinite);
  if (!all.length) return element("p", { class: "empty" }, "There are no numbers to draw.");
  const low = Math.min(...all, kind === "bar" ? 0 : Infinity);
  const high = Math.max(...all, kind === "bar" ? 0 : -Infinity);
  const marks = ticks(low, high, 6);
  const [bottom, top] = [Math.min(low, marks[0] ?? low), Math.max(high, marks.at(-1) ?? high)];
  const up = (value) => HEIGHT - BOTTOM - ((value - bottom) / (top - bottom || 1)) * (HEIGHT - TOP - BOTTOM);
  for (const mark of marks) {
    picture.append(svg("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: up(mark), y2: up(mark) }));
    picture.append(svg("text", { class: "mark", x: LEFT - 8, y: up(mark) + 4, "text-anchor": "end" }, short(mark)));
  }
  const along = positions(data, x, kind);
  for (const [at, text] of along.marks) {
    const label = text.length > 14 ? `${text.slice(0, 13)}…` : text;
    picture.append(svg("text", { class: "mark", x: at, y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, label));
  }
  picture.append(svg("text", { class: "mark", x: (WIDTH + LEFT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, data.names[x]));
  series.forEach((values, number) => picture.append(...marksOf(kind, values, number, series.length, along, up, data, x, ys)));
  return picture;
}

function marksOf(kind, values, number, count, along, up, data, x, ys) {
  const hint = (row) => svg("title", {}, `${data.rows[row][x] ?? "NULL"}: ${data.rows[row][ys[number]]} ${data.names[ys[number]]}`);
  const there = values.map((value, row) => [value, row]).filter(([value]) => Number.isFinite(value));
  if (kind === "bar") {
    const width = Math.max(0.5, (along.room * 0.8) / count);
    return there.map(([value, row]) => {
      const from = along.at[row] - (width * count) / 2 + width * number;
      const [y, zero] = [up(value), up(0)];
      const made = svg("rect", { class: `series-${number}`, x: from, y: Math.min(y, zero), width, height: Math.max(Math.abs(zero - y), 0.5) });
      made.append(hint(row));
      return made;
    });
  }
  const points = there.map(([value, row]) => {
    const made = svg("circle", { class: `series-${number}`, cx: along.at[row], cy: up(value), r: kind === "scatter" || there.length < 60 ? 3.5 : 1.5 });
    made.append(hint(row));
    return made;
  });
  if (kind === "scatter") return points;
  const order = [...there].sort((a, b) => along.at[a[1]] - along.at[b[1]]);
  const path = order.map(([value, row]) => `${along.at[row]},${up(value)}`).join(" ");
  return [svg("polyline", { class: `line series-${number}`, points: path }), ...points];
}

function fill(details) {
  const place = details.querySelector(".drawing");
  const data = read(details.closest(".answer").querySelector(".grid table"));
  const ys = data.names.map((_name, at) => at).filter((at) => at > 0 && data.numeric[at]).slice(0, MOST_SERIES);
  if (!ys.length && data.numeric[0]) ys.push(0);
  if (!ys.length || !data.rows.length) {
    place.replaceChildren(element("p", { class: "empty" }, "A chart needs rows, and a column of numbers."));
    return;
  }
  const kinds = element("select", { "aria-label": "Kind of chart" });
  for (const kind of ["bar", "line", "scatter"]) kinds.append(element("option", {}, kind));
  const shown = new Set(ys);
  const legend = element("span", { class: "legend" });
  const picture = element("div");
  const again = () => picture.replaceChildren(draw(data, kinds.value, 0, ys.filter((y) => shown.has(y)), picture.clientWidth));
  ys.forEach((y, number) => {
    const box = element("input", { type: "checkbox", checked: "" });
    box.addEventListener("change", () => {
      if (box.checked) shown.add(y);
      else shown.delete(y);
      again();
    });
    legend.append(element("label", { class: `key series-${number}` }, box, ` ${data.names[y]}`));
  });
  kinds.addEventListener("change", again);
  const cut = data.isCut ? [element("span", { class: "dim" }, `the first ${MOST_ROWS} rows`)] : [];
  place.replaceChildren(element("div", { class: "toolbar" }, kinds, legend, ...cut), picture);
  again();
}

// Toggles do not bubble: they are seen on their way down.
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.chart[open]")) fill(event.target);
}, true);
