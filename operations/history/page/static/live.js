// Keeps a page up to date while somebody looks at it. The server sends what is on the page whenever that has changed;
// without this script the page is the same, as of when it was loaded.
"use strict";
(() => {
  // Times are UTC; whoever points at one sees his own.
  document.addEventListener("mouseover", (event) => {
    const time = event.target instanceof Element && event.target.closest("time[datetime]");
    const at = time && new Date(time.dateTime);
    if (at && !isNaN(at)) time.title = at.toLocaleString(undefined, {dateStyle: "medium", timeStyle: "long"});
  });
  const content = document.getElementById("content");
  const place = document.getElementById("live");
  if (!content || !place || !window.EventSource) return;

  const state = document.createElement("span");
  state.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  place.append(state, button);

  let source = null;
  let later = 0;
  let waiting = null; // what has come while something on the page was selected

  const say = (text) => {
    if (state.textContent !== text) state.textContent = text;
    button.textContent = source ? "Pause" : "Go live";
  };

  // Focus and scrolled tables stay where they are: an element is found again by its place among those like it.
  const focusable = () => [...content.querySelectorAll("a[href], [tabindex]")];
  const key = (element) => element.getAttribute("href") || element.getAttribute("aria-label") || element.tagName;

  function show(html) {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && content.contains(selection.anchorNode)) {
      waiting = html;
      return;
    }
    waiting = null;
    const active = document.activeElement;
    let name = null;
    let number = 0;
    if (active && content.contains(active)) {
      name = key(active);
      number = focusable().filter((element) => key(element) === name).indexOf(active);
    }
    const scrolled = [...content.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
    const fresh = document.createElement("template");
    fresh.innerHTML = html; // the server has escaped what others have written
    const lead = fresh.content.querySelector("#lead");
    const place = document.getElementById("lead");
    if (lead && place) { // it stands above the form, which stays as it is
      place.replaceChildren(...lead.childNodes);
      lead.remove();
    }
    content.replaceChildren(fresh.content);
    content.querySelectorAll(".scroll").forEach((element, i) => { element.scrollLeft = scrolled[i] || 0; });
    if (name !== null) {
      const alike = focusable().filter((element) => key(element) === name);
      const again = alike[number] || alike[0];
      if (again) again.focus({preventScroll: true});
    }
  }

  function start() {
    clearTimeout(later);
    source = new EventSource(location.href);
    say("Connecting");
    source.addEventListener("content", (event) => { show(event.data); say("Live"); });
    source.addEventListener("stale", (event) => say("Not live: " + event.data));
    source.addEventListener("open", () => say("Live"));
    source.addEventListener("again", () => { source.close(); start(); }); // no connection lasts for ever
    source.addEventListener("crowded", (event) => { source.close(); wait(); say("Not live: " + event.data); });
    source.addEventListener("error", () => {
      if (source && source.readyState === EventSource.CLOSED) wait(); // refused: the browser doesn't try again by itself
      say("Not live: not connected");
    });
  }

  function wait() {
    clearTimeout(later);
    later = setTimeout(start, 30000);
  }

  function stop() {
    clearTimeout(later);
    if (source) source.close();
    source = null;
    say("Paused");
  }

  document.addEventListener("selectionchange", () => { if (waiting !== null) show(waiting); });
  button.addEventListener("click", () => { if (source) stop(); else start(); });
  // A page in the background asks for nothing.
  let hidden = false;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { hidden = true; stop(); } else if (!document.hidden && hidden) { hidden = false; start(); }
  });
  start();
})();
