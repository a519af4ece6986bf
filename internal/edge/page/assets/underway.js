// Moves that are under way, Step by Step, and those that come next.

import { h, fill, name, section, steady } from './dom.js';
import { watch } from './live.js';
import { seconds, moment } from './format.js';

const few = 12;

const titles = { plug: 'gets', unplug: 'gives up', repair: 'repair' };

// what says a move in a few words.
export function what(m) {
  if (m.kind === 'repair') return ['repair', m.domain && [' of ', name(m.domain)], m.vf && ` ${m.vf}`];
  return [name(m.domain || m.uuid || ''), ` ${titles[m.kind] ?? m.kind} `, h('b', { class: 'vfname' }, m.vf)];
}

// verb is the first word of a Step: the rest says of what.
export const verb = (step) => step.split(' ', 1)[0];

function steps(m) {
  return h('ol', { class: 'steps' }, (m.steps ?? []).map((step, i) => {
    const state = i < (m.step ?? 0) ? 'done' : i === (m.step ?? 0) ? 'now' : 'todo';
    const said = { done: ', done', now: ', under way', todo: '' }[state];
    return h('li', { class: state, title: step, 'aria-current': state === 'now' ? 'step' : undefined }, verb(step), said && h('span', { class: 'sr' }, said));
  }));
}

function move(m, at) {
  const since = Number.isFinite(at) ? Math.max(0, (at - moment(m.started)) / 1000) : NaN;
  return h('li', { class: 'move' },
    h('p', { class: 'move-head' }, h('span', { class: `kind ${m.kind}` }, m.kind), h('span', null, what(m)),
      m.undoing && h('span', { class: 'bad' }, '↩ being rolled back'), m.try > 1 && h('span', { class: 'bad' }, `try ${m.try}`),
      Number.isFinite(since) && h('small', null, seconds(since))),
    steps(m),
    h('p', { class: 'why' }, because(m)),
    m.error && h('p', { class: 'bad' }, m.error));
}

// because is why a move is made, without what it does, which is said beside it.
const because = (m) => (m.why ?? '').replace(/^[^:]*: /, '');

// brief is a move that waits: its Steps are those of every move of its kind.
const brief = (m) => h('li', null, h('span', { class: `kind ${m.kind}` }, m.kind), ' ', what(m), h('small', null, ` ${because(m)}`));

function more(all) {
  return all.length > few && h('li', { class: 'hint' }, `and ${all.length - few} more: sluice plan lists them`);
}

function lists(p) {
  const next = p.mode === 'observe' ? 'Would be made in enforce mode' : 'Next';
  return [
    p.active.length > 0 && [h('h3', null, `Now (${p.active.length})`), h('ul', { class: 'moves-now' }, p.active.slice(0, few).map((m) => move(m, moment(p.observed))), more(p.active))],
    p.pending.length > 0 && [h('h3', null, `${next} (${p.pending.length})`), h('ul', { class: 'moves-next' }, p.pending.slice(0, few).map(brief), more(p.pending))],
    !p.active.length && !p.pending.length && h('p', { class: 'none' }, 'No VF is being moved, and no move is pending.'),
  ];
}

export function underWay() {
  const body = h('div');
  const part = section('under-way', 'Under way', null, steady({ class: 'under-way', tabindex: '0', role: 'region', 'aria-label': 'Moves under way' }, body));
  watch(part, '/v1/plan', (p) => fill(body, lists(p)));
  return part;
}
