/**
 * SQL of `keyHash` (packages/events/key-hash.ts) of two text columns, a UInt32. An event's shard is this hash modulo
 * the number of shards. SQL and TypeScript must agree for every text, otherwise the copies of an event would be on two
 * shards.
 */
export function keyHashSql(siteId: string, eventId: string): string {
  const units = `arrayConcat(${unitsSql(siteId)}, [toUInt32(0xffff)], ${unitsSql(eventId)})`
  const fnv = `arrayFold((h, unit) -> toUInt32(bitXor(h, unit) * 0x01000193), ${units}, toUInt32(0x811c9dc5))`
  return `arrayMap(h -> bitXor(h, bitShiftRight(h, 13)),
    arrayMap(h -> toUInt32(bitXor(h, bitShiftRight(h, 16)) * 0x85ebca6b), [${fnv}]))[1]`
}

/**
 * SQL of the UTF-16 units of a text, an Array(UInt32). The units of an ASCII text, which is the most frequent kind, are
 * its bytes.
 */
function unitsSql(text: string): string {
  const bytes = `arrayMap(byte -> toUInt32(reinterpretAsUInt8(byte)), splitByString('', ${text}))`
  return `if(length(${text}) = lengthUTF8(${text}), ${bytes}, ${decodedSql(bytes)})`
}

/**
 * SQL of the UTF-16 units of a text, from its UTF-8 bytes. Every byte that is not a continuation byte begins a
 * character.
 */
function decodedSql(bytes: string): string {
  const bits = (byte: string, shift: number): string => `bitShiftLeft(bitAnd(${byte}, 0x3f), ${shift})`
  const [two, three, four] = [
    `bitOr(bitShiftLeft(bitAnd(a, 0x1f), 6), ${bits('b', 0)})`,
    `bitOr(bitOr(bitShiftLeft(bitAnd(a, 0x0f), 12), ${bits('b', 6)}), ${bits('c', 0)})`,
    `bitOr(bitOr(bitOr(bitShiftLeft(bitAnd(a, 0x07), 18), ${bits('b', 12)}), ${bits('c', 6)}), ${bits('d', 0)})`,
  ]
  // A character of four bytes has two units, a surrogate pair.
  const pair = `[toUInt32(0xd7c0 + bitShiftRight(${four}, 10)), toUInt32(0xdc00 + bitAnd(${four}, 0x3ff))]`
  const shifted = [1, 2, 3].map((by) => `arrayShiftLeft(${bytes}, ${by})`).join(', ')
  return `arrayFlatten(arrayMap((a, b, c, d) -> multiIf(
        a < 0x80, [a], a < 0xc0, emptyArrayUInt32(), a < 0xe0, [toUInt32(${two})], a < 0xf0, [toUInt32(${three})], ${pair}),
        ${bytes}, ${shifted}))`
}
