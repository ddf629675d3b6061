import { internalMessage } from '@sluice/runtime/errors'

/**
 * Awaits the removal of a file that no record names any more. A failure does not change the answer to the client: it is
 * noted in the request's log line for the operator, as `file_not_removed`.
 */
export async function removeOrLog(
  removal: Promise<unknown>,
  log: (fields: { file_not_removed: string }) => void,
): Promise<void> {
  await removal.catch((error: unknown) => log({ file_not_removed: internalMessage(error) }))
}
