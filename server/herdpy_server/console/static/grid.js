// Grids sort by a click on a column's head: numbers as numbers, NULL last; a third click is the order of the answer.
"use strict";

const numberOf = (text) => {
  const found = Number(text);
  return Number.isNaN(found) ? (text === "Infinity" ? Infinity : text === "-Infinity" ? -Infinity : NaN) : found;
};

const compareText = new Intl.Collator(undefined, { numeric: false }).compare;

function sort(head) {
  const table = head.closest("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, number) => (row.dataset.number ??= number));
  const next = { none: "ascending", ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")];
  for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", next);
  const at = head.cellIndex;
  const isNumber = head.classList.contains("number");
  const way = next === "descending" ? -1 : 1;
  const keyOf = (row) => {
    const cell = row.cells[at];
    return cell.classList.contains("null") ? null : cell.textContent;
  };
  const byPlace = (a, b) => a.dataset.number - b.dataset.number;
  rows.sort((a, b) => {
    if (next === "none") return byPlace(a, b);
    const [left, right] = [keyOf(a), keyOf(b)];
    if (left === null || right === null) return (left === null) - (right === null) || byPlace(a, b);
    const found = isNumber ? numberOf(left) - numberOf(right) || 0 : compareText(left, right);
    return found * way || byPlace(a, b);
  });
  body.append(...rows);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".grid .sort");
  if (button) sort(button.closest("th"));
});
