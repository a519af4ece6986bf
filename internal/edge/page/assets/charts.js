// Charts of load over the last hour, by uPlot.

import { h } from './dom.js';
import { daemon } from './live.js';
import { shortClock, clock, pps, shortPPS } from './format.js';

const probe = h('i', { hidden: true });

// colour is what a variable of the style sheet is at the moment: a canvas knows no variables.
function colour(variable, alpha = 1) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${variable})`;
  const c = getComputedStyle(probe).color;
  return alpha === 1 ? c : c.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

function axes(unit) {
  const short = unit === pps ? shortPPS : unit;
  const look = { stroke: () => colour('--dim'), grid: { stroke: () => colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return [
    { ...look, values: (u, ticks) => ticks.map((t) => shortClock(t * 1e3)), space: 70, size: 26 },
    { ...look, values: (u, ticks) => ticks.map((v) => short(v)), size: 84, space: 34 },
  ];
}

// Chart draws series of one unit in an element, as wide as that is. Each series has a label, the variable of its colour, and
// a dash or a fill, so that it is told apart without colours too; over tells that there is nothing of it now.
export class Chart {
  constructor(element, label, unit, { height = 190 } = {}) {
    Object.assign(this, { element, unit, height, plot: null, key: '' });
    element.setAttribute('role', 'img');
    element.setAttribute('aria-label', label);
    this.label = label;
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(element);
    addEventListener('colours', () => this.plot?.redraw(false, false));
    for (const e of ['lost', 'again']) addEventListener(e, () => this.tell());
  }

  // tell brings the figures below the chart up to date.
  tell() { this.plot?.setLegend({ idx: null }); }

  size() { return { width: Math.max(200, this.element.clientWidth), height: this.height }; }

  draw(times, series, summary) {
    const data = [times, ...series.map((x) => x.values)];
    const key = series.map((x) => x.label).join('\n');
    if (this.plot && key === this.key) this.plot.setData(data);
    else this.make(data, series);
    this.key = key;
    if (summary) this.element.setAttribute('aria-label', `${this.label}. ${summary}`);
  }

  make(data, series) {
    this.plot?.destroy();
    const unit = (v) => (v === null || v === undefined ? '–' : this.unit(v));
    const last = (u, i) => u.data[i]?.at(-1); // where no pointer chooses a time
    this.plot = new uPlot({ // eslint-disable-line no-undef
      ...this.size(), padding: [8, 20, 0, 0], cursor: { y: false, points: { size: 5 }, drag: { x: false, y: false } }, legend: { live: true },
      scales: { y: { range: (u, min, max) => [0, (max || 1) * 1.08] } },
      axes: axes(this.unit),
      series: [{ label: 'Time', value: (u, v) => (v ? clock(v * 1e3) : daemon.gone ? clock(last(u, 0) * 1e3) : 'now') }, ...series.map((x) => ({
        label: x.label, value: (u, v, i, at) => unit(at === null || at === undefined ? (x.over?.() ? null : last(u, i)) : v), width: 1.6, dash: x.dash, points: { show: false }, spanGaps: false,
        stroke: () => colour(x.colour), fill: x.fill ? () => colour(x.colour, x.fill) : undefined,
      }))],
    }, data, this.element);
    this.plot.root.querySelector('.u-legend').setAttribute('aria-hidden', 'true'); // the label says it
  }
}
