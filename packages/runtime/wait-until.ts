import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves once `condition` holds, which is checked every 15 ms. Throws an Error that begins with `what` after `timeoutMs`. */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs: number,
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await sleep(15)
  }
}
