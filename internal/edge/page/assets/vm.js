// The page of one VM: what it has, why, and what would change that.

import { h, at, cell, facts, fill, head, name, prose, scroller, section, command, word, text } from './dom.js';
import { watch } from './live.js';
import { nav } from './nav.js';
import { remember } from './history.js';
import { Chart } from './charts.js';
import { figures } from './move.js';
import { moveRow, moveTable } from './moves.js';
import { events } from './events.js';
import { glossary } from './terms.js';
import { slaBar, slaLegend, shareTitle } from './sla.js';
import { vpfTable } from './vpf.js';
import { pps, bits, rate, clock, seconds, si } from './format.js';

const proofs = { hardware: 'counted by the NIC', kernel: 'counted by the kernel', corroborated: 'reported by the guest, and consistent with what the host counts', guest: 'reported by the guest only' };

function verdict(e) {
  const v = e.vm;
  const about = [v.state, v.class && `class ${v.class}`, v.network && `network ${v.network}`, v.mac, v.target_device, v.override && `${v.override} by hand`].filter(Boolean);
  return [
    h('p', { class: 'crumb' }, h('a', { href: at('/#vms') }, '‹ all VMs')),
    h('h1', null, name(v.domain), ' ', v.vf ? h('span', { class: 'on vf' }, v.vf) : h('span', { class: 'on virtio' }, 'virtio'), v.under_way && h('span', { class: 'kind' }, `↻ ${v.under_way}`)),
    h('p', { class: 'verdict' }, prose(e.sentence, v.domain)),
    h('p', { class: 'hint' }, about.join(' · '), h('br'), h('code', null, v.uuid)),
    e.worth && h('p', null, prose(e.worth, v.domain)),
    e.learned && h('p', null, prose(e.learned, v.domain)),
    e.veto && h('p', { class: 'bad' }, '▲ ', prose(e.veto, v.domain)),
    e.override && h('p', null, `⚑ ${e.override.kind} by ${e.override.by ?? 'somebody'}${e.override.reason ? `: ${e.override.reason}` : ''}`),
  ];
}

function traffic(t, path) {
  if (!t.known) return [cell('Path', path), h('td', { colspan: '4', 'data-label': 'Traffic' }, 'unknown', t.note && h('small', null, t.note))];
  return [cell('Path', path), cell('Receives', pps(t.rx_pps), h('small', null, bits(t.rx_bytes_s * 8))), cell('Sends', pps(t.tx_pps), h('small', null, bits(t.tx_bytes_s * 8))),
    cell('Proof', proofs[t.proof] ?? 'unproved', t.note && h('small', null, t.note)), cell('Waiting', t.waiting_bytes ? `${si(t.waiting_bytes)}B` : '–')];
}

function paths(e) {
  return e.paths.map((p) => {
    const title = h('th', { scope: 'rowgroup', rowspan: '2' }, p.nic, h('small', null, [p.network, p.failover ? `fails over by ${p.failover}` : 'cannot fall back to virtio', p.virtual_pf && `of virtual PF ${p.virtual_pf}`].filter(Boolean).join(' · ')), p.why && h('small', null, p.why), p.learned && h('small', null, p.learned));
    return [h('tr', null, title, traffic(p.virtio, 'virtio')), h('tr', null, traffic(p.vf_path, p.vf ? `VF ${p.vf}` : 'VF'))];
  });
}

function shares(e) {
  const list = [...(e.bandwidth ?? []), ...(e.virtual_pfs ?? [])];
  if (!list.length) return h('p', { class: 'none' }, 'It is not running, or nothing is known about its NICs.');
  return list.map((x) => h('div', { class: 'share' }, h('h3', null, shareTitle(x), h('small', null, ` on ${x.path} of ${x.pf || 'an unknown link'}`)), slaBar(x, e.links?.find((l) => l.pf === x.pf)?.shortage),
    facts([['Guaranteed', rate(x.guarantee)], ['Allowed now', rate(x.allowed, 'not limited')], ['Limit', rate(x.limit)], ['Sends', rate(x.sent, 'nothing')], ['Receive limit', rate(x.receive_limit)], ['Set by', x.sla_source]]),
    h('p', { class: 'why' }, x.short_for_seconds ? h('span', { class: 'bad' }, `▲ short for ${seconds(x.short_for_seconds)}: `) : '', prose(x.why, x.domain)), x.remedy && h('p', { class: 'remedy' }, prose(x.remedy, x.domain)),
    x.enforced.filter((l) => l.error).map((l) => h('p', { class: 'bad' }, `▲ ${l.by}: ${l.error}`))));
}

function changes(e) {
  const w = word(e.vm);
  return [h('ul', { class: 'plain' }, e.would_change.map((c) => h('li', null, prose(c, e.vm.domain)))),
    h('h3', null, 'Commands'), h('p', { class: 'commands' }, [`sluice explain ${w}`, `sluice pin ${w}`, `sluice release ${w}`, `sluice bw ${w}`].map(command))];
}

function chartOf(part) {
  const element = h('div', { class: 'chart' });
  part.append(element);
  const chart = new Chart(element, 'Packets per second over the last hour, on its VF and on virtio', pps, { height: 220 });
  return (m, vm) => m.length > 1 && vm && chart.draw(m.times, [
    { label: 'on a VF', values: vm.vf_packets_per_second, colour: '--vf', fill: 0.22 }, { label: 'on virtio', values: vm.virtio_packets_per_second, colour: '--virtio', dash: [5, 3] },
  ]);
}

function held(m, uuid) {
  const list = [...m.holdings.values()].filter((x) => x.uuid === uuid).sort((a, b) => b.begin - a.begin);
  if (!list.length) return 'It held no VF during the last hour.';
  return `It held ${list.map((x) => `${x.vf} from ${clock(x.begin)} ${Number.isFinite(x.end) ? `to ${clock(x.end)}` : 'until now'}`).join(', ')}.`;
}

export function vmPage(main, ref) {
  const top = h('section', { class: 'part vm-head', id: 'verdict' }, h('h1', null, 'VM'));
  const change = section('change', 'What would change it', null);
  const reason = section('reason', 'The figures behind it', null);
  const load = section('load', 'Load over the last hour', null);
  const holds = h('p', { class: 'hint' });
  load.append(holds);
  const none = load.appendChild(h('p', { class: 'none' }, 'Nothing has been recorded of it yet.'));
  const nics = section('paths', 'Paths', 'The load of each NIC, and who counted it.');
  const bandwidth = section('bandwidth', 'Bandwidth', null, slaLegend());
  const virtual = section('virtual-pfs', 'Virtual VFs', null);
  const happened = events(ref);
  const moved = section('moves', 'Moves of the last hour', null);
  const bodies = new Map([change, reason, nics, bandwidth, virtual, moved].map((p) => [p, p.appendChild(h('div'))]));
  virtual.classList.add('absent');
  main.append(top, h('div', { class: 'columns' }, h('div', { class: 'wide' }, load), h('div', { class: 'narrow' }, reason)), happened, change, nics, bandwidth, virtual, moved);
  nav([load, happened, change, nics, bandwidth, moved]);
  const draw = chartOf(load);
  let uuid = ref;
  const body = h('tbody');
  const before = new Map();
  const put = (part, key, make) => { // what did not change stays, with what is selected in it
    const k = JSON.stringify(key);
    if (before.get(part) === k) return;
    before.set(part, k);
    fill(bodies.get(part) ?? part, make());
  };
  watch(main, `/v1/explain/${encodeURIComponent(ref)}`, (e) => {
    uuid = e.vm.uuid;
    document.title = `${e.vm.domain} – Sluice`;
    put(top, [e.sentence, e.vm.vf, e.vm.state, e.vm.under_way, e.worth, e.learned, e.veto, e.override], () => verdict(e));
    put(reason, e.reason, () => [figures(e.reason), glossary()]);
    put(change, e.would_change, () => changes(e));
    put(nics, e.paths, () => scroller('Paths', h('table', { class: 'list stack' }, h('caption', { class: 'sr' }, 'Paths'), head(['NIC', 'Path', 'Receives', 'Sends', 'Proof', 'Waiting']), h('tbody', null, paths(e)))));
    put(bandwidth, [e.bandwidth, e.virtual_pfs, e.links], () => shares(e));
    main.classList.remove('nothing');
  }, { failed: (err) => {
    const gone = err.status === 404; // there is nothing to show of it
    main.classList.toggle('nothing', gone);
    before.delete(top);
    if (gone) document.title = `No VM ${ref} – Sluice`;
    fill(top, h('p', { class: 'crumb' }, h('a', { href: at('/#vms') }, '‹ all VMs')), h('h1', null, gone && 'There is no VM ', name(ref), gone && ' on this host'), !gone && h('p', { class: 'bad' }, `▲ ${err.message}`), err.remedy && h('p', null, prose(err.remedy, ref)));
  } });
  remember(main, (m) => {
    none.hidden = m.length > 1 && m.vms.has(uuid);
    draw(m, m.vms.get(uuid));
    text(holds, held(m, uuid));
    const list = [...m.moves.values()].filter((r) => r.move.uuid === uuid).sort((a, b) => b.id - a.id);
    put(moved, list, () => (list.length ? moveTable(body) : h('p', { class: 'none' }, 'None.')));
    fill(body, list.map(moveRow));
  });
  watch(main, '/v1/vpf', (all) => {
    const mine = all.filter((p) => p.uuid === uuid);
    virtual.classList.toggle('absent', !mine.length);
    put(virtual, mine, () => mine.map(vpfTable));
  }, { every: 2000 });
}
