// One move in full: its Steps with their times, and its reason.

import { h, facts, head, name, show, prose, scroller, vmLink } from './dom.js';
import { moment, clock, seconds, si } from './format.js';
import { what, verb } from './underway.js';
import { term, glossary } from './terms.js';

export function outcome(m) {
  if (m.error) return 'failed';
  if (!Number.isFinite(moment(m.ended))) return m.undoing ? 'being rolled back' : 'under way';
  return `done in ${seconds(m.took_seconds ?? 0)}`;
}

function stepRow(t, begin, whole) {
  const from = moment(t.from);
  const to = moment(t.to);
  const end = Number.isFinite(to) ? to : begin + whole;
  const place = (x) => `${(100 * Math.max(0, x)) / whole}%`;
  return h('tr', { class: t.undo ? 'undo' : '' },
    h('th', { scope: 'row' }, h('b', null, t.undo && '↩ ', verb(t.step)), h('small', null, t.step.slice(verb(t.step).length))),
    h('td', null, `+${seconds((from - begin) / 1e3)}`),
    h('td', null, Number.isFinite(to) ? seconds((to - from) / 1e3) : 'under way', t.tries > 1 && h('small', null, `${t.tries} tries`), t.error && h('small', { class: 'bad' }, t.error)),
    h('td', { class: 'gantt', 'aria-hidden': 'true' }, h('i', { class: t.error ? 'failed' : '', style: { left: place(from - begin), width: `max(2px, ${place(end - from)})` } })));
}

function steps(record) {
  const list = record.step_times ?? [];
  if (!list.length) return h('p', { class: 'none' }, 'No Step has started.');
  const begin = Math.min(...list.map((t) => moment(t.from)));
  const whole = Math.max(1, ...list.map((t) => (Number.isFinite(moment(t.to)) ? moment(t.to) : moment(t.from)) - begin));
  return scroller('Steps', h('table', { class: 'step-table' }, head(['Step', 'Started', 'Took', 'When']),
    h('tbody', null, list.map((t) => stepRow(t, begin, whole)))));
}

// whole is a mean of times, of which fractions of a second tell nothing once it is long.
const whole = (n) => seconds(n < 10 ? n : Math.round(n));

// figures are those of a reason, each with its unit.
export function figures(r) {
  const unit = r.policy === 'vnraf' ? '' : r.policy === 'fair' ? ' s with a VF' : ' packets/s';
  const list = [['Policy', r.policy], ['Code', r.code], ['Score', r.score && si(r.score) + unit], ['Price', r.price && si(r.price) + unit], ['Regret', r.regret && `${si(r.regret)} packets`],
    ['Swap', r.swap_cost && `would gain ${si(r.swap_gain ?? 0)} packets, must gain ${si(r.swap_cost)}`], ['Style', r.style], ['Rank', r.rank && `${r.rank}; the first ${r.slots} get a VF`], ['Bursts', r.bursts && `${whole(r.bursts.length_seconds)} long, ${whole(r.bursts.between_seconds)} between, ${r.bursts.seen} seen`], [r.hold ? 'Runner-up' : 'To beat', r.other_name && name(r.other_name)], ['Detail', r.detail]];
  return facts(list.map(([k, v]) => [term(k), v]));
}

export function showMove(record) {
  const m = record.move;
  show(what(m),
    h('p', { class: 'lead' }, h('span', { class: `kind ${m.kind}` }, m.kind), ' ', h('span', { class: m.error ? 'bad' : '' }, outcome(m)), ` · started ${clock(moment(m.started))}`, m.uuid && [' · ', vmLink(m)]),
    m.error && h('p', { class: 'bad' }, `▲ ${m.error}`),
    m.cause && [h('h3', null, 'Cause'), h('p', null, prose(m.cause.text, m.domain))],
    h('h3', null, 'Reason'), h('p', null, prose(record.sentence || m.why, m.domain)), record.reason && [figures(record.reason), glossary()],
    h('h3', null, 'Steps'), steps(record));
}
