// Errors, problems and findings, each with its remedy.

import { h, fill, name, prose, section } from './dom.js';
import { watch } from './live.js';
import { count } from './format.js';

const few = 6;
const named = 5; // subjects that an entry names at once

const kinds = {
  problem: { mark: '▲', label: 'Problem' },
  finding: { mark: '◆', label: 'Misconfigured' },
  info: { mark: 'i', label: 'Information' },
};

function gather(doctor, fsck) {
  const list = [];
  for (const p of doctor?.problems ?? []) list.push({ kind: p.info ? 'info' : 'problem', subject: p.subject, text: p.text, remedy: p.remedy ?? '' });
  for (const f of fsck?.findings ?? []) {
    let remedy = f.remedy ?? '';
    if (f.repair?.length) remedy = f.repairing ? 'being repaired' : 'repair it with `sluice fsck --repair`';
    if (f.last_error) remedy += `; the last repair failed: ${f.last_error}`;
    list.push({ kind: 'finding', subject: f.subject, text: f.text, remedy });
  }
  const order = Object.keys(kinds);
  return grouped(list).sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}

// grouped joins entries that differ only in their subject.
function grouped(list) {
  const groups = new Map();
  for (const t of list) {
    const general = (s) => (t.subject ? s.replaceAll(t.subject, '…') : s);
    const key = [t.kind, general(t.text), general(t.remedy)].join('\n');
    const g = groups.get(key);
    if (g) g.subjects.push(t.subject);
    else groups.set(key, { ...t, subjects: [t.subject] });
  }
  return [...groups.values()];
}

function item(t) {
  const { mark, label } = kinds[t.kind];
  const all = t.subjects.length <= named ? t.subjects : t.subjects.slice(0, 1);
  const others = t.subjects.slice(all.length);
  return h('li', { class: `trouble ${t.kind}` },
    h('span', { class: 'mark', role: 'img', 'aria-label': label, title: label }, mark),
    h('div', null,
      h('p', null, t.subject && [all.map((x, i) => [i > 0 && ', ', h('b', null, name(x))]), ' '], prose(t.text, t.subject)),
      others.length > 0 && h('details', null, h('summary', { data: { key: `others ${t.text}` } }, `and ${count(others.length, 'other')}`), h('p', { class: 'names' }, others.map((o) => [name(o), ' ']))),
      t.remedy && h('p', { class: 'remedy' }, prose(t.remedy, t.subject))));
}

export function troubles() {
  const list = h('ul', { class: 'troubles' });
  const more = h('button', { type: 'button', class: 'more' });
  const none = h('p', { class: 'none' }, h('span', { class: 'good' }, '✓'), ' Nothing prevents moves, and nothing is misconfigured.');
  const part = section('troubles', 'Troubles', null, none, list, more);
  const seen = {};
  let all = false;
  let before = '';
  const draw = () => {
    const found = gather(seen.doctor, seen.fsck);
    const now = JSON.stringify([found, all, Boolean(seen.doctor && seen.fsck)]);
    if (now === before) return; // open details stay open
    before = now;
    none.hidden = found.length > 0 || !seen.doctor || !seen.fsck;
    fill(list, (all ? found : found.slice(0, few)).map(item));
    more.hidden = found.length <= few;
    more.textContent = all ? 'Show fewer' : `Show all ${found.length}`;
  };
  more.hidden = none.hidden = true; // all is well only once both have said so
  more.addEventListener('click', () => { all = !all; draw(); });
  for (const path of ['doctor', 'fsck']) watch(part, `/v1/${path}`, (data) => { seen[path] = data; draw(); }, { every: 1000 });
  return part;
}

