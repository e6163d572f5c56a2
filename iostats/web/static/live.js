"use strict";
// Puts what the server sends into the page.  A stream where there is one, else the part is asked for
// again and again; nothing while the page is not looked at, or is paused.
(function () {
  var box = document.getElementById("live");
  if (!box) return;
  var line = document.getElementById("state"), words = document.getElementById("state-text");
  var button = document.getElementById("pause"), every = 1000 * Number(box.dataset.every || 5);
  var stream = null, timer = null, paused = false, failed = 0, polls = 0;

  function state(kind, text) {
    line.className = "live " + kind;
    if (words.textContent !== text) words.textContent = text;
  }

  function isSelecting() {
    var found = window.getSelection();
    return found && !found.isCollapsed && box.contains(found.anchorNode);
  }

  function show(html) {
    if (isSelecting()) return;
    var all = function () { return box.querySelectorAll("a, [tabindex]"); };
    var place = Array.prototype.indexOf.call(all(), document.activeElement);
    var scrolled = box.querySelector(".scroll"), left = scrolled ? scrolled.scrollLeft : 0;
    box.innerHTML = html;
    scrolled = box.querySelector(".scroll");
    if (scrolled) scrolled.scrollLeft = left;
    if (place >= 0 && all()[place]) all()[place].focus({preventScroll: true});
    state("on", "live");
  }

  function stop() {
    if (stream) stream.close();
    clearTimeout(timer);
    stream = timer = null;
  }

  function poll() {
    fetch(box.dataset.part, {credentials: "same-origin", cache: "no-store"}).then(function (answer) {
      if (!answer.ok) throw new Error(String(answer.status));
      return answer.text();
    }).then(function (html) { polls += 1; show(html); }).catch(function () {
      state("off", "not updated: no answer");
    }).then(function () {
      if (paused || document.hidden || stream) return;
      // What stands in front may have had none for a while: after a minute a stream is tried again.
      if (failed && polls >= 12) { failed = polls = 0; start(); return; }
      timer = setTimeout(poll, Math.max(every, 5000));
    });
  }

  function start() {
    stop();
    if (paused || document.hidden) return;
    if (!window.EventSource || failed > 2) { poll(); return; }
    stream = new EventSource(box.dataset.live);
    stream.addEventListener("part", function (event) { failed = 0; show(event.data); });
    stream.addEventListener("trouble", function (event) { failed = 0; state("off", event.data); });
    stream.onerror = function () {
      state("off", "connecting again");
      if (stream && stream.readyState === EventSource.CLOSED) {
        // Not a stream: too many watch, or what stands in front of the pages has none.
        stop();
        failed = 3;
        timer = setTimeout(poll, every);
      }
    };
  }

  button.addEventListener("click", function () {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) { stop(); state("", "paused"); } else { state("", "connecting"); start(); }
  });
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) stop(); else if (!paused) start();
  });
  line.hidden = false;
  start();
})();
