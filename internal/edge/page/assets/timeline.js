// Holders of VFs over time: a row for each VF, or each VM, with the load behind it and the moves on it.

import { h, s, choice, fill, name, section, vmPath, hold, heldNote, show } from './dom.js';
import { complaint } from './live.js';
import { remember } from './history.js';
import { Pager } from './pager.js';
import { line, area, largest } from './spark.js';
import { moment, shortClock, clock, count, natural, pps, shortPPS } from './format.js';
import { showMove, outcome } from './move.js';
import { moveRow, moveTable } from './moves.js';

const hour = 3600e3;
const rowsAtOnce = 24;

// frame is the time that is shown: always an hour, which ends now.
const frame = (m) => ({ from: m.now - hour, to: m.now });
const share = (t, f) => Math.max(0, Math.min(1, (t - f.from) / hour));
const percent = (x) => `${(x * 100).toFixed(3)}%`;

function axis(f) {
  const step = 600e3;
  const first = Math.ceil(f.from / step) * step;
  const ticks = [];
  for (let t = first; t < f.to; t += step) ticks.push(h('span', { style: { left: percent(share(t, f)) } }, shortClock(t)));
  return ticks;
}

function span(x, f, label) {
  const left = share(x.begin, f);
  const right = Number.isFinite(x.end) ? share(x.end, f) : 1;
  const words = `${label}, ${x.begin <= f.from ? 'since before' : clock(x.begin)} to ${Number.isFinite(x.end) ? clock(x.end) : 'now'}`;
  return h('div', { class: `span ${x.owner}`, title: words, style: { left: percent(left), width: percent(Math.max(right - left, 0.002)) } }, h('span', { class: 'span-name' }, name(label)));
}

const marks = { plug: '▲', unplug: '▼', repair: '■' };

function mark(record, left) {
  const m = record.move;
  const words = `${clock(moment(m.started))}: ${m.kind} ${m.domain ?? ''} ${m.vf}, ${outcome(m)}`;
  return h('button', { type: 'button', class: `mark ${m.kind}${m.error ? ' failed' : ''}`, style: { left }, 'aria-label': words, title: words, data: { key: `move ${record.id}` }, onclick: () => showMove(record) },
    m.error ? '✕' : marks[m.kind] ?? '■');
}

// many is one mark for moves whose own would cover each other: it lists them.
function many(records, left) {
  const failed = records.filter((r) => r.move.error).length;
  const words = `${count(records.length, 'move')} from ${clock(moment(records[0].move.started))} to ${clock(moment(records.at(-1).move.started))}${failed ? `, ${failed} failed` : ''}`;
  return h('button', { type: 'button', class: `mark many${failed ? ' failed' : ''}`, style: { left }, 'aria-label': words, title: words, data: { key: `move ${records[0].id}` }, onclick: () => show(words, moveTable(h('tbody', null, records.map(moveRow)))) },
    records.length > 99 ? '…' : String(records.length));
}

// markShift is how far a mark is moved from its time, in its own widths: a VF that changes hands has two marks at one time.
const markShift = { plug: 0, unplug: -1 };

// marksOf puts the marks of a row on a track of so many pixels, each as wide as size. No two cover each other.
function marksOf(records, f, width, size) {
  const place = (m) => Math.max(0, Math.min(width - size, share(moment(m.started), f) * width + size * (markShift[m.kind] ?? -0.5)));
  const groups = [];
  for (const r of records.toSorted((a, b) => place(a.move) - place(b.move))) {
    const left = place(r.move);
    const last = groups.at(-1);
    if (last && left < last.left + size - 0.5) last.records.push(r);
    else groups.push({ left, records: [r] });
  }
  return groups.map((g) => {
    const left = percent(g.left / width);
    return g.records.length > 1 ? many(g.records.sort((a, b) => moment(a.move.started) - moment(b.move.started)), left) : mark(g.records[0], left);
  });
}

// picture is the load behind a row. Its series end at the last step that is over.
function picture(m, f, vf, virtio, label) {
  const n = Math.max(vf?.length ?? 0, virtio?.length ?? 0);
  if (n < 2) return null;
  const most = largest(vf, virtio);
  const left = share(m.from, f);
  const right = share(m.to, f);
  return s('svg', { class: 'load-behind', viewBox: '0 0 100 24', preserveAspectRatio: 'none', role: 'img', 'aria-label': label, style: { left: percent(left), width: percent(right - left) } },
    vf && s('path', { class: 'vf-area', d: area(vf, most, n) }), virtio && s('path', { class: 'virtio-line', d: line(virtio, most, n) }));
}

// onVF is what a VF carried: what its holders moved while they held it.
function onVF(m, holdings) {
  const list = new Array(m.length).fill(null);
  for (const x of holdings) {
    const load = m.vms.get(x.uuid)?.vf_packets_per_second;
    if (!load) continue;
    const first = Math.max(0, Math.floor((x.begin - m.from) / m.step));
    const last = Number.isFinite(x.end) ? Math.min(m.length, Math.ceil((x.end - m.from) / m.step)) : m.length;
    for (let i = first; i < last; i++) if (load[i] !== null) list[i] = Math.max(list[i] ?? 0, load[i]);
  }
  return list;
}

function byVF(m, moves) {
  const held = Map.groupBy([...m.holdings.values()], (x) => x.vf);
  const moved = Map.groupBy(moves, (r) => r.move.vf);
  const all = [...new Set([...held.keys(), ...moved.keys()])].filter(Boolean).sort(natural);
  return all.map((vf) => ({ key: vf, label: vf, spans: held.get(vf) ?? [], moves: moved.get(vf) ?? [], says: (x) => x.domain || x.uuid || 'somebody else', loads: (row) => [onVF(m, row.spans), null] }));
}

function byVM(m, moves) {
  const held = Map.groupBy([...m.holdings.values()].filter((x) => x.uuid), (x) => x.uuid);
  const moved = Map.groupBy(moves.filter((r) => r.move.uuid), (r) => r.move.uuid);
  const label = (id) => m.vms.get(id)?.domain ?? held.get(id)?.[0].domain ?? moved.get(id)?.[0].move.domain ?? id;
  const all = [...new Set([...held.keys(), ...moved.keys(), ...m.vms.keys()])].map((id) => [id, label(id)]).sort((a, b) => natural(a[1], b[1]));
  return all.map(([id, text]) => ({
    key: id, label: text, href: vmPath(id), spans: held.get(id) ?? [], moves: moved.get(id) ?? [], says: (x) => x.vf,
    loads: () => [m.vms.get(id)?.vf_packets_per_second, m.vms.get(id)?.virtio_packets_per_second],
  }));
}

function row(m, f, r, width, size) {
  const [vf, virtio] = r.loads(r);
  const peak = largest(vf, virtio);
  const title = name(r.label);
  return h('li', { class: 'time-row' },
    h('div', { class: 'time-label' }, r.href ? h('a', { href: r.href, data: { key: `row ${r.key}` } }, title) : title, h('small', { title: 'highest rate in the hour' }, peak ? shortPPS(peak) : '')),
    h('div', { class: 'time-track' }, r.spans.map((x) => span(x, f, r.says(x))), picture(m, f, vf, virtio, `Load of ${r.label} over the last hour, at most ${pps(peak)}`), marksOf(r.moves, f, width, size)));
}

// rove makes all marks of the list one stop of the tab key: the arrow keys, Home and End lead from one to another.
function rove(list) {
  const marks = () => [...list.querySelectorAll('.mark')];
  const only = (mark) => { for (const m of marks()) m.tabIndex = m === mark ? 0 : -1; };
  list.addEventListener('focusin', (e) => { if (e.target.matches('.mark')) only(e.target); });
  list.addEventListener('keydown', (e) => {
    const all = marks();
    const at = all.indexOf(e.target);
    if (at < 0) return;
    const x = (m) => m.getBoundingClientRect().left;
    const row = (m) => m.closest('.time-row');
    const nearest = (rows) => rows.filter((m) => row(m) === row(rows[0])).toSorted((a, b) => Math.abs(x(a) - x(e.target)) - Math.abs(x(b) - x(e.target)))[0];
    const to = {
      ArrowRight: () => all[at + 1], ArrowLeft: () => all[at - 1], Home: () => all[0], End: () => all.at(-1),
      ArrowDown: () => nearest(all.slice(at).filter((m) => row(m) !== row(e.target))), ArrowUp: () => nearest(all.slice(0, at).filter((m) => row(m) !== row(e.target)).reverse()),
    }[e.key]?.();
    if (!to) return;
    e.preventDefault();
    to.focus();
  });
  return () => only(marks().find((m) => m === document.activeElement) ?? marks()[0]);
}

const legend = () => h('p', { class: 'legend' },
  h('span', null, h('i', { class: 'key-span' }), 'VF held'), h('span', null, h('i', { class: 'key-foreign' }), 'held by somebody else'), h('span', null, h('i', { class: 'key-vf' }), 'packets on the VF'),
  h('span', null, h('i', { class: 'key-virtio' }), 'packets on virtio'), h('span', null, '▲ plug'), h('span', null, '▼ unplug'), h('span', null, '■ repair'), h('span', { class: 'bad' }, '✕ failed'), h('span', null, h('i', { class: 'key-many' }, '2'), 'several moves'));

const select = (label, options, changed) => choice(label,
  h('select', { onchange: (e) => changed(e.target.value) }, options.map(([value, words]) => h('option', { value }, words))));

export function timeline() {
  const state = { rows: 'vf', only: 'changed', repairs: false };
  let memory = null;
  const head = h('div', { class: 'time-axis', 'aria-hidden': 'true' });
  const list = h('ol', { class: 'time-rows', 'aria-label': 'Holders of VFs over time' });
  const oneStop = rove(list);
  const note = h('p', { class: 'none', role: 'status' });
  const held = heldNote();
  const draw = () => {
    if (!memory) return;
    const style = getComputedStyle(list);
    const size = parseFloat(style.getPropertyValue('--mark'));
    const width = Math.max(size, list.clientWidth - parseFloat(style.getPropertyValue('--label')));
    const f = frame(memory);
    const moves = [...memory.moves.values()].filter((r) => state.repairs || r.move.kind !== 'repair');
    let all = (state.rows === 'vf' ? byVF : byVM)(memory, moves);
    const changed = all.filter((r) => r.moves.length || r.spans.length > 1);
    if (state.only === 'changed' && changed.length) all = changed;
    note.hidden = all.length > 0;
    note.textContent = 'No VF was held during the last hour.';
    fill(head, axis(f));
    fill(list, pager.cut(all).map((r) => row(memory, f, r, width, size)));
    oneStop();
  };
  const set = (key) => (value) => { state[key] = value; pager.at = 0; rows.now(); };
  const rows = hold(list, held, draw);
  const pager = new Pager(rowsAtOnce, 'rows', rows.now);
  const tools = h('div', { class: 'tools' },
    select('Rows', [['vf', 'by VF'], ['vm', 'by VM']], set('rows')), select('Show', [['changed', 'where something changed'], ['all', 'all']], set('only')),
    h('label', { class: 'choice' }, h('input', { type: 'checkbox', onchange: (e) => set('repairs')(e.target.checked) }), h('span', null, 'with repairs')));
  const part = section('timeline', 'Holders of VFs over time', 'The last hour; click a mark for the move, its Steps and its reason. By keyboard, the arrows lead from mark to mark.', tools, legend(), note, h('div', { class: 'time-frame' }, head, list), held, pager.element);
  part.dataset.short = 'Timeline';
  let wide = 0;
  new ResizeObserver(() => { if (list.clientWidth !== wide) rows.now(); wide = list.clientWidth; }).observe(list);
  remember(part, (m) => { memory = m; rows.news(); }, (err) => { note.hidden = false; note.textContent = complaint(err); });
  return part;
}

