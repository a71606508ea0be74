"use strict";
// Draws each figure that has a `data-chart`, anew where the width, the theme or the paper changes,
// and saves it as PNG or SVG: always light, with its title, as a slide needs it.
(() => {
  const SLIDE_PX = 900, PRINT_PX = 660;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const night = matchMedia("(prefers-color-scheme: dark)");
  const themes = {
    light: { paper: "#ffffff", ink: "#16211a", faint: "#5d6b62", rule: "#dbe2dd" },
    dark: { paper: "#121714", ink: "#e4ebe6", faint: "#9aa8a0", rule: "#2a322d" },
  };

  function config({ paper, ink, faint, rule }) {
    const words = { labelColor: faint, titleColor: faint, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    return {
      background: paper, font: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
      axis: { ...words, gridColor: rule, gridOpacity: 0.6, domainColor: rule, tickColor: rule, labelOverlap: true, titlePadding: 8 },
      legend: { ...words, orient: "bottom", title: null, labelLimit: 240, symbolSize: 90 },
      title: { color: ink, subtitleColor: faint, anchor: "start", fontSize: 16, subtitleFontSize: 12, offset: 12 },
      view: { stroke: null }, text: { color: ink, fontSize: 12 }, rule: { color: ink }, tick: { color: ink },
      range: { category: ["#3b82c4", "#d0703a", "#2e9e7b", "#b0589a", "#a08a20", "#7565cc", "#7d8a82", "#cc4b43"] },
    };
  }

  function view(chart, width, theme, title) {
    const columns = Math.max(1, Math.floor(width / (chart.usermeta?.legendPx ?? 190)));
    const spec = { ...chart, width, autosize: { type: "fit-x", contains: "padding" }, padding: 4 };
    if (title) spec.title = title;
    const settings = config(theme);
    settings.legend.columns = columns;
    const runtime = vega.parse(vega.compile(spec, { config: settings }).spec, null, { ast: true });
    return new vega.View(runtime, { expr: vega.expressionInterpreter, renderer: "svg", hover: false, logLevel: 0 });
  }

  function draw(figure, theme, width) {
    const paper = figure.querySelector(".paper");
    const drawn = view(charts[figure.dataset.chart], width || paper.clientWidth, theme);
    paper.replaceChildren();
    drawn.initialize(paper).run();
  }

  const screen = () => (night.matches ? themes.dark : themes.light);
  const drawAll = (theme, width) => figures.filter(one => one.checkVisibility()).forEach(one => draw(one, theme, width));

  async function save(figure, kind) {
    const chart = charts[figure.dataset.chart], name = figure.dataset.name;
    const slide = view(chart, SLIDE_PX, themes.light, figure.querySelector("h3").textContent);
    const link = document.createElement("a");
    link.download = `${name}.${kind}`;
    link.href = kind === "png"
      ? await slide.toImageURL("png", 2)
      : URL.createObjectURL(new Blob([await slide.toSVG()], { type: "image/svg+xml" }));
    link.click();
  }

  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => save(button.closest("figure"), button.dataset.save));
  }
  let timer = 0, before = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === before) return;
    before = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(() => drawAll(screen()), 120);
  });
  document.addEventListener("toggle", event => event.target.open && event.target.querySelectorAll("figure[data-chart]").forEach(one => draw(one, screen())), true);
  night.addEventListener("change", () => drawAll(screen()));
  addEventListener("beforeprint", () => drawAll(themes.light, PRINT_PX));
  addEventListener("afterprint", () => drawAll(screen()));
  drawAll(screen());
})();
