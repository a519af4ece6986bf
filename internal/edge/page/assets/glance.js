// The host at a glance: a few figures, and each PF with its VFs and its link.

import { h, fill, head, name, section } from './dom.js';
import { watch } from './live.js';
import { si, pps, bits, percent, count, seconds, rate } from './format.js';

function tile(label, value, ...more) {
  return h('div', { class: 'tile' }, h('dt', null, label), h('dd', null, h('b', null, value), more));
}

// bar is a share of a whole, told by width; the figures beside it tell it too.
export function bar(parts, label) {
  return h('div', { class: 'bar', role: 'img', 'aria-label': label },
    parts.filter(([, share]) => share > 0).map(([kind, share]) => h('i', { class: kind, style: { width: `${Math.min(share, 1) * 100}%` } })));
}

// owners counts VFs by who has them. Free are those that a VM can get.
function owners(c) {
  const lost = c.unusable ?? 0;
  return [`${c.held} held`, `${c.free - lost} free`, lost && `${lost} that no VM can get now`, `${c.foreign} foreign`].filter(Boolean);
}

function vfTile(c) {
  const of = (n) => (c.total ? n / c.total : 0);
  const words = owners(c);
  return tile('VFs', [String(c.held), h('small', null, ` of ${c.total} held`)], bar([['vf', of(c.held)], ['foreign', of(c.foreign)]], words.join(', ')), h('span', null, words.slice(1).join(' · ')));
}

function loadTile(l) {
  const words = `${si(l.packets_per_second * l.vf_share)} of ${pps(l.packets_per_second)} on VFs`;
  return tile('Packets carried by VFs', percent(l.vf_share), bar([['vf', l.vf_share], ['virtio', l.packets_per_second ? 1 - l.vf_share : 0]], words), h('span', null, words));
}

function vmTile(c) {
  const more = [`${c.holding} hold a VF`, c.vetoed && `${c.vetoed} cannot be moved`, c.load_unknown && `${c.load_unknown} with unknown load`].filter(Boolean);
  return tile('Virtual machines', [String(c.running), h('small', null, ` of ${c.total} running`)], h('span', null, more.join(' · ')));
}

function guaranteeTile(b, observing) {
  const kept = b.guaranteed - b.short;
  let value = b.guaranteed ? `${kept} of ${b.guaranteed}` : 'None';
  let note = b.guaranteed ? 'are kept' : 'no NIC has one';
  if (b.short) note = h('span', { class: 'bad' }, `▲ ${b.short} short`, b.taker && [': ', name(b.taker), ' takes most']);
  const over = b.overcommitted > 0 && h('span', { class: 'bad' }, `▲ ${count(b.overcommitted, 'link')} overcommitted`);
  return tile('Guarantees', value, h('span', null, note), over, b.limited > 0 && h('span', null, `${b.limited} ${observing ? 'would be limited' : 'limited now'}`));
}

function moveTile(m, observing) {
  const waiting = m.pending ? `${m.pending} ${observing ? 'would be made' : 'waiting'}` : '';
  const failed = m.failed_last_hour > 0 ? h('span', { class: 'bad' }, `▲ ${m.failed_last_hour} failed in the last hour`) : m.failed > 0 && h('span', null, `${m.failed} failed since the start, none in the last hour`);
  return tile('Moves', [String(m.active), h('small', null, ' under way'), waiting && h('small', null, ` · ${waiting}`)],
    h('span', null, `${si(m.plugs)} plugs, ${seconds(m.plug_mean_seconds)} each · ${si(m.unplugs)} unplugs`), failed);
}

function troubleTile(s) {
  const n = s.problems + s.findings;
  return tile('Troubles', n ? h('a', { href: '#troubles', class: 'bad' }, `▲ ${n}`) : h('span', { class: 'good' }, '✓ none'),
    h('span', null, n ? 'each with its remedy' : 'nothing prevents moves'));
}

function pfRow(pf, link) {
  const c = pf.vfs;
  const cell = (kind, n, word) => n > 0 && h('span', { class: `cells ${kind}` }, Array.from({ length: Math.min(n, 256) }, () => h('i')), h('span', { class: 'sr' }, `${n} ${word}, `));
  const carries = link?.carries.bits_per_second ?? 0;
  const load = carries ? link.sent_bits_per_second / carries : 0;
  const promised = link?.guaranteed?.bits_per_second ?? 0;
  return h('tr', null,
    h('th', { scope: 'row' }, pf.pf, h('small', null, pf.network), !pf.managed && h('small', null, 'not in sluice.yaml')),
    h('td', null, pf.link_up ? h('span', { class: 'good' }, '✓ up') : h('span', { class: 'bad' }, '▲ link down')),
    h('td', { class: 'vfs' }, h('span', { class: 'strip' }, cell('held', c.held, 'held'), cell('foreign', c.foreign, 'foreign'), cell('free', c.free - (c.unusable ?? 0), 'free'), cell('lost', c.unusable ?? 0, 'that no VM can get now')),
      h('small', null, owners(c).join(' · '))),
    h('td', { class: 'link' }, !pf.link_up ? h('small', null, 'carries nothing') : link ? [
      bar([['vf', load]], `link ${percent(load)} used`),
      h('small', null, `${bits(link.sent_bits_per_second)} of ${bits(carries)} · ${percent(load)}`),
      h('small', null, `capacity ${link.carries.why}`),
      promised > 0 && h('small', { class: link.overcommitted ? 'bad' : '' }, `${link.overcommitted ? '▲ overcommitted: ' : ''}${rate(link.guaranteed)} guaranteed`),
      link.shortage && h('small', { class: 'bad' }, `▲ ${link.shortage.text}`),
    ] : h('small', null, 'unknown')));
}

export function glance() {
  const tiles = h('dl', { class: 'tiles' });
  const body = h('tbody');
  const table = h('table', { class: 'pfs' }, h('caption', { class: 'sr' }, 'Physical functions'),
    head(['PF', 'Link', 'VFs', 'Load of the link']), body);
  const none = h('p', { class: 'none', hidden: true }, 'No NIC of this host can have VFs.');
  const part = section('host', 'Host', null, tiles, table, none);
  const seen = { status: null, links: new Map() };
  const pfs = () => seen.status && fill(body, seen.status.pfs.map((pf) => pfRow(pf, seen.links.get(pf.pf))));
  watch(part, '/v1/status', (s) => {
    seen.status = s;
    table.hidden = !s.pfs.length;
    none.hidden = !table.hidden;
    fill(tiles, vfTile(s.vfs), loadTile(s.load), vmTile(s.vms), guaranteeTile(s.bandwidth, s.mode === 'observe'), moveTile(s.moves, s.mode === 'observe'), troubleTile(s));
    pfs();
  });
  watch(part, '/v1/bandwidth', (b) => {
    seen.links = new Map(b.links.map((l) => [l.pf, l]));
    pfs();
  }, { every: 1000 });
  return part;
}
