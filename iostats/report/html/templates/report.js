"use strict";
document.querySelectorAll(".plot").forEach(function (plot) {
  var room = plot.querySelector(".plot-room"), chart = room && room.querySelector("svg.chart");
  var table = plot.querySelector("table.data"), inner = chart && chart.querySelector("svg");
  if (!inner || !table || !table.tBodies[0].rows.length) return;
  var heads = table.tHead.rows[0].cells, rows = table.tBodies[0].rows, tip = null;
  var count = inner.viewBox.baseVal.width, inTime = heads[0].textContent === "from";
  if (!inTime && rows.length < count) return;
  var each = inTime ? Math.ceil(count / rows.length) : 1;
  room.addEventListener("pointermove", function (event) {
    var box = inner.getBoundingClientRect(), at = (event.clientX - box.left) / box.width;
    if (at < 0 || at >= 1) { hide(); return; }
    var cells = rows[Math.min(rows.length - 1, Math.floor(at * count / each))].cells, text = [];
    for (var i = 0; i < cells.length; i++)
      text.push(i ? heads[i].textContent + ": " + cells[i].textContent : cells[i].textContent);
    if (!tip) { tip = document.createElement("div"); tip.className = "tip"; room.appendChild(tip); }
    tip.textContent = text.join("\n");
    var outer = room.getBoundingClientRect(), left = event.clientX - outer.left + 14;
    if (left + tip.offsetWidth > outer.width) left = Math.max(0, event.clientX - outer.left - 14 - tip.offsetWidth);
    tip.style.left = left + "px";
    tip.style.top = Math.max(0, event.clientY - outer.top - tip.offsetHeight - 8) + "px";
  });
  function hide() { if (tip) { tip.remove(); tip = null; } }
  room.addEventListener("pointerleave", hide);
});
