/** Limits of an uploaded file. Sizes are bytes. */
export const fileLimits = {
  /** Size after decompression. */
  unpackedBytesMax: 20 * 1024 ** 3,
  /** Records of a file. Without a limit, 20 MB of compressed two-byte lines would become 10 billion records. */
  recordsMax: 100_000_000,
  recordBytesMax: 1024 * 1024,
  /** Maximum number of columns of a CSV file. */
  columnsMax: 2_000,
  segmentRecordsMax: 100_000,
  /** Size of a segment before compression. */
  segmentBytesMax: 32 * 1024 * 1024,
  /**
   * Size of the row of an imported event. A sent event has at most 32 KiB, but an exported one up to seven times as
   * much: names of nested properties are repeated, and `1e20` has become 21 digits. An export must be importable again.
   */
  eventRowBytesMax: 256 * 1024,
} as const
