// The bar of a NIC's SLA: what it is guaranteed, allowed and sends.

import { h, name } from './dom.js';
import { bits, shortPPS, rate } from './format.js';

const inPackets = (share) => !share.guarantee?.bits_per_second && !share.limit?.bits_per_second && Boolean(share.guarantee?.packets_per_second || share.limit?.packets_per_second);

export const hasSLA = (share) => Boolean(rate(share.guarantee, '') || rate(share.limit, '') || rate(share.receive_limit, '') || rate(share.allowed, ''));

// taker tells who has most of what is lacking on a link.
export function taker(shortage) {
  const t = shortage?.takers[0];
  return t && [t.domain ? name(t.domain) : 'somebody unknown', ` takes ${bits(t.sent_bits_per_second)}`, !t.limit_bits_per_second && ', not limited'];
}

// slaBar is the bar of a share; shortage is that of its link, if there is one.
export function slaBar(share, shortage) {
  const takes = share.takes_bits_per_second > 0 && h('small', { class: 'bad' }, `▲ takes ${bits(share.takes_bits_per_second)} while others are short`);
  if (!hasSLA(share)) return h('div', { class: 'sla' }, h('span', null, rate(share.sent, 'nothing')), h('small', null, 'no SLA'), takes);
  const [part, unit] = inPackets(share) ? ['packets_per_second', shortPPS] : ['bits_per_second', bits];
  const [guaranteed, promised, limit, allowed, sent] = ['guarantee', 'promised', 'limit', 'allowed', 'sent'].map((k) => share[k]?.[part] ?? 0);
  const most = Math.max(guaranteed, limit, allowed, sent) * 1.08;
  if (!most) return h('span', { class: 'dim' }, '–');
  const at = (n) => `${(n / most) * 100}%`;
  const words = [
    `sends ${unit(sent)}`, guaranteed && `guaranteed ${unit(guaranteed)}`, promised && promised < guaranteed && `promised ${unit(promised)} of it`,
    allowed && `allowed ${unit(allowed)}`, limit && `limit ${unit(limit)}`, share.short_bits_per_second && `short by ${bits(share.short_bits_per_second)}`,
    takes && takes.textContent.slice(2),
  ].filter(Boolean).join(', ');
  return h('div', { class: 'sla' },
    h('div', { class: 'track', role: 'img', 'aria-label': words, title: words },
      allowed > 0 && h('i', { class: 'allowed', style: { width: at(allowed) } }),
      h('i', { class: takes ? 'sent takes' : 'sent', style: { width: at(sent) } }),
      guaranteed > 0 && h('i', { class: 'guaranteed', style: { left: at(guaranteed) } }),
      limit > 0 && h('i', { class: 'limit', style: { left: at(limit) } })),
    h('small', { 'aria-hidden': 'true' }, unit(sent), guaranteed > 0 && ` · ${unit(guaranteed)} guaranteed`, allowed > 0 && ` · ${unit(allowed)} allowed`),
    share.short_bits_per_second > 0 && h('small', { class: 'bad' }, `▲ short by ${bits(share.short_bits_per_second)}`, shortage && [': ', taker(shortage)]), takes);
}

// legend tells what the parts of a bar are.
export const slaLegend = () => h('p', { class: 'legend' },
  [['sent', 'sent'], ['allowed', 'allowed at the moment'], ['guaranteed', 'guaranteed'], ['limit', 'limit']].map(([kind, label]) => h('span', null, h('i', { class: `key-${kind}` }), label)));

export const shareTitle = (share) => [share.nic, share.virtual_pf && [' of virtual PF ', name(share.virtual_pf)]];
