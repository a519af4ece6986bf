// Before anything is drawn: the colours that were chosen, and nothing in sight until app.js knows what to show.
'use strict';
try {
  const theme = localStorage.getItem('sluice-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch { /* storage is switched off: the system's colours */ }
document.documentElement.classList.add('loading');
setTimeout(() => document.documentElement.classList.remove('loading'), 5000); // whatever happens
