/** A UUIDv7 for a time in Unix ms. crypto.randomUUID is missing in pages without HTTPS; getRandomValues is not. */
export function makeId(now: number): string {
  const time = now.toString(16).padStart(12, '0')
  // The 8 stands for the variant, and may have two random bits as well: 72 are enough.
  return `${time.slice(0, 8)}-${time.slice(8)}-7xxx-8xxx-xxxxxxxxxxxx`.replace(/x/g, () =>
    (Number(crypto.getRandomValues(new Uint8Array(1))) & 15).toString(16),
  )
}
