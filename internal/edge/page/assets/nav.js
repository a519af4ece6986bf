// Links to the parts of the page, of which the one in sight is marked.

import { h, fill } from './dom.js';

export function nav(parts) {
  const links = new Map();
  const list = parts.map((part) => {
    const link = h('a', { href: `#${part.id}` }, part.dataset.short ?? part.querySelector('h2').textContent);
    links.set(part, link);
    return link;
  });
  fill(document.getElementById('nav'), list);
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const e of entries) e.isIntersecting ? seen.add(e.target) : seen.delete(e.target);
    const first = parts.find((p) => seen.has(p));
    for (const [part, link] of links) {
      if (part === first) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  }, { rootMargin: '-60px 0px -55% 0px' });
  for (const part of parts) observer.observe(part);
}
