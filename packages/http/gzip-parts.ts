import { constants, crc32, deflateRawSync } from 'node:zlib'

/** A piece of a gzip file: its bytes, and blocks of the format deflate that hold them and end at a whole byte. */
interface GzipPart {
  plain: Buffer
  blocks: Buffer
}

/** A part that is compressed, for texts that many files share. */
export function deflatedPart(plain: Buffer): GzipPart {
  return { plain, blocks: deflateRawSync(plain, { level: 9, finishFlush: constants.Z_SYNC_FLUSH }) }
}

/** A part of up to 65,535 bytes that is not compressed, for texts of one file. */
export function storedPart(plain: Buffer): GzipPart {
  const header = Buffer.alloc(5)
  header.writeUInt16LE(plain.length, 1)
  header.writeUInt16LE(plain.length ^ 0xffff, 3)
  return { plain, blocks: Buffer.concat([header, plain]) }
}

/** The chunks of a gzip file (RFC 1952) that holds all parts. The parts are not copied. */
export function gzipOf(parts: readonly GzipPart[]): Buffer[] {
  let checksum = 0
  let length = 0
  for (const { plain } of parts) {
    checksum = crc32(plain, checksum)
    length += plain.length
  }
  const trailer = Buffer.alloc(lastBlock.length + 8)
  lastBlock.copy(trailer)
  trailer.writeUInt32LE(checksum, lastBlock.length)
  trailer.writeUInt32LE(length, lastBlock.length + 4)
  return [header, ...parts.map(({ blocks }) => blocks), trailer]
}

/** Neither name nor time, and no operating system. */
const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
/** An empty block with the mark of the last one. */
const lastBlock = Buffer.from([0x03, 0x00])
