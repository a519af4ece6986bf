// Small pictures of load over time: what a VM moved on its VF is an area, on virtio a dashed line.

import { s } from './dom.js';

// points is the path of a list of values, n wide, in a picture of width 100 and height 24; gaps are left out.
export function line(values, most, n, height = 24) {
  let path = '';
  let open = false;
  values.forEach((v, i) => {
    if (v === null || v === undefined) {
      open = false;
      return;
    }
    path += `${open ? 'L' : 'M'}${x(i, n)} ${y(v, most, height)}`;
    open = true;
  });
  return path;
}

export function area(values, most, n, height = 24) {
  let path = '';
  let from = -1;
  const end = (i) => {
    if (from >= 0) path += `L${x(i - 1, n)} ${height}L${x(from, n)} ${height}Z`;
    from = -1;
  };
  values.forEach((v, i) => {
    if (v === null || v === undefined) {
      end(i);
      return;
    }
    path += `${from < 0 ? 'M' : 'L'}${x(i, n)} ${y(v, most, height)}`;
    if (from < 0) from = i;
  });
  end(values.length);
  return path;
}

const x = (i, n) => ((i / Math.max(1, n - 1)) * 100).toFixed(2);
const y = (v, most, height) => (height - 1 - (most > 0 ? v / most : 0) * (height - 3)).toFixed(1);

export const largest = (...lists) => lists.reduce((m, list) => (list ?? []).reduce((a, v) => (v > a ? v : a), m), 0);

// spark is both paths of a VM over the last hour.
export function spark(vm, label, most = largest(vm.virtio_packets_per_second, vm.vf_packets_per_second)) {
  const virtio = vm.virtio_packets_per_second ?? [];
  const vf = vm.vf_packets_per_second ?? [];
  const n = Math.max(virtio.length, vf.length);
  return s('svg', { class: 'spark', viewBox: '0 0 100 24', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    s('path', { class: 'vf-area', d: area(vf, most, n) }), s('path', { class: 'vf-line', d: line(vf, most, n) }), s('path', { class: 'virtio-line', d: line(virtio, most, n) }));
}
