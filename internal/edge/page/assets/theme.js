// Sets the colours that were chosen before anything is drawn.
'use strict';
try {
  const theme = localStorage.getItem('sluice-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch { /* storage is switched off: the system's colours */ }
