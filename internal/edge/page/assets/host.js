// The page of the host, from its parts.

import { h } from './dom.js';
import { nav } from './nav.js';
import { verdict } from './verdict.js';
import { glance } from './glance.js';
import { troubles } from './troubles.js';
import { underWay } from './underway.js';
import { loads } from './loads.js';
import { timeline } from './timeline.js';
import { moves } from './moves.js';
import { events } from './events.js';
import { vms } from './vms.js';
import { policies } from './policies.js';
import { virtualPFs } from './vpf.js';

export function host(main) {
  const parts = [verdict(), glance(), loads(), troubles(), underWay(), events(), timeline(), moves(), vms(), policies(), virtualPFs()];
  const [now, top, load, trouble, under, happened, when, moved, list, policy, virtual] = parts;
  main.append(h('h1', { class: 'sr' }, 'Host'), now, top, h('div', { class: 'columns' }, h('div', { class: 'wide' }, load, under), h('div', { class: 'narrow' }, trouble)), happened, when, moved, list, policy, virtual);
  nav([top, trouble, happened, when, moved, list, policy]);
}
