// What every page of the console does by script; without scripts pages work, and are still.
"use strict";

// Pages that nobody looks at ask for nothing.
document.addEventListener("htmx:beforeRequest", (event) => {
  const live = event.detail.requestConfig?.headers?.["X-Console-Live"];
  if (live && document.hidden) event.preventDefault();
});

// A server that is away: what is shown is old, and says so.
const stale = (isStale) => document.body.classList.toggle("stale", isStale);
document.addEventListener("htmx:sendError", () => stale(true));
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.xhr?.status) stale(false);
});
