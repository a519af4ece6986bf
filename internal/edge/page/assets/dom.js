// Elements made of data. Whatever comes from the host is text: there is no innerHTML here.

const svgSpace = 'http://www.w3.org/2000/svg';

// The path that this page is served under: sluice dashboard has one that cannot be guessed.
const root = new URL('..', import.meta.url).pathname;

// at is a path of this server as a browser asks for it.
export const at = (path) => root + path.slice(1);

// Characters that turn text around, or that nobody sees, are written as their numbers: a VM may
// have been named so that it reads like another.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function clean(text) {
  return String(text).replace(hidden, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function make(node, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'style') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (key === 'data') Object.assign(node.dataset, value);
    else node.setAttribute(key, value === true ? '' : clean(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : clean(child));
  }
}

// h makes an element of HTML, s one of SVG.
export const h = (tag, props, ...children) => make(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => make(document.createElementNS(svgSpace, tag), props, children);

// fill replaces what an element holds, and keeps the focus on the thing with the same data-key.
export function fill(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement.closest('[data-key]')?.dataset.key : undefined;
  node.replaceChildren();
  add(node, children);
  if (focused !== undefined) [...node.querySelectorAll('[data-key]')].find((n) => n.dataset.key === focused)?.focus({ preventScroll: true });
  return node;
}

// text changes what an element says only if it is something else: screen readers hear changes.
export function text(node, value) {
  const t = clean(value);
  if (node.textContent !== t) node.textContent = t;
}

// keyed keeps one element for each item, in the order of the items, and has update bring it up to date.
export function keyed(parent, items, key, create, update) {
  parent.nodes ??= new Map();
  const seen = new Set();
  let last = null;
  for (const item of items) {
    const k = key(item);
    seen.add(k);
    let node = parent.nodes.get(k);
    if (!node) parent.nodes.set(k, node = create(item));
    update(node, item);
    const wanted = last ? last.nextSibling : parent.firstChild;
    if (node !== wanted) parent.insertBefore(node, wanted);
    last = node;
  }
  for (const [k, node] of parent.nodes) {
    if (!seen.has(k)) {
      node.remove();
      parent.nodes.delete(k);
    }
  }
}

// name shows what somebody called a VM: set apart, so that its writing direction stays its own.
export const name = (value) => h('bdi', { class: 'name', title: value.length > 40 ? value : undefined }, value);

// vmPath is the address of the page of a VM.
export const vmPath = (uuid) => at(`/vm/${encodeURIComponent(uuid)}`);

export const vmLink = (vm) => h('a', { href: vmPath(vm.uuid), data: { key: `vm ${vm.uuid}` } }, name(vm.domain || vm.uuid));

// A command is offered for copying only where a shell takes each of its words as it stands: texts may hold
// names that somebody chose.
const safe = /^(sudo )?(sluice|virsh|systemctl|journalctl|ip|modprobe|apt-get|apt|lspci|dmesg)( [\w./:=@%+,-]+)+$/;

// lacking are commands that run only with more words than these, which texts name in general.
const lacking = /^(sudo )?sluice( (sla set( [^- ]+)?|sla (clear|show)|vpf( \w+)?|pin|release|unpin|explain|prepare|qualify|sim|sla|config))?$/;

// runs reports whether a command can be run as it stands.
const runs = (words) => safe.test(words) && !lacking.test(words);

// word names a VM in a command: by its UUID if a shell would not take the name as one word.
export const word = (vm) => (/^[\w.][\w.-]*$/.test(vm.domain) ? vm.domain : vm.uuid);

export function command(words) {
  const button = h('button', { class: 'copy', type: 'button', 'aria-label': `Copy: ${words}`, data: { key: `copy ${words}` } }, 'Copy');
  button.addEventListener('click', async () => {
    let said = 'Copied';
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      getSelection().selectAllChildren(button.previousSibling);
      said = 'Selected';
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  return h('span', { class: 'command' }, h('code', null, words), button);
}

// prose shows `commands` in a text as such. about is what the text speaks of: what stands in its name is
// nobody's advice.
export function prose(value, about = '') {
  return value.split(/`([^`]+)`/).map((part, i) => {
    if (i % 2 === 0) return part;
    return runs(part) && !about.includes(part) ? command(part) : h('code', null, part);
  });
}

// section is a part of the page with a heading, an explanation, and a body.
export function section(key, title, hint, ...children) {
  return h('section', { id: key, class: 'part', 'aria-labelledby': `${key}-title` },
    h('div', { class: 'part-head' }, h('h2', { id: `${key}-title`, tabindex: '-1' }, title), hint && h('p', { class: 'hint' }, hint)), children);
}

// head is the head of a table, with the titles of its columns.
export const head = (titles) => h('thead', null, h('tr', null, titles.map((t) => h('th', { scope: 'col' }, t))));

// cell is one of a table whose rows are stacked in a narrow window: there the label stands above it.
export const cell = (label, ...children) => h('td', { 'data-label': label }, children);

// facts lists names and values, leaving out those without a value.
export const facts = (list) => h('dl', { class: 'figures' },
  list.filter(([, v]) => v && v !== '–').map(([k, v]) => h('div', null, h('dt', null, k), h('dd', null, v))));

// choice is a control with its label.
export const choice = (label, control) => h('label', { class: 'choice' }, h('span', null, label), control);

// scroller holds a table that may be wider than the window.
export const scroller = (label, ...children) => h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table: ${label}` }, children);

// busy tells whether somebody points at something in an element, presses it, or walks through it by keyboard. A touch leaves
// :hover behind where it was, so that does not count after one.
let touched = false;
addEventListener('pointerover', (e) => { touched = e.pointerType === 'touch'; }, true);
export const busy = (node) => node.matches(':active') || Boolean(node.querySelector(':focus-visible')) || (!touched && node.matches(':hover'));

// hold redraws an element when there is news, unless somebody is busy in it: then it waits until they leave, and note says so.
// now redraws at once.
export function hold(node, note, draw) {
  const now = () => { note.hidden = true; draw(); };
  const left = () => setTimeout(() => { if (!note.hidden && !busy(node)) now(); });
  node.addEventListener('pointerleave', left);
  node.addEventListener('focusout', left);
  return { now, news: () => { if (busy(node) && node.firstChild) note.hidden = false; else now(); } };
}

export const heldNote = () => h('p', { class: 'hint held', hidden: true }, 'Not updated while you use it.');

const quiet = 6000; // milliseconds

// steady is an element that keeps its height for a while when it holds less, so that what is below does not jump with each change.
// Its style gives --most, beyond which it scrolls.
export function steady(props, ...children) {
  const inner = h('div', null, children);
  const outer = h('div', props, inner);
  let kept = 0;
  let since = 0; // the most that was needed since it needs less
  let timer = 0;
  let width = 0;
  const keep = (height) => {
    clearTimeout(timer);
    [kept, since, timer] = [height, 0, 0];
    outer.style.minHeight = `min(${height}px, var(--most))`;
  };
  new ResizeObserver(() => {
    const need = inner.offsetHeight;
    if (need >= kept || inner.offsetWidth !== width) { // text of another width has another height
      width = inner.offsetWidth;
      keep(need);
      return;
    }
    since = Math.max(since, need);
    timer ||= setTimeout(() => keep(since), quiet);
  }).observe(inner);
  return outer;
}

// show opens the dialog with that title; closing gives the focus back, to a new element where news have replaced the old one, and
// to the heading of its part where that has left the page. A dialog that shows one thing after another goes back to where it began.
export function show(title, ...children) {
  const dialog = document.getElementById('dialog');
  const close = h('button', { type: 'button', class: 'close', 'aria-label': 'Close', onclick: () => dialog.close() }, '✕');
  fill(dialog, h('div', { class: 'dialog-head' }, h('h2', { id: 'dialog-title' }, title), close), h('div', { class: 'dialog-body' }, children));
  dialog.onclick = (e) => { if (e.target === dialog) dialog.close(); };
  if (dialog.open) { close.focus(); return; }
  const from = document.activeElement;
  const key = from.dataset.key;
  const heading = from.closest('section')?.querySelector('h2') ?? document.getElementById('main');
  dialog.onclose = () => (from.isConnected ? from : [...document.querySelectorAll('[data-key]')].find((n) => n.dataset.key === key) ?? heading).focus({ preventScroll: true });
  dialog.showModal();
}
