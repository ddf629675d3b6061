import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Resolves once `condition` holds, which is checked every 15 ms. Throws an Error that begins with `what` after
 * `timeoutMs`. The default outlasts a machine with too much to do: tests wait for what must come, and a wait that
 * succeeds is short.
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 120_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await sleep(15)
  }
}
