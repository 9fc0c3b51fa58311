// What every page of the console does by script; without scripts pages work, and are still.
"use strict";

// Pages that nobody looks at ask for nothing.
document.addEventListener("htmx:beforeRequest", (event) => {
  const live = event.detail.requestConfig?.headers?.["X-Console-Live"];
  // Nor does a part in which a question is open: it would be taken away from under the answer.
  const isAsking = () => event.detail.target?.querySelector("details.confirm[open]");
  if (live && (document.hidden || isAsking())) event.preventDefault();
});

// A part that is replaced keeps how far it was scrolled, what was unfolded, and the focus.
const kept = new Map();
const places = (part) => part.querySelectorAll("[id]");
document.addEventListener("htmx:beforeSwap", (event) => {
  kept.clear();
  for (const one of places(event.detail.target)) {
    kept.set(one.id, { left: one.scrollLeft, top: one.scrollTop, open: one.open, focus: one === document.activeElement });
  }
});
document.addEventListener("htmx:afterSwap", (event) => {
  for (const one of places(event.detail.target)) {
    const was = kept.get(one.id);
    if (!was) continue;
    if (was.open !== undefined) one.open = was.open;
    one.scrollLeft = was.left;
    one.scrollTop = was.top;
    if (was.focus) one.focus({ preventScroll: true });
  }
});

// A server that is away: what is shown is old, and says so.
const stale = (isStale) => document.body.classList.toggle("stale", isStale);
document.addEventListener("htmx:sendError", () => stale(true));
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.xhr?.status) stale(false);
});
