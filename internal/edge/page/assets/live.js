// Answers of the API, kept up to date while the elements made from them are in sight.

import { at } from './dom.js';

const slowest = 20; // one update costs at most a twentieth of the time until the next
const retry = 2000; // milliseconds until an answer that failed is asked for again
const longest = 15e3; // milliseconds between two questions whether the daemon is back
const patience = 30e3; // milliseconds until a question without an answer counts as unanswered
const quiet = 5e3; // milliseconds without news after which the daemon is asked how it is

// daemon is what is known of the daemon itself: whether it is gone, and when it last answered.
export const daemon = { gone: false, seen: NaN, lost: () => {} };

// Silence is that nobody answers, or only somebody in between.
class Silence extends Error {}

// Refusal is an error that the daemon answers with, and its remedy.
class Refusal extends Error {
  constructor(status, body) {
    super(body.error ?? `the daemon answered with status ${status}`);
    this.status = status;
    this.remedy = body.remedy ?? '';
  }
}

// complaint is what to show of a request that failed.
export const complaint = (err) => `${err.message}. ${err.remedy ?? ''}`;

async function ask(path) {
  let answer;
  try {
    answer = await fetch(at(path), { cache: 'no-store', signal: AbortSignal.timeout(patience) });
  } catch (err) {
    throw new Silence(err.message);
  }
  if (answer.status === 502 || answer.status === 504) throw new Silence(`status ${answer.status}`);
  daemon.seen = Date.now();
  if (answer.status === 304) return null;
  let body = {};
  try {
    body = await answer.json();
  } catch { /* said below */ }
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

// Watch is one path of the API. It is asked again after news, while one of its readers is in sight, and no more
// often than what its readers do with it allows.
class Watch {
  constructor(path, every) {
    Object.assign(this, { path, every, readers: new Set(), due: 0, stale: true, busy: false, timer: 0, data: null });
  }

  wanted() {
    return !document.hidden && !daemon.gone && [...this.readers].some((r) => r.visible);
  }

  wake() {
    if (!this.stale || this.busy || !this.wanted()) return;
    clearTimeout(this.timer);
    const wait = this.due - performance.now();
    if (wait > 0) this.timer = setTimeout(() => this.wake(), wait);
    else this.load();
  }

  async load() {
    this.busy = true;
    this.stale = false;
    const path = typeof this.path === 'function' ? this.path() : this.path;
    let begun = performance.now();
    let pause = this.every;
    try {
      const data = await ask(path);
      begun = performance.now();
      if (data !== null) this.data = data;
      for (const r of this.readers) if (r.visible || !r.drawn) this.draw(r);
    } catch (err) {
      if (err instanceof Silence) daemon.lost();
      else for (const r of this.readers) r.failed(err);
      this.stale = err.status !== 404;
      this.failed = true;
      pause = retry;
    }
    this.busy = false;
    if ([...watches.values()].every((w) => w.data || w.failed || !w.wanted())) dispatchEvent(new Event('ready'));
    this.due = performance.now() + Math.max(pause, slowest * (performance.now() - begun));
    this.wake();
  }

  draw(r) {
    r.drawn = true;
    r.read(this.data);
  }
}

const watches = new Map();

// watch calls read with the answer to a path, as long as the element is in sight, and failed with what went wrong. every is
// the least time between two answers, in milliseconds.
export function watch(element, path, read, { every = 500, failed = () => {}, key = path } = {}) {
  let w = watches.get(key);
  if (!w) watches.set(key, w = new Watch(path, every));
  w.every = Math.min(w.every, every);
  const reader = { read, failed, visible: false, drawn: false };
  w.readers.add(reader);
  new IntersectionObserver((entries) => {
    reader.visible = entries.at(-1).isIntersecting;
    if (reader.visible && w.data && !w.busy) w.draw(reader);
    w.wake();
  }, { rootMargin: '200px' }).observe(element);
  return { again: () => { w.stale = true; w.due = 0; w.wake(); } };
}

function news() {
  for (const w of watches.values()) {
    w.stale = true;
    w.wake();
  }
}

// follow keeps told of revisions, by events or else by waiting for them, and tells state whether the daemon answers. While it
// does not, nothing is asked but whether it is back, less and less often.
export function follow(state) {
  let revision;
  let source;
  let timer = 0;
  let pause = retry;
  let heard = performance.now();
  const told = (r) => {
    heard = performance.now();
    daemon.seen = Date.now();
    pause = retry;
    if (daemon.gone) {
      daemon.gone = false;
      dispatchEvent(new Event('again')); // perhaps as another one
    }
    state('live');
    if (r === revision) return;
    revision = r;
    news();
  };
  const listen = () => {
    source?.close();
    source = new EventSource(at('/v1/events'));
    source.addEventListener('revision', (e) => told(e.data));
    source.onerror = () => {
      source.close();
      source = undefined;
      poll();
    };
  };
  // poll waits for one revision, and is also what tells that the daemon is back.
  const poll = async () => {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const status = await ask(`/v1/status${revision === undefined ? '' : `?after=${revision}&wait=20s`}`);
      if (status) told(String(status.revision));
      if (!document.hidden && !source) listen();
    } catch {
      lose();
      clearTimeout(timer);
      timer = setTimeout(poll, pause);
      pause = Math.min(2 * pause, longest);
    }
  };
  const lose = () => {
    source?.close();
    source = undefined;
    revision = undefined;
    if (daemon.gone) return;
    daemon.gone = true;
    state('lost');
    dispatchEvent(new Event('lost'));
  };
  daemon.lost = () => {
    if (daemon.gone) return;
    lose();
    timer = setTimeout(poll, pause);
  };
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      source?.close();
      source = undefined;
      if (!daemon.gone) state('paused');
    } else if (daemon.gone) {
      pause = retry;
      poll();
    } else {
      news();
      listen();
    }
  });
  setInterval(() => { // a daemon that does not look at the host has no news
    if (daemon.gone || document.hidden || performance.now() - heard < quiet) return;
    const w = watches.get('/v1/status');
    if (w) w.stale = true;
    w?.wake();
  }, quiet / 2);
  listen();
}
