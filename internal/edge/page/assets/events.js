// What happened, newest first, each with its cause. What one cause brought about at one time is one entry.

import { h, fill, section, name, prose, hold, heldNote, vmPath } from './dom.js';
import { watch } from './live.js';
import { Pager } from './pager.js';
import { clock, moment, count } from './format.js';

const atOnce = 8;
const asked = 200; // lines that the page knows

// when has the day if that is not today's.
function when(time, now) {
  if (!Number.isFinite(time)) return '–';
  const t = new Date(time);
  const day = t.toDateString() === new Date(now).toDateString() ? '' : `${t.toLocaleDateString('en', { month: 'short', day: 'numeric' })} `;
  return day + clock(time);
}

function each(e) {
  return h('details', null, h('summary', { data: { key: `event ${e.id}` } }, count(e.vms.length, e.kind === 'repair' ? 'repair' : 'move')),
    h('ul', { class: 'plain' }, e.vms.map((v) => h('li', null, clock(moment(v.at)), ' ', v.uuid ? h('a', { href: vmPath(v.uuid) }, name(v.domain || v.uuid)) : name(v.domain), h('small', null, ` ${v.text}`)))));
}

function item(e, now, about) {
  return h('li', { class: `event${e.alarm ? ' alarm' : ''}` },
    h('time', { datetime: e.from }, when(moment(e.from), now)),
    h('div', null, h('p', null, e.alarm && h('span', { class: 'bad' }, '▲ '), prose(e.text, about)), e.count > 1 && e.vms && each(e)));
}

// events is the part for the host, or for a VM.
export function events(vm = '') {
  const list = h('ol', { class: 'events', reversed: true, tabindex: '0', 'aria-label': 'Events' });
  const none = h('p', { class: 'none', hidden: true }, vm ? 'Nothing has happened to it since the daemon started.' : 'Nothing has happened since the daemon started.');
  const held = heldNote();
  let answer = null;
  const draw = () => {
    if (!answer) return;
    none.hidden = answer.events.length > 0;
    fill(list, pager.cut([...answer.events].reverse()).map((e) => item(e, moment(answer.now), vm)));
  };
  const rows = hold(list, held, draw);
  const pager = new Pager(atOnce, 'events', rows.now);
  const part = section('events', 'What happened', 'Newest first, each with its cause.', none, list, held, pager.element);
  let before = '';
  watch(part, `/v1/events?last=${asked}${vm && `&vm=${encodeURIComponent(vm)}`}`, (data) => {
    answer = data;
    const now = JSON.stringify(data.events);
    if (now === before) return; // open details stay open
    before = now;
    rows.news();
  }, { every: 1000 });
  return part;
}
