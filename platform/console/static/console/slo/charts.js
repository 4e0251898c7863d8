// Draws the charts that the page describes in its JSON, with uPlot. Nothing here knows what they are about.
"use strict";

(() => {
  const HEIGHT = 200;
  const AXIS = 68; // the width of a vertical axis
  const LABEL = 52; // and of a label of a horizontal one
  const DAY_S = 86400;
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const plots = new Map(); // id of a chart -> its plot and where that is

  // Numbers and times: as in the tables, which the server writes.

  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(size >= 1 ? 3 : 2)));
  };
  const UNITS = {
    ms: (value) => (value >= 10000 ? `${digits(value / 1000)} s` : `${digits(value)} ms`),
    share: (value) => `${digits(value * 100)} %`,
    per_s: (value) => `${digits(value)}/s`,
    count: digits,
    gib: (value) => `${digits(value)} GiB`,
    times: (value) => `${digits(value)}x`,
  };
  const two = (number) => String(number).padStart(2, "0");
  const clock = (date) => `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  const day = (date) => `${MONTHS[date.getUTCMonth()]} ${date.getUTCDate()}`;
  const moment = (seconds) => {
    const date = new Date(seconds * 1000);
    return `${day(date)} ${clock(date)} UTC`;
  };

  // Colours are the page's, so that its dark mode is the charts', too.

  const colours = () => {
    const probe = document.body.appendChild(document.createElement("span")); // where a pair of colours becomes one
    const of = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const found = {
      ink: of("--body-quiet-color"),
      grid: of("--hairline-color"),
      paper: of("--body-bg"),
      target: of("--console-bad"),
      series: Array.from({ length: 10 }, (_, place) => of(`--slo-${place + 1}`)),
    };
    probe.remove();
    return found;
  };
  const font = (size) => `${size}px system-ui, sans-serif`;

  const axis = (palette, more) => ({
    stroke: palette.ink,
    font: font(11),
    grid: { stroke: palette.grid, width: 1 },
    ticks: { stroke: palette.grid, width: 1, size: 4 },
    ...more,
  });

  const timeLabels = (plot, splits) => {
    const wide = splits.length > 1 && splits[1] - splits[0] >= DAY_S;
    return splits.map((seconds, place) => {
      const date = new Date(seconds * 1000);
      if (wide) return day(date);
      return place === 0 || seconds % DAY_S === 0 ? `${clock(date)}\n${day(date)}` : clock(date);
    });
  };

  // An axis has one unit: seconds, where its highest label has.
  const labelsIn = (unit) => (plot, splits) => {
    const isLong = unit === "ms" && splits[splits.length - 1] >= 10000;
    return splits.map(isLong ? (ms) => `${digits(ms / 1000)} s` : UNITS[unit]);
  };

  // Round times on a logarithmic axis: fewer of them where there is little room.
  const roundTimes = (low, high) => (plot) => {
    const within = (firsts) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
        found.push(...firsts.map((first) => first * 10 ** power));
      }
      return found.filter((value) => value >= low && value <= high);
    };
    const room = (plot.width - AXIS) / LABEL;
    return [[1, 2, 5], [1, 3], [1]].map(within).find((times) => times.length <= room) ?? [];
  };
  const shortTime = (ms) => (ms >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`);

  // Lines at values: targets, and in a histogram percentiles. Labels that would meet go below one another.

  const drawMarks = (chart, palette) => (plot) => {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const across = chart.kind === "histogram";
    ctx.save();
    ctx.font = font(11 * ratio);
    const labels = [];
    chart.marks.forEach((mark, place) => {
      const at = plot.valToPos(mark.value, across ? "x" : "y", true);
      const [first, length] = across ? [bbox.left, bbox.width] : [bbox.top, bbox.height];
      if (!(at >= first && at <= first + length)) return;
      ctx.lineWidth = 1.5 * ratio;
      ctx.strokeStyle = ctx.fillStyle = mark.target ? palette.target : palette.ink;
      ctx.setLineDash(mark.target ? [5 * ratio, 4 * ratio] : []);
      ctx.beginPath();
      ctx.moveTo(across ? at : bbox.left, across ? bbox.top : at);
      ctx.lineTo(across ? at : bbox.left + bbox.width, across ? bbox.top + bbox.height : at);
      ctx.stroke();
      const toTheLeft = across && at > bbox.left + bbox.width * 0.6;
      ctx.textAlign = across && !toTheLeft ? "left" : "right";
      const x = across ? at + (toTheLeft ? -4 : 4) * ratio : bbox.left + bbox.width - 4 * ratio;
      const y = across ? bbox.top + (11 + 13 * place) * ratio : at - 4 * ratio;
      const text = `${mark.label} ${UNITS[across ? "ms" : chart.unit](mark.value)}`;
      labels.push([text, x, y, ctx.textAlign, ctx.fillStyle]);
    });
    ctx.setLineDash([]);
    ctx.lineWidth = 4 * ratio;
    ctx.strokeStyle = palette.paper; // around the letters, so that they can be read before anything
    for (const [text, x, y, align, ink] of labels) {
      ctx.textAlign = align;
      ctx.fillStyle = ink;
      ctx.strokeText(text, x, y);
      ctx.fillText(text, x, y);
    }
    ctx.restore();
  };

  // A point between two gaps is no line.
  const lonely = (plot, series) => {
    const values = plot.data[series];
    const is = (place) => values[place] !== null && values[place] !== undefined;
    const found = [];
    values.forEach((_, place) => is(place) && !is(place - 1) && !is(place + 1) && found.push(place));
    return found;
  };

  // The top of a scale: above all values, and above what targets are not far off.
  const upTo = (chart) => (plot, low, high) => {
    if (chart.kind === "histogram") return [0, high * 1.4]; // with room for the labels of the lines
    const near = chart.marks.filter((mark) => mark.value <= 2.5 * high);
    const top = Math.max(high || 0, ...near.map((mark) => mark.value));
    return [0, top > 0 ? top * 1.12 : 1];
  };

  // Bars are stacked by drawing the sums up to each series, the highest first. The legend tells the values themselves.
  const drawn = (chart) => {
    const series = chart.series.map(({ values }) => values);
    if (chart.kind !== "stack") return [chart.x, ...series];
    const sums = [];
    series.forEach((values, place) => {
      const below = sums[place - 1];
      sums.push(values.map((value, step) => (value === null && !below?.[step] ? null : value + (below?.[step] ?? 0))));
    });
    return [chart.x, ...sums.reverse()];
  };

  // What the legend tells while nothing is pointed at: of a histogram all there is, else what came last.
  const idle = (chart, { values }) =>
    chart.kind === "histogram" ? values.reduce((sum, value) => sum + value, 0) : values[values.length - 1];

  const seriesOf = (chart, palette) => {
    const stacked = chart.kind === "stack";
    const all = chart.series.map((series, place) => {
      const colour = palette.series[place % palette.series.length];
      const look = {
        label: series.label,
        stroke: colour,
        value: (plot, _, __, step) => {
          const value = step === null ? idle(chart, series) : series.values[step];
          return value === null ? "-" : UNITS[chart.unit](value);
        },
      };
      if (chart.kind === "lines") return { ...look, width: 1.75, points: { filter: lonely, size: 5, fill: colour } };
      const bars = uPlot.paths.bars({ size: [stacked ? 0.86 : 0.94, Infinity], align: 1 });
      return { ...look, fill: colour, width: 0, paths: bars, points: { show: false } };
    });
    return stacked ? all.reverse() : all;
  };

  const optionsOf = (chart, palette, width) => {
    const histogram = chart.kind === "histogram";
    const last = chart.x[chart.x.length - 1];
    const range = [chart.x[0], histogram ? last * chart.step : last + chart.step];
    const at = (plot, _, __, step) => moment(chart.x[step ?? chart.x.length - 1]);
    const bin = (plot, _, __, step) =>
      step === null ? "all" : `${UNITS.ms(chart.x[step])} to ${UNITS.ms(chart.x[step] * chart.step)}`;
    const x = histogram
      ? { splits: roundTimes(...range), filter: (_, splits) => splits, values: (_, splits) => splits.map(shortTime), size: 26 }
      : { values: timeLabels, space: LABEL, size: 38 };
    return {
      width,
      height: HEIGHT,
      ms: 1e-3,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: histogram ? { time: false, distr: 3, range } : { range },
        y: { range: upTo(chart) },
      },
      axes: [
        axis(palette, x),
        axis(palette, { size: AXIS, values: labelsIn(chart.unit) }),
      ],
      series: [{ label: histogram ? "bin" : "at", value: histogram ? bin : at }, ...seriesOf(chart, palette)],
      cursor: { drag: { x: false, y: false }, points: { show: chart.kind === "lines" }, ...(histogram ? {} : { sync: { key: "time" } }) },
      hooks: { draw: [drawMarks(chart, palette)] },
    };
  };

  const place = (chart, palette) => {
    const home = document.querySelector(`[data-chart="${chart.id}"]`);
    if (!home) return;
    plots.get(chart.id)?.plot?.destroy();
    home.hidden = chart.empty;
    home.classList.toggle("slo-fixed", chart.kind !== "lines"); // of a stack no series can be hidden
    const plot = chart.empty ? null : new uPlot(optionsOf(chart, palette, home.clientWidth), drawn(chart), home);
    plots.set(chart.id, { plot, home });
  };

  const read = () => JSON.parse(document.getElementById("chart-data").textContent);

  // Everything anew, in the colours of now.
  const draw = () => {
    const palette = colours();
    read().forEach((chart) => place(chart, palette));
  };

  const resize = () =>
    plots.forEach(({ plot, home }) => plot?.setSize({ width: home.clientWidth, height: HEIGHT }));

  draw();
  new ResizeObserver(resize).observe(document.querySelector(".slo-charts"));
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("refreshed", draw);
})();
