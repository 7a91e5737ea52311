// Tables that sort by the column that is pressed. Without scripts they stand in the order of the report.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  const key = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  // Figures before words, so that "refused" stands last.
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1
    : typeof b === "number" ? 1
    : a.localeCompare(b, "en", { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "sort by " + head.textContent;
    head.dataset.name = head.textContent;  // for print
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].sort((a, b) => compare(key(a, column), key(b, column)) * (up ? 1 : -1));
      body.append(...rows);
    });
  });
}
addEventListener("beforeprint", () => { for (const fold of document.querySelectorAll("details")) fold.open = true; });
