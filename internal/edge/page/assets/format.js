// Figures as people read them, with their units.

const prefixes = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

// si is a figure of three digits, such as 42.9k.
export function si(n) {
  if (n === undefined || n === null || !Number.isFinite(n)) return '–';
  const size = Math.abs(n);
  for (const [unit, prefix] of prefixes) if (size >= unit * 0.9995) return digits(n / unit) + prefix;
  return size >= 1 || size === 0 ? String(Math.round(n)) : n.toFixed(2);
}

const digits = (n) => n.toFixed(Math.abs(n) >= 99.95 ? 0 : Math.abs(n) >= 9.995 ? 1 : 2).replace(/\.0+$/, '');

function withUnit(n, unit) {
  const [, figure, prefix] = /^(.*?)([kMGT]?)$/.exec(si(n));
  return `${figure} ${prefix}${unit}`;
}

// Packets a second, in the words of the commands, and in those of their columns where there is little room.
export const pps = (n) => `${si(n)} packets/s`;
export const shortPPS = (n) => `${si(n)}pps`;
export const bits = (n) => withUnit(n, 'bit/s');
export const percent = (share) => (Number.isFinite(share) ? `${(share * 100).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %` : '–');
export const count = (n, one, many = `${one}s`) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

// rate is both parts of a Rate that are set.
export function rate(r, none = '–') {
  const parts = [];
  if (r?.bits_per_second) parts.push(bits(r.bits_per_second));
  if (r?.packets_per_second) parts.push(pps(r.packets_per_second));
  return parts.join(' and ') || none;
}

export function seconds(n) {
  if (!Number.isFinite(n)) return '–';
  if (n < 0.9995) return `${Math.round(n * 1000)} ms`;
  if (n < 60) return `${digits(n)} s`;
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = parts.findIndex(([unit]) => n >= unit);
  const [unit, label] = parts[at];
  const [below, labelBelow] = parts[at + 1] ?? [1, ''];
  const rest = Math.floor((n % unit) / below);
  return `${Math.floor(n / unit)} ${label}${rest && labelBelow ? ` ${rest} ${labelBelow}` : ''}`;
}

// A time of Go that is not set is of the year 1, or left out.
export const moment = (t) => (t && !t.startsWith('0001') ? Date.parse(t) : NaN);

const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const shortFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

export const clock = (ms) => (Number.isFinite(ms) ? clockFormat.format(ms) : '–');
export const shortClock = (ms) => (Number.isFinite(ms) ? shortFormat.format(ms) : '–');

// natural orders names as people do: web-2 before web-10.
export const natural = new Intl.Collator('en', { numeric: true }).compare;
