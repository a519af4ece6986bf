// The last hour as the daemon remembers it: fetched once, and then what was added.

import { watch } from './live.js';
import { moment } from './format.js';

const hour = 3600e3;

// Memory has the series of every VM and link, each as long as the hour so far, the holdings, and the moves.
class Memory {
  constructor() { this.clear(); }

  clear() {
    Object.assign(this, { from: NaN, to: NaN, now: NaN, step: 10e3, length: 0, vms: new Map(), links: new Map(), holdings: new Map(), moves: new Map(), dropped: 0 });
  }

  get query() { return Number.isFinite(this.to) ? `?from=${encodeURIComponent(new Date(this.to).toISOString())}` : ''; }

  add(answer) {
    const from = moment(answer.from);
    const to = moment(answer.to);
    this.step = answer.step_seconds * 1e3;
    this.dropped = answer.moves_dropped ?? 0;
    const more = Math.round((to - from) / this.step);
    if (more > 0) this.extend(answer, from, to, more);
    this.now = Math.max(to, Number.isFinite(this.to) ? this.to : to);
    for (const h of answer.holdings) this.holdings.set(`${h.vf} ${h.from}`, { ...h, begin: moment(h.from), end: moment(h.to) });
    for (const m of answer.moves) this.moves.set(m.id, m);
    this.forget();
  }

  extend(answer, from, to, more) {
    if (!Number.isFinite(this.to)) this.from = this.to = from;
    const gap = Math.max(0, Math.round((from - this.to) / this.step));
    const put = (series, values) => {
      while (series.length < this.length + gap) series.push(null);
      for (let i = 0; i < more; i++) series.push(values?.[i] ?? null);
    };
    const seen = new Set();
    for (const v of answer.vms) {
      seen.add(v.uuid);
      let mine = this.vms.get(v.uuid);
      if (!mine) this.vms.set(v.uuid, mine = { uuid: v.uuid, virtio_packets_per_second: [], vf_packets_per_second: [] });
      mine.domain = v.domain;
      mine.gone = v.gone;
      put(mine.virtio_packets_per_second, v.virtio_packets_per_second);
      put(mine.vf_packets_per_second, v.vf_packets_per_second);
    }
    for (const l of answer.links) {
      let mine = this.links.get(l.pf);
      if (!mine) this.links.set(l.pf, mine = { pf: l.pf, sent: [] });
      put(mine.sent, l.sent_bits_per_second);
    }
    this.length += gap + more;
    this.to = to;
    for (const v of this.vms.values()) if (!seen.has(v.uuid)) v.gone = true;
    for (const list of this.series()) while (list.length < this.length) list.push(null);
  }

  * series() {
    for (const v of this.vms.values()) yield* [v.virtio_packets_per_second, v.vf_packets_per_second];
    for (const l of this.links.values()) yield l.sent;
  }

  // forget drops what is more than an hour old; for a move without a known end its start counts.
  forget() {
    const excess = this.length - Math.round(hour / this.step);
    if (excess > 0) {
      for (const list of this.series()) list.splice(0, excess);
      this.length -= excess;
      this.from += excess * this.step;
      for (const [id, v] of this.vms) if (v.gone && [...v.virtio_packets_per_second, ...v.vf_packets_per_second].every((x) => x === null)) this.vms.delete(id);
    }
    for (const [key, h] of this.holdings) if (h.end <= this.from) this.holdings.delete(key);
    for (const [id, m] of this.moves) if (moment(m.move.ended ?? m.move.started) <= this.from) this.moves.delete(id);
  }

  // times of the steps' ends, in seconds, as charts want them.
  get times() { return Array.from({ length: this.length }, (_, i) => (this.from + (i + 1) * this.step) / 1e3); }
}

const memory = new Memory();
addEventListener('again', () => memory.clear());

let answered;

// remember calls read with the Memory while the element is in sight and there is more of it.
export function remember(element, read, failed) {
  watch(element, () => `/v1/history${memory.query}`, (answer) => {
    if (answer !== answered) {
      answered = answer;
      memory.add(answer);
    }
    read(memory);
  }, { key: 'history', every: 2000, failed });
}
