// Virtual PFs, and what the switch holds each of their VFs to.

import { h, cell, fill, head, name, section, scroller, vmLink, prose } from './dom.js';
import { watch } from './live.js';
import { si } from './format.js';

const holds = (p) => [p.vlan ? `VLAN ${p.vlan}` : p.trunk && `VLANs ${p.trunk}`, p.guarantee && `guaranteed ${p.guarantee}`, p.limit && `limit ${p.limit}`, p.spoof_check && 'own MACs only', p.addresses?.length && p.addresses.join(' '), p.isolated && 'isolated'].filter(Boolean).join(' · ');

function dropped(d) {
  const list = [['spoof', d.spoof], ['VLAN', d.vlan], ['rate', d.rate]].filter(([, n]) => n > 0).map(([k, n]) => `${si(n)} ${k}`);
  return list.join(', ') || '–';
}

function row(f) {
  const up = f.link === 'up';
  return h('tr', null, h('th', { scope: 'row' }, f.vf < 0 ? 'PF' : `VF ${f.vf}`), cell('MAC', h('code', null, f.mac)), cell('Link', h('span', { class: up ? 'good' : '' }, up ? '✓ up' : f.link), f.why && h('small', null, f.why)),
    cell('Policy', f.stands ? h('span', { class: 'good' }, '✓ in force') : h('span', { class: 'bad' }, '▲ not in force')), cell('Settings', holds(f.policy) || '–'), cell('In use by', f.owner ? name(f.owner) : '–'), cell('Dropped', dropped(f.dropped_packets)));
}

export function vpfTable(p) {
  return h('div', { class: 'vpf' }, h('h3', null, name(p.name), ' of ', vmLink(p), h('small', null, ` ${p.model}, ${p.backend}, ${p.network}`), !p.running && h('small', { class: 'bad' }, ` ▲ not running: ${p.why || 'its VM is off'}`)),
    p.problems.map((x) => h('p', { class: 'bad' }, '▲ ', prose(x.text, p.domain), ' ', x.remedy && prose(x.remedy, p.domain))),
    scroller(`Functions of ${p.name}`, h('table', { class: 'list stack' }, h('caption', { class: 'sr' }, `Functions of ${p.name}`), head(['Function', 'MAC', 'Link', 'Policy', 'Settings', 'In use by', 'Dropped']), h('tbody', null, p.functions.map(row)))));
}

// virtualPFs is hidden where there are none.
export function virtualPFs() {
  const body = h('div');
  const part = section('virtual-pfs', 'Virtual PFs', 'SR-IOV functions inside VMs, and what their switch enforces on them.', body);
  part.classList.add('absent');
  watch(part, '/v1/vpf', (list) => {
    part.classList.toggle('absent', !list.length);
    fill(body, list.map(vpfTable));
  }, { every: 2000 });
  return part;
}
