// What the words of a reason mean, as docs/policies.md has them.

import { h } from './dom.js';

const terms = {
  Score: 'how much a VM gains from a VF, as the policy counts it: with most policies its packets a second.',
  Price: 'the score at which a VF changes hands: half way between the lowest that gets one and the highest that does not.',
  Regret: 'the packets that have been lost so far by not moving the VF; it is moved when that exceeds what the move costs.',
  'To beat': 'the VM that holds the VF which this one would get: its score has to be exceeded.',
  'Runner-up': 'the VM that would get this VF next.',
};

// term is one of these words with its meaning, where it has one.
export const term = (word) => (terms[word] ? h('abbr', { title: terms[word] }, word) : word);

// glossary has all of them, for those who have no pointer to rest on a word.
export const glossary = () => h('details', { class: 'glossary' }, h('summary', null, 'What score, price, regret and “to beat” mean'),
  h('dl', null, Object.entries(terms).map(([word, meaning]) => h('div', null, h('dt', null, word), h('dd', null, meaning)))));
