// The page's beginning: what is the same for the host and for a VM.

import { h, fill, text } from './dom.js';
import { follow, watch } from './live.js';
import { host } from './host.js';
import { vmPage } from './vm.js';
import { clock, moment } from './format.js';

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

function connection() {
  const live = document.getElementById('live');
  const words = { live: 'Live', lost: 'No answer', paused: 'Paused' };
  const label = h('span');
  const at = h('span', { class: 'at', 'aria-hidden': 'true' });
  fill(live, h('i', { 'aria-hidden': 'true' }), label, at);
  follow((state) => {
    live.dataset.state = state;
    text(label, words[state]);
  });
  return (status) => text(at, clock(moment(status.observed)));
}

function mode(element, status) {
  const draining = status.drain ? ' · draining' : '';
  element.dataset.mode = status.mode;
  element.title = status.mode === 'enforce' ? 'Sluice moves VFs' : 'Sluice changes nothing; it only shows what it would do';
  fill(element, h('b', null, status.mode), h('span', null, `${status.policy}${draining}`));
}

themes();
const looked = connection();
const vm = /\/vm\/([^/]+)$/.exec(location.pathname);
const modeElement = document.getElementById('mode');
watch(document.querySelector('header.top'), '/v1/status', (status) => {
  mode(modeElement, status);
  looked(status);
});
fill(main);
if (vm) vmPage(main, decodeURIComponent(vm[1]));
else host(main);
