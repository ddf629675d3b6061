/** A UUIDv7 for a time in Unix ms. crypto.randomUUID is missing in pages without HTTPS; getRandomValues is not. */
export function makeId(now: number): string {
  const time = now.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7xxx-yxxx-xxxxxxxxxxxx`.replace(/[xy]/g, (place) => {
    const [byte = 0] = crypto.getRandomValues(new Uint8Array(1))
    return (place === 'x' ? byte & 15 : (byte & 3) | 8).toString(16)
  })
}
