// Runs before the first paint, so that a chosen theme never flashes in after the other. Without a choice, and where storage
// is forbidden, the page follows the system.
try {
  const theme = localStorage.getItem('theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch {
  // Storage is forbidden.
}
