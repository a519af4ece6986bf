// The list of VMs: search, sort, filter, some at a time.

import { h, choice, head, section, text, keyed, fill, name, vmPath, clean, busy } from './dom.js';
import { complaint, watch } from './live.js';
import { remember } from './history.js';
import { Pager } from './pager.js';
import { spark, largest } from './spark.js';
import { slaBar, hasSLA, slaLegend } from './sla.js';
import { glossary } from './terms.js';
import { pps, bits, natural, si } from './format.js';

const rowsAtOnce = 50;
const settled = 10e3; // milliseconds for which rows keep their order, so that nothing jumps under a pointer

const filters = {
  all: ['all', () => true],
  vf: ['on a VF', (v) => v.vf],
  virtio: ['on virtio', (v) => !v.vf],
  waiting: ['should hold a VF but have none', (v) => v.should_hold && !v.vf],
  moving: ['being moved', (v) => v.under_way],
  short: ['short of their guarantee', (v, shares) => shares.some((x) => x.short_bits_per_second > 0)],
  takes: ['that take what others lack', (v, shares) => shares.some((x) => x.takes_bits_per_second > 0)],
  sla: ['with an SLA', (v, shares) => shares.some(hasSLA)],
  veto: ['that cannot be moved', (v) => v.code === 'veto'],
  unknown: ['whose load is unknown', (v) => v.state === 'running' && !v.load_known],
  override: ['pinned or released by hand', (v) => v.override],
};

const sorts = {
  load: ['load', (a, b) => loadOf(b) - loadOf(a)],
  name: ['name', (a, b) => natural(a.domain, b.domain)],
  score: ['score', (a, b) => (b.score ?? 0) - (a.score ?? 0)],
  path: ['path', (a, b) => natural(a.vf || '~', b.vf || '~')],
};

// columns are the titles, each with the sort that its button chooses, if any. For the others of `sorts` there is the list above.
const columns = [['VM', 'name'], ['Path', 'path'], ['Load', 'load'], ['Last hour'], ['Why'], ['Sends']];
const falling = ['load', 'score']; // the largest first

const loadOf = (v) => (v.load_known ? v.packets_per_second : -1);

// parts of a row that are brought up to date, by class.
function create(v) {
  const part = (tag, kind, label) => h(tag, { class: kind, 'data-label': label });
  const cells = {
    name: h('th', { scope: 'row' }), path: part('td', 'path', 'Path'), load: part('td', 'load', 'Load'), spark: part('td', 'spark-cell', 'Last hour'), why: part('td', 'why', 'Why'), sla: part('td', 'sla-cell', 'Sends'),
  };
  const tr = h('tr', null, Object.values(cells));
  tr.cells_ = cells;
  fill(cells.why, h('details', null, h('summary'), h('p')));
  fill(cells.name, h('div', { class: 'line' }, h('a', { href: vmPath(v.uuid), data: { key: `vm ${v.uuid}` } }, name(v.domain)), h('small', { class: 'state' })));
  return tr;
}

function stateOf(v, functions) {
  return [v.state !== 'running' && v.state, v.class, v.override && `⚑ ${v.override}`, functions && `${functions} virtual VFs`].filter(Boolean).join(' · ');
}

function update(tr, v, seen) {
  const c = tr.cells_;
  const shares = seen.shares.get(v.uuid) ?? [];
  const memory = seen.memory?.vms.get(v.uuid);
  const changed = (cell, key, make) => {
    if (cell.key === key) return;
    cell.key = key;
    fill(cell, make());
  };
  text(c.name.firstChild.lastChild, stateOf(v, seen.functions.get(v.uuid)));
  changed(c.path, [v.vf, v.under_way, v.should_hold].join(), () => h('div', { class: 'line' }, v.vf ? h('span', { class: 'on vf' }, v.vf) : h('span', { class: 'on virtio' }, 'virtio'), v.under_way && h('small', null, `↻ ${v.under_way}`)));
  const load = v.load_known ? [pps(v.packets_per_second), bits(v.bytes_per_second * 8)] : ['unknown', ''];
  changed(c.load, load.join(), () => h('div', { class: 'line' }, h('span', null, load[0]), h('small', null, load[1])));
  const [summary, sentence] = c.why.firstChild.children; // they stay, so that an open row stays open
  text(summary, v.why_short || 'nothing is decided yet');
  text(sentence, `${v.why ?? ''}${v.score ? `, score ${si(v.score)}` : ''}`);
  changed(c.sla, JSON.stringify(shares.map((x) => [x.sent, x.guarantee, x.allowed, x.limit, x.short_bits_per_second, x.takes_bits_per_second, x.short_bits_per_second && seen.shortages.get(x.pf)?.takers[0]])), () => shares.slice(0, 2).map((x) => slaBar(x, seen.shortages.get(x.pf))));
  changed(c.spark, seen.memory ? `${seen.memory.to} ${Boolean(memory)}` : '', () => memory && spark(memory, `Load over the last hour, at most ${pps(largest(memory.virtio_packets_per_second, memory.vf_packets_per_second))}`));
}

const option = ([value, [words]]) => h('option', { value }, words);

// kept is what was chosen, in the address, so that going back and sharing the link keep it.
function kept() {
  const query = new URLSearchParams(location.search);
  const pick = (key, table, other) => (Object.hasOwn(table, query.get(key)) ? query.get(key) : other);
  return { search: query.get('q') ?? '', filter: pick('show', filters, 'all'), sort: pick('sort', sorts, 'load'), reverse: query.has('reverse') };
}

function keep(state) {
  const query = new URLSearchParams();
  if (state.search) query.set('q', state.search);
  if (state.filter !== 'all') query.set('show', state.filter);
  if (state.sort !== 'load') query.set('sort', state.sort);
  if (state.reverse) query.set('reverse', '1');
  const words = query.toString();
  history.replaceState(null, '', location.pathname + (words ? `?${words}` : '') + location.hash);
}

export function vms() {
  const state = kept();
  const seen = { vms: [], shares: new Map(), shortages: new Map(), functions: new Map(), memory: null };
  let order = null;
  let ordered = 0;
  const body = h('tbody');
  const table = h('table', { class: 'list vm-list' }, h('caption', { class: 'sr' }, 'Virtual machines'),
    head(columns.map(([title, key]) => (key ? h('button', { type: 'button', class: 'sort', onclick: () => turn(key) }, title) : title))), body);
  const note = h('p', { class: 'none', role: 'status', hidden: true });
  const legend = slaLegend();
  const none = h('p', { class: 'none', hidden: true });

  const matches = (v) => {
    const words = state.search.toLowerCase();
    const shares = seen.shares.get(v.uuid) ?? [];
    return filters[state.filter][1](v, shares) && (!words || [v.domain, v.uuid, v.vf ?? '', v.mac ?? '', v.network ?? '', v.class ?? '', v.why ?? ''].some((x) => clean(x).toLowerCase().includes(words)));
  };
  const sort = (now) => {
    if (order?.size && !now && (performance.now() - ordered < settled || busy(body))) return;
    ordered = performance.now();
    const compare = sorts[state.sort][1];
    order = new Map(seen.vms.toSorted((a, b) => (state.reverse ? compare(b, a) : compare(a, b))).map((v, i) => [v.uuid, i]));
  };
  const draw = (now) => {
    sort(now);
    const place = (v) => order.get(v.uuid) ?? Infinity;
    const rows = seen.vms.filter(matches).sort((a, b) => place(a) - place(b));
    table.hidden = !rows.length;
    legend.hidden = !rows.length;
    pager.element.hidden = !seen.known;
    none.hidden = !seen.known || rows.length > 0;
    text(none, seen.vms.length ? 'No VM is like that.' : 'There are no VMs on this host.');
    keyed(body, pager.cut(rows), (v) => v.uuid, create, (tr, v) => update(tr, v, seen));
  };
  const tell = () => columns.forEach(([, key], i) => {
    const th = table.tHead.rows[0].cells[i];
    if (key === state.sort) th.setAttribute('aria-sort', falling.includes(key) === state.reverse ? 'ascending' : 'descending');
    else th.removeAttribute('aria-sort');
  });
  const stacked = matchMedia('(max-width: 720px)'); // titles are out of sight there, as parts.css has it, so the tab key passes them by
  const reach = () => { for (const button of table.tHead.querySelectorAll('button')) button.tabIndex = stacked.matches ? -1 : 0; };
  stacked.addEventListener('change', reach);
  const again = () => { pager.at = 0; keep(state); tell(); draw(true); };
  const choose = (key) => (e) => {
    state[key] = e.target.value;
    if (key === 'sort') state.reverse = false;
    again();
  };
  const turn = (key) => { // a column sorts by itself, and the other way round when it is pressed again
    state.reverse = key === state.sort && !state.reverse;
    by.value = state.sort = key;
    again();
  };
  const pager = new Pager(rowsAtOnce, 'VMs', () => { draw(true); part.scrollIntoView({ block: 'start' }); });
  const search = h('input', { type: 'search', value: state.search, placeholder: 'Name, VF, MAC, class, reason …', 'aria-label': 'Search VMs', oninput: choose('search') });
  const show = h('select', { onchange: choose('filter') }, Object.entries(filters).map(option));
  const by = h('select', { onchange: choose('sort') }, Object.entries(sorts).map(option));
  show.value = state.filter;
  by.value = state.sort;
  tell();
  reach();
  const tools = h('div', { class: 'tools' }, search, choice('Show', show), choice('Sorted by', by));
  const part = section('vms', 'Virtual machines', null, tools, note, none, table, legend, pager.element, glossary());
  part.dataset.short = 'VMs';
  addEventListener('keyup', (e) => {
    if (e.key !== '/' || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
    part.scrollIntoView({ block: 'start' });
    search.focus({ preventScroll: true });
  });
  search.setAttribute('aria-keyshortcuts', '/');

  watch(part, '/v1/vms', (list) => { seen.vms = list; seen.known = true; note.hidden = true; draw(); }, { every: 1000, failed: (err) => { note.hidden = false; text(note, complaint(err)); } });
  watch(part, '/v1/bandwidth', (b) => { seen.shares = Map.groupBy(b.nics, (x) => x.uuid); seen.shortages = new Map(b.links.map((l) => [l.pf, l.shortage])); draw(); }, { every: 1000 });
  watch(part, '/v1/vpf', (list) => { seen.functions = new Map(list.map((p) => [p.uuid, p.functions.length - 1])); draw(); }, { every: 2000 });
  remember(part, (m) => { seen.memory = m; draw(); });
  return part;
}
