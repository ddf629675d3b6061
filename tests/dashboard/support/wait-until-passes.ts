import { waitUntil } from '@sluice/runtime/wait-until'

/** Repeats a check until it passes; throws its last error after `timeoutMs`. For what a page shows in a moment. */
export async function waitUntilPasses(check: () => Promise<void> | void, timeoutMs?: number): Promise<void> {
  let last: unknown
  const passes = async (): Promise<boolean> => {
    try {
      await check()
      return true
    } catch (error) {
      last = error
      return false
    }
  }
  await waitUntil(passes, 'the check passes', timeoutMs).catch(() => {
    throw last
  })
}
