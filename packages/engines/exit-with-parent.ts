/**
 * The child's half of child-process.ts. Calls `end` once when the parent process has ended. Signals that a terminal,
 * npm or a service manager sends to all processes are ignored: the parent ends its engines last, when nothing writes
 * into them any more.
 */
export function exitWithParent(end: () => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.once('disconnect', end)
  if (!process.connected) end()
}
