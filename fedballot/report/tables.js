(() => {
  "use strict";
  const keyOf = (row, place) => row.cells[place].dataset.value ?? row.cells[place].textContent.trim();
  const sortBy = (table, head) => {
    const place = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.every(row => keyOf(row, place) === "" || !isNaN(keyOf(row, place)));
    rows.sort((one, other) => {
      const [a, b] = [keyOf(one, place), keyOf(other, place)];
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return up ? order : -order;
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sortBy(table, head));
    }
  }
  const controls = document.querySelector(".controls");
  if (!controls) return;
  controls.hidden = false;
  const input = controls.querySelector("input"), count = controls.querySelector("output");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of document.querySelectorAll("table.sortable")) {
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = words.length ? `${shown} of ${table.tBodies[0].rows.length}` : "";
    }
  });
})();
