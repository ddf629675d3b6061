import { sleep } from './sleep.ts'

/**
 * Resolves once `condition` holds, which is checked every 15 ms. Throws an Error that begins with `what` after
 * `timeoutMs`. The default is long enough for a machine with too much to do. A wait that succeeds ends at once.
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  what: string,
  timeoutMs = 120_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await sleep(15)
  }
}
