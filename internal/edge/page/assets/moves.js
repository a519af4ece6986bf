// The moves of the last hour as a list.

import { h, choice, fill, head, section, scroller, name, vmPath, hold, heldNote } from './dom.js';
import { remember } from './history.js';
import { Pager } from './pager.js';
import { showMove, outcome } from './move.js';
import { moment, clock } from './format.js';
import { glossary } from './terms.js';

const rowsAtOnce = 12;

const filters = {
  moves: ['plugs and unplugs', (m) => m.kind !== 'repair'],
  failed: ['that failed', (m) => Boolean(m.error)],
  repairs: ['repairs', (m) => m.kind === 'repair'],
  all: ['all', () => true],
};

// because is what a move was due to: what the policy decided in its own words, or what made it change.
const because = (record) => (record.move.cause && record.move.cause.kind !== 'policy' ? record.move.cause.text : record.sentence || record.move.why);

export function moveRow(record) {
  const m = record.move;
  return h('tr', null,
    h('td', { class: 'time' }, clock(moment(m.started))),
    h('td', null, h('span', { class: `kind ${m.kind}` }, m.kind)),
    h('th', { scope: 'row' }, m.domain ? h('a', { href: vmPath(m.uuid), data: { key: `moved ${record.id}` } }, name(m.domain)) : '–'),
    h('td', null, m.vf || '–'),
    h('td', { class: m.error ? 'bad' : '' }, m.error ? '✕ ' : '', outcome(m)),
    h('td', { class: 'why' }, m.error || because(record)),
    h('td', null, h('button', { type: 'button', class: 'small', 'aria-label': `Steps of the ${m.kind} of ${m.domain ?? m.vf} at ${clock(moment(m.started))}`, data: { key: `steps ${record.id}` }, onclick: () => showMove(record) }, 'Steps')));
}

export function moveTable(rows) {
  return scroller('Moves', h('table', { class: 'list move-list' }, h('caption', { class: 'sr' }, 'Moves, newest first'),
    head(['Started', 'Move', 'VM', 'VF', 'Result', 'Why', h('span', { class: 'sr' }, 'Steps')]), rows));
}

export function moves() {
  const body = h('tbody');
  let memory = null;
  let filter = 'moves';
  const draw = () => {
    if (!memory) return;
    const list = [...memory.moves.values()].filter((r) => filters[filter][1](r.move)).sort((a, b) => b.id - a.id);
    dropped.hidden = !memory.dropped;
    dropped.textContent = `${memory.dropped} older moves of this hour were discarded because there were too many.`;
    table.hidden = !list.length;
    none.hidden = list.length > 0;
    fill(body, pager.cut(list).map(moveRow));
  };
  const table = moveTable(body);
  const none = h('p', { class: 'none', hidden: true }, 'There were none.');
  const held = heldNote();
  const rows = hold(body, held, draw);
  const pager = new Pager(rowsAtOnce, 'moves', rows.now);
  const dropped = h('p', { class: 'hint', hidden: true });
  const tools = h('div', { class: 'tools' }, choice('Show',
    h('select', { onchange: (e) => { filter = e.target.value; pager.at = 0; rows.now(); } }, Object.entries(filters).map(([value, [words]]) => h('option', { value }, words)))));
  const part = section('moves', 'Moves', 'Of the last hour, newest first.', tools, none, table, held, pager.element, dropped, glossary());
  remember(part, (m) => { memory = m; rows.news(); });
  return part;
}
