/**
 * The child's half of tied-child.ts. Calls `end` once when the parent is gone. Signals that a terminal, npm or a service
 * manager sends to everybody are ignored: the parent ends its engines last, when nothing writes into them any more.
 */
export function tieToParent(end: () => void): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.once('disconnect', end)
  if (!process.connected) end()
}
