"use strict";
// Shows the histories that fit every filter; the address keeps the choice, so that it can be sent.
(() => {
  const filters = [...document.querySelectorAll("[data-filter]")];
  const shifted = document.querySelector("input[data-shifted]");
  const histories = [...document.querySelectorAll("details.history")];
  const shown = document.getElementById("shown");

  function apply() {
    let count = 0;
    for (const one of histories) {
      const fits = filters.every(f => !f.value || one.dataset[f.dataset.filter] === f.value);
      one.hidden = !(fits && (!shifted.checked || "shifted" in one.dataset));
      count += !one.hidden;
    }
    shown.textContent = `${count} of ${histories.length} shown`;
  }

  function remember() {
    const chosen = new URLSearchParams(filters.filter(f => f.value).map(f => [f.dataset.filter, f.value]));
    if (shifted.checked) chosen.set("shifted", "1");
    location.replace(`#${chosen}`);
  }

  const asked = new URLSearchParams(location.hash.slice(1));
  for (const one of filters) one.value = asked.get(one.dataset.filter) ?? "";
  for (const one of filters) if (one.selectedIndex < 0) one.value = "";
  shifted.checked = asked.has("shifted");
  for (const one of [...filters, shifted]) one.addEventListener("change", () => { apply(); remember(); });
  apply();
})();
