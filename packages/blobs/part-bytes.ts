/** Bytes of the smallest part that S3 accepts, unless it is the last one. */
export const partBytesMin = 5 * 1024 * 1024

const partBytesFirst = 8 * 1024 * 1024
const partsOfOneSize = 1_000

/**
 * Bytes of part `n`, from 1: 8 MiB for the first thousand parts, 16 MiB for the next thousand, and so on up to 80 MiB.
 * A small content thus needs little memory, and the 10,000 parts that S3 allows hold 430 GiB.
 */
export function partBytes(n: number): number {
  return partBytesFirst * Math.ceil(n / partsOfOneSize)
}
