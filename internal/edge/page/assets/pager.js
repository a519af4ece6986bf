// Some rows at a time, with buttons for the others.

import { h, text } from './dom.js';

export class Pager {
  constructor(size, what, changed) {
    Object.assign(this, { size, what, at: 0, total: 0 });
    const step = (by) => () => { this.at += by; this.bound(); changed(); };
    this.back = h('button', { type: 'button', onclick: step(-1) }, '‹ Previous');
    this.next = h('button', { type: 'button', onclick: step(1) }, 'Next ›');
    this.words = h('span', { role: 'status' });
    this.element = h('div', { class: 'pager' }, this.back, this.words, this.next);
  }

  bound() {
    this.at = Math.max(0, Math.min(this.at, Math.ceil(this.total / this.size) - 1));
  }

  // cut is the part of the rows that is shown.
  cut(rows) {
    this.total = rows.length;
    this.bound();
    const from = this.at * this.size;
    const to = Math.min(rows.length, from + this.size);
    this.back.disabled = this.at === 0;
    this.next.disabled = to >= rows.length;
    this.element.classList.toggle('single', rows.length <= this.size);
    text(this.words, rows.length ? `${from + 1}–${to} of ${rows.length.toLocaleString('en')} ${this.what}` : `no ${this.what}`);
    return rows.slice(from, to);
  }
}
