// The page's beginning: what is the same for the host and for a VM.

import { h, fill, text, command } from './dom.js';
import { daemon, follow, watch } from './live.js';
import { host } from './host.js';
import { vmPage } from './vm.js';
import { clock, moment, seconds } from './format.js';

const main = document.getElementById('main');

function themes() {
  const select = document.getElementById('theme');
  const root = document.documentElement;
  select.value = root.dataset.theme ?? '';
  select.addEventListener('change', () => {
    if (select.value) root.dataset.theme = select.value;
    else delete root.dataset.theme;
    try {
      localStorage.setItem('sluice-theme', select.value);
    } catch { /* storage is switched off: until the page is loaded again */ }
    dispatchEvent(new Event('colours'));
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('colours')));
}

const late = 30; // seconds after which an observation of the host is old

const ago = (s) => `${seconds(Math.max(1, Math.round(s)))} ago`;

// connection tells whether what is shown is of now: in the head, and by a banner across the page while it is not.
function connection() {
  const live = document.getElementById('live');
  const words = { live: 'Live', lost: 'No answer', paused: 'Paused' };
  const label = h('span');
  const seen = h('span', { class: 'at', 'aria-hidden': 'true' });
  const banner = document.getElementById('banner');
  const said = h('b');
  const since = h('span', { 'aria-hidden': 'true' }); // it changes every second
  const look = h('span');
  fill(banner, h('p', null, said, ' ', since), h('p', null, look, ' ', command('systemctl status sluice'), ' ', command('journalctl -u sluice')));
  fill(live, h('i', { 'aria-hidden': 'true' }), label, seen);
  let observed = NaN; // by the clock of the daemon
  let old = NaN; // when the host was last observed, by the clock of this browser
  const draw = () => {
    const lost = daemon.gone;
    const stale = !lost && Date.now() - old > late * 1e3;
    document.documentElement.toggleAttribute('data-old', lost || stale);
    banner.hidden = !lost && !stale;
    text(seen, lost && Number.isFinite(daemon.seen) ? `last seen ${ago((Date.now() - daemon.seen) / 1e3)}` : clock(observed));
    if (banner.hidden) return;
    text(said, lost ? 'The daemon does not answer.' : 'The daemon does not see the host.');
    if (lost) text(since, Number.isFinite(daemon.seen) ? `Last seen ${ago((Date.now() - daemon.seen) / 1e3)}, at ${clock(daemon.seen)}.` : 'It has not answered since this page was opened.');
    else text(since, `It last observed it ${ago((Date.now() - old) / 1e3)}.`);
    text(look, 'All figures below are of that time. VMs keep the VFs that they have. Look on the host:');
  };
  setInterval(draw, 1000);
  follow((state) => {
    live.dataset.state = state;
    text(label, words[state]);
    draw();
  });
  return (status) => {
    observed = moment(status.observed);
    old = Number.isFinite(observed) ? Date.now() - status.observed_age_seconds * 1e3 : NaN;
    draw();
  };
}

function mode(element, status) {
  const draining = status.drain ? ' · draining' : '';
  element.dataset.mode = status.mode;
  element.title = status.mode === 'enforce' ? 'Sluice moves VFs' : 'Sluice changes nothing; it only shows what it would do';
  fill(element, h('b', null, status.mode), h('span', null, `${status.policy}${draining}`));
}

// What is in sight appears at once, when all of it is known: otherwise each answer would push the rest down.
for (const e of ['ready', 'lost']) addEventListener(e, () => requestAnimationFrame(() => requestAnimationFrame(() => document.documentElement.classList.remove('loading'))), { once: true });
themes();
const looked = connection();
const vm = /\/vm\/([^/]+)$/.exec(location.pathname);
const modeElement = document.getElementById('mode');
watch(document.querySelector('.top'), '/v1/status', (status) => {
  mode(modeElement, status);
  looked(status);
});
fill(main);
if (vm) vmPage(main, decodeURIComponent(vm[1]));
else host(main);
