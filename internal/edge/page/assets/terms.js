// What the words of a reason mean, as docs/policies.md has them.

import { h } from './dom.js';

const terms = {
  Score: 'how much a VM gains from a VF, as the policy measures it: for most policies, its packets per second.',
  Price: 'the score at which a VF changes hands: halfway between the lowest that gets one and the highest that does not.',
  Regret: 'the packets lost so far by not moving the VF; it is moved when they exceed the cost of the move.',
  Swap: 'what changing places with the VM below or above would gain, and what must be gained for it: time without a VF, packets lost, the risk of a move.',
  Style: 'how patient the policy is with loads as they are now.',
  'To beat': 'the VM that holds the VF this one would get: its score must be exceeded.',
  'Runner-up': 'the VM that would get this VF next.',
};

// term is one of these words with its meaning, where it has one.
export const term = (word) => (terms[word] ? h('abbr', { title: terms[word] }, word) : word);

// glossary has all of them, for those who have no pointer to rest on a word.
export const glossary = () => h('details', { class: 'glossary' }, h('summary', null, 'What score, price, regret and “to beat” mean'),
  h('dl', null, Object.entries(terms).map(([word, meaning]) => h('div', null, h('dt', null, word), h('dd', null, meaning)))));
