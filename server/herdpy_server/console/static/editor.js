// The SQL editor: runs what is selected or all, cancels, marks where an error is, keeps a history.
"use strict";
import "./grid.js";
import "./chart.js";
import { Completion } from "./completion.js";

const MOST_HISTORY = 100;
const form = document.getElementById("editor");
const field = document.getElementById("sql");
const lines = form.querySelector(".lines");
const results = document.getElementById("results");
const cancel = document.getElementById("cancel-it");
const clock = document.getElementById("clock");
const place = `herdpy:${form.dataset.place}`;
const database = () => form.elements.database.value;

// The text: line numbers beside it, as many rows as it has lines, kept for the next visit.
function draw() {
  const count = field.value.split("\n").length;
  field.rows = Math.min(Math.max(count + 1, 8), 24);
  lines.textContent = Array.from({ length: count }, (_one, number) => number + 1).join("\n");
  lines.scrollTop = field.scrollTop;
}
const keep = () => store(`${place}:draft`, field.value);
for (const event of ["input", "change"]) field.addEventListener(event, () => { draw(); keep(); });
field.addEventListener("scroll", () => (lines.scrollTop = field.scrollTop));

function store(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser without storage, or a full one, has no history.
  }
}

function stored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

// Completion.
const completion = new Completion(field, document.getElementById("names"), async () => {
  const answer = await fetch(`${form.dataset.names}?${new URLSearchParams({ database: database() })}`);
  return answer.ok ? answer.json() : null;
});
form.elements.database.addEventListener("change", () => completion.forget());

// Running.
let began = 0;
let timer = 0;
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    completion.close();
    form.requestSubmit();
  }
});

const randomName = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");

document.addEventListener("htmx:configRequest", (event) => {
  if (!form.contains(event.target)) return;
  const { parameters } = event.detail;
  const [start, end] = [field.selectionStart, field.selectionEnd];
  const isPart = end > start && field.value.slice(start, end).trim();
  parameters.sql = isPart ? field.value.slice(start, end) : field.value;
  parameters.offset = String(isPart ? [...field.value.slice(0, start)].length : 0);
  parameters.run = form.elements.run.value = randomName();
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!form.contains(event.target)) return;
  if (timer) {
    event.preventDefault(); // one at a time
    return;
  }
  began = performance.now();
  cancel.hidden = false;
  timer = setInterval(() => (clock.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`), 100);
  remember(event.detail.requestConfig.parameters.sql);
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (!form.contains(event.target) || !timer) return;
  clearInterval(timer);
  timer = 0;
  cancel.hidden = true;
  clock.textContent = `${((performance.now() - began) / 1000).toFixed(1)} s`;
  if (!event.detail.xhr.status) showProblem("The server does not answer. What was being done is not known.");
});

function showProblem(text) {
  const box = document.createElement("p");
  box.className = "message problem";
  box.role = "alert";
  box.textContent = text;
  results.replaceChildren(box);
}

// A run that the server does not know yet is about to begin there: it is cancelled then.
cancel.addEventListener("click", async () => {
  const run = form.elements.run.value;
  const body = new URLSearchParams({ run, csrf_token: form.elements.csrf_token.value });
  while (timer && form.elements.run.value === run) {
    const answer = await fetch(form.dataset.cancel, { method: "POST", body }).catch(() => null);
    if (!answer?.ok || (await answer.json()).cancelled) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});

// Answers: the error's place is selected in the text; downloads are of the chosen database.
results.addEventListener("htmx:afterSwap", () => {
  completion.forget();
  for (const one of results.querySelectorAll(".download")) {
    one.elements.database.value = database();
    one.elements.read_level.value = form.elements.read_level?.value ?? "linearizable";
  }
  const found = results.querySelector(".place");
  if (found) select(Number(found.dataset.offset), Number(found.dataset.length));
});

function select(offset, length) {
  const characters = [...field.value];
  const start = characters.slice(0, offset).join("").length;
  field.focus();
  field.setSelectionRange(start, start + characters.slice(offset, offset + length).join("").length);
  const line = field.value.slice(0, start).split("\n").length;
  field.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(field).lineHeight));
}

// History.
const historyBox = document.getElementById("history");
const history = () => {
  try {
    const found = JSON.parse(stored(`${place}:history`) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
};

function remember(text) {
  const kept = [text, ...history().filter((one) => one !== text)].slice(0, MOST_HISTORY);
  store(`${place}:history`, JSON.stringify(kept));
  drawHistory();
}

function drawHistory() {
  const kept = history();
  historyBox.querySelector("p").hidden = kept.length > 0;
  historyBox.querySelector("ol").replaceChildren(...kept.map((text) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet mono";
    button.textContent = text.length > 200 ? `${text.slice(0, 199)}…` : text;
    button.addEventListener("click", () => {
      field.value = text;
      draw();
      keep();
      field.focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
}

if (!field.value) field.value = stored(`${place}:draft`) ?? "";
draw();
drawHistory();
