"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ---- numbers as text -------------------------------------------------------------------
  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const duration = (ns) => {
    const [unit, name] = UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];
    const value = ns / unit;
    return `${value.toFixed(unit === 1 ? 0 : Math.abs(value) < 10 ? 2 : 1)} ${name}`;
  };
  const percent = (ratio) => {
    const value = 100 * ratio;
    return `${Math.abs(value) < 9.95 ? value.toFixed(1) : value.toFixed(0)} %`;
  };

  // ---- tables: one at a time, sorted by the chosen column --------------------------------------
  const tabs = all(".tabs button");
  const show = (name) => {
    tabs.forEach((tab) => tab.setAttribute("aria-selected", String(tab.dataset.table === name)));
    all(".rows").forEach((table) => { table.hidden = table.dataset.table !== name; });
  };
  tabs.forEach((tab) => tab.addEventListener("click", () => show(tab.dataset.table)));
  if (tabs.length) show(tabs[0].dataset.table);

  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  };
  const sort = (head) => {
    const row = head.parentElement;
    const column = [...row.children].indexOf(head);
    const down = head.getAttribute("aria-sort") !== "descending";
    [...row.children].forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const key = (line) => line.children[column].dataset.value;
    const lines = [...body.rows].sort((a, b) => compare(key(a), key(b)) * (down ? -1 : 1));
    body.append(...lines);
  };
  all("thead button").forEach((button) => {
    button.addEventListener("click", () => sort(button.parentElement));
  });

  // ---- what-ifs: the same replay as in the analysis, on the graph of this page -------------------
  const graph = read("data-graph");
  const { rows, row_of_atom: of } = graph;
  const ATOMS = of.class.length;
  const WORK = new Set(graph.work);
  const works = (atom) => WORK.has(of.class[atom]);
  const calls = (chain, name) => {
    for (let at = chain; at > 0; at = graph.chain_caller[at]) {
      if (graph.names[graph.chain_operator[at]] === name || graph.names[graph.chain_type[at]] === name) return true;
    }
    return false;
  };
  const inside = (module, name) => module === name || (module !== undefined && module.startsWith(`${name}.`));
  const KINDS = {
    operator: (name) => (atom) => works(atom) && calls(of.chain[atom], name),
    module: (name) => (atom) => works(atom) && inside(rows.module[of.module[atom]], name),
    kernel: (name) => (atom) => works(atom) && rows.kernel[of.kernel[atom]] === name,
    class: (name) => (atom) => rows.class[of.class[atom]] === name,
  };
  const used = (kind) => new Set(of[kind].filter((row) => row >= 0).map((row) => rows[kind][row]));
  const outer = (name) => name.split(".").map((_, index, parts) => parts.slice(0, index + 1).join("."));
  const named = {
    operator: new Set(of.chain.flatMap((chain) => {
      const names = [];
      for (let at = chain; at > 0; at = graph.chain_caller[at]) {
        names.push(graph.names[graph.chain_type[at]], graph.names[graph.chain_operator[at]]);
      }
      return names.filter((name) => name);
    })),
    module: new Set([...used("module")].flatMap(outer)),
    kernel: used("kernel"),
    class: used("class"),
  };

  const factors = (changes) => {
    const ratio = new Float64Array(ATOMS).fill(1);
    changes.forEach(({ kind, value, speed }) => {
      const fits = KINDS[kind](value);
      for (let atom = 0; atom < ATOMS; atom += 1) if (fits(atom)) ratio[atom] /= speed;
    });
    return ratio;
  };
  const replay = (ratio) => {
    const time = new Float64Array(graph.junctions);
    for (let chain = 0; chain < graph.tail.length; chain += 1) {
      let length = graph.fixed_ns[chain];
      for (let piece = graph.first[chain]; piece < graph.first[chain + 1]; piece += 1) {
        length += graph.ns[piece] * ratio[graph.atom[piece]];
      }
      const earliest = time[graph.tail[chain]] + length;
      if (earliest > time[graph.head[chain]]) time[graph.head[chain]] = earliest;
    }
    return Math.round(time[time.length - 1]);
  };
  const predict = (changes) => replay(factors(changes));
  const exact = (predicted) => graph.exact_gain_ns === null || graph.makespan_ns - predicted <= graph.exact_gain_ns;

  // ---- curves: predicted time by speed --------------------------------------
  const SPEEDS = [1, 1.25, 1.5, 2, 3, 5, 10, Infinity];
  const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#8b0000"];
  const SVG = "http://www.w3.org/2000/svg";
  const shape = (tag, attributes, text) => {
    const element = document.createElementNS(SVG, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const chart = (curves) => {
    const [width, height, left, right, top, bottom] = [760, 300, 70, 20, 14, 42];
    const lowest = Math.min(...curves.flatMap((curve) => curve.values));
    const floor = Math.max(0, graph.makespan_ns - 1.15 * (graph.makespan_ns - lowest || graph.makespan_ns));
    const x = (index) => left + (index * (width - left - right)) / (SPEEDS.length - 1);
    const y = (ns) => top + ((graph.makespan_ns - ns) / (graph.makespan_ns - floor || 1)) * (height - top - bottom);
    const svg = shape("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Predicted time by speed" });
    for (let line = 0; line <= 4; line += 1) {
      const ns = graph.makespan_ns - (line * (graph.makespan_ns - floor)) / 4;
      svg.append(shape("path", { class: "rule", d: `M${left} ${y(ns)}H${width - right}` }));
      svg.append(shape("text", { class: "faint", x: left - 8, y: y(ns) + 4, "text-anchor": "end" }, duration(ns)));
    }
    SPEEDS.forEach((speed, index) => {
      const text = speed === Infinity ? "∞" : `${speed}×`;
      svg.append(shape("text", { class: "faint", x: x(index), y: height - bottom + 20, "text-anchor": "middle" }, text));
    });
    svg.append(shape("text", { class: "faint", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "times as fast"));
    curves.forEach(({ values, color, name }) => {
      const points = values.map((ns, index) => `${x(index)} ${y(ns)}`);
      const line = shape("path", { d: `M${points.join("L")}`, fill: "none", stroke: color, "stroke-width": 2.2 });
      line.append(shape("title", {}, name));
      svg.append(line);
      values.forEach((ns, index) => {
        const dot = shape("circle", { cx: x(index), cy: y(ns), r: 3.2, fill: color });
        dot.append(shape("title", {}, `${name}, ${SPEEDS[index]} times as fast: ${duration(ns)}`));
        svg.append(dot);
      });
    });
    return svg;
  };
  const swatch = (color) => {
    const svg = shape("svg", { viewBox: "0 0 12 12" });
    svg.append(shape("rect", { width: 12, height: 12, rx: 2, fill: color }));
    return svg;
  };
  const sweep = ({ kind, value }) => SPEEDS.map((speed) => predict([{ kind, value, speed }]));
  const draw = (chosen) => {
    const listed = [...chosen, ...read("data-start")].filter(
      (one, index, every) => named[one.kind].has(one.value) &&
        every.findIndex((other) => other.kind === one.kind && other.value === one.value) === index,
    );
    const curves = listed.slice(0, 6).map((one, index) => ({
      name: `${one.kind} ${one.value}`, values: sweep(one), color: COLORS[index],
    }));
    const place = document.getElementById("curves");
    place.replaceChildren();
    if (!curves.length) return;
    const key = make("ul", undefined, "key");
    curves.forEach(({ name, values, color }) => {
      const entry = make("li");
      const saved = 1 - values[values.length - 1] / (graph.makespan_ns || 1);
      entry.append(swatch(color), `${name}: at most ${percent(saved)} less`);
      key.append(entry);
    });
    const box = make("div", undefined, "scroll");
    box.append(chart(curves));
    place.append(box, key);
  };

  // ---- the form ---------------------------------------------------------------------------------
  const form = document.getElementById("whatif");
  const [kind, value, speed] = ["kind", "value", "speed"].map((name) => form.elements[name]);
  const outcome = document.getElementById("outcome");
  const changes = [];
  const names = () => {
    const list = document.getElementById("names");
    list.replaceChildren(...[...named[kind.value]].map((name) => {
      const option = make("option");
      option.value = name;
      return option;
    }));
  };
  const say = (...parts) => outcome.replaceChildren(...parts);
  const update = () => {
    delete outcome.dataset.ns;
    if (!changes.length) { say(); draw([]); return; }
    const ns = predict(changes);
    outcome.dataset.ns = String(ns);
    const saved = graph.makespan_ns ? 1 - ns / graph.makespan_ns : 0;
    const faster = ns ? `${(graph.makespan_ns / ns).toFixed(3)}× as fast` : "no time at all";
    const words = saved >= 0 ? `${percent(saved)} less` : `${percent(-saved)} more`;
    const sure = exact(ns)
      ? "The same replay as the analysis makes, with everything else as it was."
      : `Optimistic: it lies between this and ${duration(graph.makespan_ns - graph.exact_gain_ns)}, because dependencies with more than ${duration(graph.exact_gain_ns)} to spare are not on this page. benchorch analyze with a file of changes includes them all.`;
    say(
      make("b", duration(ns)),
      ` instead of ${duration(graph.makespan_ns)}: ${words}, ${faster}.`,
      make("p", sure, exact(ns) ? "small" : "warning"),
    );
    draw(changes);
  };
  const list = () => {
    document.getElementById("changes").replaceChildren(...changes.map((change, index) => {
      const entry = make("li", `${change.kind} ${change.value}, ${change.speed === Infinity ? "∞" : change.speed}×`);
      const remove = make("button", "✕");
      remove.type = "button";
      remove.setAttribute("aria-label", "remove");
      remove.addEventListener("click", () => { changes.splice(index, 1); list(); update(); });
      entry.append(remove);
      return entry;
    }));
  };
  const add = (change) => {
    const again = changes.findIndex((one) => one.kind === change.kind && one.value === change.value);
    if (again >= 0) changes.splice(again, 1);
    changes.push(change);
    list();
    update();
  };
  const faster = (text) => (/^(inf(inity)?|∞)$/i.test(text.trim()) ? Infinity : Number(text));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const change = { kind: kind.value, value: value.value, speed: faster(speed.value) };
    const least = graph.exact_gain_ns === null ? 0.01 : 1;
    if (!(change.speed >= least)) {
      say(make("p", `“${speed.value}” is not a valid speed: enter a number of at least ${least}, or inf for no time at all.`, "warning"));
    } else if (!named[change.kind].has(change.value)) {
      say(make("p", `There is no ${change.kind} called “${change.value}” here: choose one from the list.`, "warning"));
    } else add(change);
  });
  kind.addEventListener("change", () => { value.value = ""; names(); });
  document.getElementById("clear").addEventListener("click", () => { changes.length = 0; list(); update(); });
  all(".try").forEach((button) => {
    if (!named[button.dataset.kind].has(button.dataset.value)) {
      button.remove();
      return;
    }
    button.addEventListener("click", () => {
      kind.value = button.dataset.kind;
      names();
      value.value = button.dataset.value;
      add({ kind: kind.value, value: value.value, speed: faster(speed.value) || 2 });
      document.getElementById("what-if").scrollIntoView();
    });
  });
  names();
  update();
})();
