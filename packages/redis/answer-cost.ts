/** An estimate of what a store needs for an answer besides its JSON: names, fingerprint, owner, expiry. */
const overheadBytes = 512

/** The bytes that a stored answer counts against `answerBytesMax` of its API key. */
export function answerCost(json: string): number {
  return Buffer.byteLength(json) + overheadBytes
}
