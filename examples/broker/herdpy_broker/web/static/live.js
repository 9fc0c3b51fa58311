// The part of a page that lives: replaced when the server sends it, with the focus and the scrolling kept.
// Without scripts pages load themselves again.
"use strict";

const part = document.getElementById("live");
const keyOf = (one) => one?.id || one?.getAttribute("aria-label");

function replace(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  if (made.innerHTML.trim() === part.innerHTML.trim()) return;
  const focused = part.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const scrolled = [...part.querySelectorAll("[id]")].map((one) => [one.id, one.scrollLeft, one.scrollTop]);
  part.replaceChildren(made.content);
  for (const [id, left, top] of scrolled) {
    const one = document.getElementById(id);
    if (one) [one.scrollLeft, one.scrollTop] = [left, top];
  }
  if (!focused) return;
  const again = [...part.querySelectorAll("button, a, [tabindex]")].find((one) => keyOf(one) === focused);
  again?.focus({ preventScroll: true });
}

// What is pressed is not taken away until it is let go: it would not be clicked.
let isPressed = false;
let newest = null;
for (const kind of ["pointerdown", "keydown"]) part.addEventListener(kind, () => { isPressed = true; });
for (const kind of ["pointerup", "pointercancel", "keyup", "blur"]) {
  addEventListener(kind, () => setTimeout(() => {
    isPressed = false;
    if (newest !== null) replace(newest);
  }));
}

// A stream that was refused, or is broken off, is begun anew, later and later.
let pauseMs = 1000;
function listen() {
  const stream = new EventSource(part.dataset.stream);
  stream.onmessage = (event) => {
    pauseMs = 1000;
    document.body.classList.remove("stale");
    newest = event.data;
    if (!isPressed) replace(newest);
  };
  stream.onerror = () => {
    document.body.classList.add("stale");
    if (stream.readyState !== EventSource.CLOSED) return;
    setTimeout(listen, pauseMs);
    pauseMs = Math.min(2 * pauseMs, 30000);
  };
  addEventListener("pagehide", () => stream.close(), { once: true });
}
listen();
addEventListener("pageshow", (event) => event.persisted && location.reload());
