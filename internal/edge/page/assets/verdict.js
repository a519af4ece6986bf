// The verdict on the host: what is wrong now, what it affects, who causes it and what helps, the worst first; or that nothing is.

import { h, fill, name, prose, section, steady } from './dom.js';
import { daemon, watch } from './live.js';
import { count, percent } from './format.js';

const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);

// wrong lists what is wrong, by impact: what VMs lack now, what keeps VFs from them, and what failed.
function wrong(s, links) {
  const list = [];
  if (s.error) list.push({ what: 'Sluice cannot work as it should', text: s.error, to: ['#troubles', 'Problems'] });
  for (const l of links.filter((x) => x.shortage).toSorted((a, b) => b.shortage.bits_per_second - a.shortage.bits_per_second)) {
    list.push({ what: `A guarantee is short on ${l.pf}`, text: l.shortage.text, about: l.shortage.takers.map((t) => t.domain).join(' '), remedy: l.shortage.remedy });
  }
  for (const pf of s.pfs.filter((x) => x.managed && !x.link_up)) {
    list.push({ what: `The link of ${pf.pf} is down`, text: `${count(pf.vfs.total, 'VF')} cannot be used; ${pf.vfs.held ? `${pf.vfs.held} of them ${pf.vfs.held === 1 ? 'is' : 'are'} still held` : 'VMs that had one are on virtio'}`, remedy: 'check the cable and the switch' });
  }
  for (const pf of s.pfs.filter((x) => x.managed && x.link_up && x.why)) {
    list.push({ what: `No VM can use the VFs of ${pf.pf}`, text: pf.why, about: pf.pf, remedy: pf.remedy });
  }
  const over = links.filter((l) => l.overcommitted).map((l) => l.pf);
  if (over.length) list.push({ what: `More is guaranteed on ${over.join(', ')} than it carries`, text: 'not all of it can be kept', remedy: 'lower a guarantee, or move a VM to another host' });
  if (s.moves.failed_last_hour) list.push({ what: `${count(s.moves.failed_last_hour, 'move')} failed in the last hour`, text: 'their VMs stay on the path they had', to: ['#moves', 'Moves'] });
  return list;
}

function item(x) {
  return h('li', null, h('b', { class: 'bad' }, `▲ ${x.what}`), ': ', prose(x.text, x.about), '. ', x.remedy && h('span', { class: 'remedy' }, prose(x.remedy, x.about)), x.to && h('a', { href: x.to[0] }, x.to[1]));
}

// calm is what can be said where nothing is wrong.
function calm(s, links) {
  const kept = s.bandwidth.guaranteed ? `${count(s.bandwidth.guaranteed, 'guarantee')}, none of them short` : 'nobody has a guarantee';
  return `${s.vfs.held} of ${count(s.vfs.total, 'VF')} held, with ${percent(s.load.vf_share)} of all packets; ${kept}${sum(links, (l) => l.sent_bits_per_second) ? '' : '; no link carries anything'}.`;
}

function mode(s) {
  if (s.drain) return ['All VFs are being taken back', s.drained?.by && [' by ', name(s.drained.by)], s.drained?.reason && `: ${s.drained.reason}`, '. ', prose('`sluice drain --undo` ends that.')];
  if (s.mode !== 'observe') return null;
  const n = s.moves.pending;
  return ['Sluice only observes: it changes nothing. ', n ? [`In enforce mode it would make ${count(n, 'move')} now: `, h('a', { href: '#under-way' }, n === 1 ? 'this one' : 'these'), '.'] : 'In enforce mode it would move nothing now either.'];
}

export function verdict() {
  const body = h('div');
  const part = section('now', 'Now', null, steady({ class: 'now' }, body));
  const title = part.querySelector('h2');
  const seen = { status: null, links: null };
  let before = '';
  const draw = () => {
    const { status: s, links } = seen;
    if (!s || !links) return;
    const list = wrong(s, links);
    const others = s.problems + s.findings;
    const about = mode(s);
    const now = JSON.stringify([daemon.gone, list, others, s.mode, s.drained, s.drain, s.mode === 'observe' && s.moves.pending, !list.length && calm(s, links)]);
    if (now === before) return;
    before = now;
    const when = daemon.gone ? ' when last seen' : list.length ? ' now' : '';
    fill(title, list.length ? `${count(list.length, 'thing')} ${list.length === 1 ? 'is' : 'are'} wrong` : others ? 'Nothing urgent' : '✓ All is well', when && h('span', { class: 'when' }, when));
    title.className = list.length ? 'bad' : others ? '' : 'good';
    fill(body, about && h('p', null, about), list.length ? h('ul', { class: 'plain wrong' }, list.map(item)) : h('p', null, calm(s, links)),
      others > 0 && h('p', { class: 'hint' }, h('a', { href: '#troubles' }, count(others, 'problem')), ', each with its remedy.'));
  };
  for (const e of ['lost', 'again']) addEventListener(e, draw);
  watch(part, '/v1/status', (s) => { seen.status = s; draw(); });
  watch(part, '/v1/bandwidth', (b) => { seen.links = b.links; draw(); }, { every: 1000 });
  return part;
}
