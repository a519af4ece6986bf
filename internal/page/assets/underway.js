// Moves that are under way, Step by Step, and those that come next.

import { h, fill, name, section, prose } from './dom.js';
import { watch } from './live.js';
import { seconds, moment } from './format.js';

const few = 8;

const titles = { plug: 'gets', unplug: 'gives up', repair: 'repair' };

// what says a move in a few words.
export function what(m) {
  if (m.kind === 'repair') return ['repair', m.domain && [' of ', name(m.domain)], m.vf && ` ${m.vf}`];
  return [name(m.domain || m.uuid || ''), ` ${titles[m.kind] ?? m.kind} `, h('b', { class: 'vfname' }, m.vf)];
}

// verb is the first word of a Step: the rest says of what.
export const verb = (step) => step.split(' ', 1)[0];

function steps(m, begun) {
  return h('ol', { class: 'steps' }, (m.steps ?? []).map((step, i) => {
    const state = !begun ? 'todo' : i < (m.step ?? 0) ? 'done' : i === (m.step ?? 0) ? 'now' : 'todo';
    const said = { done: ', done', now: ', under way', todo: '' }[state];
    return h('li', { class: state, title: step, 'aria-current': state === 'now' ? 'step' : undefined }, verb(step), said && h('span', { class: 'sr' }, said));
  }));
}

function move(m, begun, at) {
  const since = begun && Number.isFinite(at) ? Math.max(0, (at - moment(m.started)) / 1000) : NaN;
  return h('li', { class: 'move' },
    h('p', { class: 'move-head' }, h('span', { class: `kind ${m.kind}` }, m.kind), h('span', null, what(m)),
      m.undoing && h('span', { class: 'bad' }, '↩ is being taken back'), m.try > 1 && h('span', { class: 'bad' }, `try ${m.try}`),
      Number.isFinite(since) && h('small', null, seconds(since))),
    steps(m, begun),
    h('p', { class: 'why' }, prose(m.why, m.domain)),
    m.error && h('p', { class: 'bad' }, m.error));
}

function list(title, all, begun, at) {
  if (!all.length) return [];
  return [h('h3', null, title), h('ul', { class: 'moves-now' }, all.slice(0, few).map((m) => move(m, begun, at)), all.length > few && h('li', { class: 'hint' }, `and ${all.length - few} more: sluice plan lists them`))];
}

export function underWay() {
  const body = h('div', { class: 'under-way' });
  const part = section('under-way', 'Under way', null, body);
  watch(part, '/v1/plan', (p) => {
    const next = p.mode === 'observe' ? 'Would be done in enforce mode' : 'Next';
    const lists = [list('Now', p.active, true, moment(p.observed)), list(next, p.pending, false)].flat();
    fill(body, lists.length ? lists : h('p', { class: 'none' }, 'No VF is being moved, and none is to be.'));
  });
  return part;
}
