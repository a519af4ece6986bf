// What each policy would have done with the last hour.

import { h, fill, section, scroller, text } from './dom.js';
import { complaint, watch } from './live.js';
import { percent, shortClock, moment, seconds } from './format.js';
import { bar } from './glance.js';

function row(p, current) {
  const mine = p.policy === current;
  return h('tr', { class: mine ? 'current' : '' },
    h('th', { scope: 'row' }, p.policy, mine && h('small', null, '● in force')),
    h('td', { class: 'wide-bar' }, bar([['vf', Math.max(0, p.net_share)], ['cost', Math.max(0, p.gross_share - Math.max(0, p.net_share))]], `net ${percent(p.net_share)}, moves cost ${percent(p.gross_share - p.net_share)}`)),
    h('td', { class: 'number' }, h('b', null, percent(p.net_share))), h('td', { class: 'number' }, percent(p.gross_share)), h('td', { class: 'number' }, p.moves.toLocaleString('en')));
}

const old = 15 * 60; // seconds after which loads are no longer those of the last hour

// state says of which loads the figures are, and what has become of newer ones.
function state(w) {
  const done = w.policies?.length > 0;
  const late = done && w.age_seconds > old;
  return [
    done && `Loads from ${shortClock(moment(w.from))} to ${shortClock(moment(w.to))} (${seconds((moment(w.to) - moment(w.from)) / 1e3)})`,
    late ? `: not the last hour, they ended ${seconds(w.age_seconds)} ago.` : done && `, computed at ${shortClock(moment(w.computed))}.`,
    w.error && ` ${w.error}${w.remedy ? `: ${w.remedy}` : ''}`,
    w.running && `${done ? ' Newer figures are being' : 'Being'} computed in another process, at low priority …`,
    !w.error && !w.running && !done && 'Nothing has been computed yet.',
  ].filter(Boolean).join('');
}

export function policies() {
  const note = h('p', { class: 'hint', role: 'status' });
  const body = h('tbody');
  const table = scroller('Policies', h('table', { class: 'list policy-list' }, h('caption', { class: 'sr' }, 'Policies, best first'),
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Policy'), h('th', { scope: 'col' }, h('span', { class: 'sr' }, 'As a bar')), ['Net', 'Before moves', 'Moves'].map((t) => h('th', { scope: 'col', class: 'number' }, t)))), body));
  const part = section('policies', 'What other policies would have done', 'Share of all packets that VFs would have carried, less what the moves cost.', note, table);
  part.dataset.short = 'Policies';
  table.hidden = true;
  watch(part, '/v1/whatif', (w) => {
    text(note, state(w));
    table.hidden = !w.policies?.length;
    fill(body, (w.policies ?? []).map((p) => row(p, w.current_policy)));
  }, { every: 3000, failed: (err) => text(note, complaint(err)) });
  return part;
}
