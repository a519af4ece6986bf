// What the host moved over the last hour: packets on VFs and on virtio, and bits on each link.

import { h, section, text } from './dom.js';
import { complaint, watch } from './live.js';
import { remember } from './history.js';
import { Chart } from './charts.js';
import { pps, bits, percent } from './format.js';

// sum adds up one path of all VMs.
function sum(memory, path) {
  const total = new Array(memory.length).fill(null);
  for (const v of memory.vms.values()) v[path].forEach((x, i) => { if (x !== null) total[i] = (total[i] ?? 0) + x; });
  return total;
}

const linkLooks = [['--vf'], ['--virtio', [6, 4]], ['--good', [2, 3]], ['--accent', [10, 4, 2, 4]]];

export function loads() {
  const packets = h('div', { class: 'chart' });
  const links = h('div', { class: 'chart' });
  const note = h('p', { class: 'none', role: 'status' });
  const charts = h('div', { hidden: true }, h('h3', null, 'Packets, by path'), packets, h('h3', null, 'Sent on each link'), links);
  const part = section('load', 'Load over the last hour', null, note, charts);
  const byPath = new Chart(packets, 'Packets per second over the last hour, on VFs and on virtio', pps);
  const byLink = new Chart(links, 'Bits per second that each PF sent over the last hour', bits, { height: 150 });
  let down = new Set(); // what a link carried in the last step is not now, if it went down since
  watch(part, '/v1/status', (s) => {
    down = new Set(s.pfs.filter((pf) => !pf.link_up).map((pf) => pf.pf));
    byLink.tell();
  });
  remember(part, (m) => {
    note.hidden = m.length > 1;
    charts.hidden = m.length < 2;
    text(note, 'The first figures appear twenty seconds after the daemon starts.');
    if (m.length < 2) return;
    const vf = sum(m, 'vf_packets_per_second');
    const virtio = sum(m, 'virtio_packets_per_second');
    const at = (list) => list.at(-1) ?? 0;
    byPath.draw(m.times, [
      { label: 'on VFs', values: vf, colour: '--vf', fill: 0.22 }, { label: 'on virtio', values: virtio, colour: '--virtio', dash: [5, 3] },
    ], `Now ${pps(at(vf))} on VFs and ${pps(at(virtio))} on virtio, ${percent(at(vf) / (at(vf) + at(virtio) || 1))} on VFs.`);
    const list = [...m.links.values()];
    byLink.draw(m.times, list.map((l, i) => ({ label: l.pf, values: l.sent, over: () => down.has(l.pf), colour: linkLooks[i % linkLooks.length][0], dash: linkLooks[i % linkLooks.length][1] })),
      list.map((l) => `${l.pf} sends ${bits((!down.has(l.pf) && l.sent.at(-1)) || 0)}`).join(', '));
  }, (err) => { note.hidden = false; text(note, complaint(err)); });
  return part;
}
