import { waitUntil } from '@sluice/runtime/wait-until'

/** Sends a request, and sends it again while an overloaded Sluice answers 503. Resolves to the first other answer. */
export async function answered<T extends { status: number }>(send: () => Promise<T>, what: string): Promise<T> {
  let answer = await send()
  await waitUntil(async () => {
    if (answer.status === 503) answer = await send()
    return answer.status !== 503
  }, `${what} is answered`)
  return answer
}
