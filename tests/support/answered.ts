import { waitUntil } from '@sluice/runtime/wait-until'

/** The answer to a request, which is sent again while a Sluice with too much to do answers 503. */
export async function answered<T extends { status: number }>(send: () => Promise<T>, what: string): Promise<T> {
  let answer = await send()
  await waitUntil(async () => {
    if (answer.status === 503) answer = await send()
    return answer.status !== 503
  }, `${what} is answered`)
  return answer
}
