/**
 * Hash of an event's site and id. It determines the partition, so that copies of an event are in the same one. FNV-1a
 * over UTF-16 units, then the first half of MurmurHash3's 32-bit finalizer (without its second multiplication), because
 * partitions use the lowest bits.
 */
export function keyHash(siteId: string, eventId: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < siteId.length; i++) hash = Math.imul(hash ^ siteId.charCodeAt(i), 0x01000193)
  // Separates the two texts: ("a", "bc") and ("ab", "c") are different pairs.
  hash = Math.imul(hash ^ 0xffff, 0x01000193)
  for (let i = 0; i < eventId.length; i++) hash = Math.imul(hash ^ eventId.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}

/**
 * The beginning of the field in an encoded line. Earlier texts of the line can't contain it, because quotes within
 * texts are escaped. Properties come after it.
 */
const eventIdField = ',"event_id":"'

/**
 * `keyHash` for the encoded line of an event whose id the gateway created. Such an id has no characters that are
 * escaped.
 */
export function keyHashOfGeneratedId({ siteId, line }: { siteId: string; line: string }): number {
  const start = line.indexOf(eventIdField) + eventIdField.length
  return keyHash(siteId, line.slice(start, line.indexOf('"', start)))
}
