"use strict";
// Tables: a click on a column's name sorts by it, another one the other way round.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], head = table.tHead.rows[0];
  const value = (row, i) => {
    const cell = row.cells[i];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return cell.classList.contains("n") ? null : cell.textContent;
  };
  [...head.cells].forEach((th, i) => {
    if ([...body.rows].every(row => row.cells[i].classList.contains("n"))) th.classList.add("n");
    const button = document.createElement("button");
    button.textContent = th.textContent;
    th.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      for (const other of head.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, i), value(b, i)];
        if (x === null || y === null) return (x === null) - (y === null);
        const order = typeof x === "number" && typeof y === "number"
          ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}
// Plots: the point nearest to the pointer, or the next one by arrow keys, tells its values.
const tip = document.getElementById("tip");
const reach = 40;
for (const svg of document.querySelectorAll("svg[data-points]")) {
  const points = JSON.parse(svg.dataset.points);
  const ring = document.createElementNS(svg.namespaceURI, "circle");
  ring.setAttribute("r", "7");
  ring.style.cssText = "fill:none;stroke:var(--text);stroke-width:2;display:none";
  svg.append(ring);
  let shown = -1;
  const hide = () => { ring.style.display = "none"; tip.hidden = true; shown = -1; };
  const show = i => {
    const [x, y, text] = points[shown = i];
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    ring.style.display = "";
    tip.textContent = text;
    tip.hidden = false;
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const left = Math.min(at.x + 12, innerWidth - tip.offsetWidth - 8);
    tip.style.left = Math.max(8, left) + "px";
    const above = at.y - tip.offsetHeight - 12;
    tip.style.top = (above < 8 ? at.y + 14 : above) + "px";
  };
  svg.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    let best = -1, least = reach * reach;
    points.forEach(([x, y], i) => {
      const far = (x - at.x) ** 2 + (y - at.y) ** 2;
      if (far < least) { least = far; best = i; }
    });
    best < 0 ? hide() : show(best);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step || points.length === 0) return;
    event.preventDefault();
    show(shown < 0 ? (step > 0 ? 0 : points.length - 1) : (shown + step + points.length) % points.length);
  });
}
