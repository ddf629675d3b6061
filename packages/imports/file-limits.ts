/** Limits of an uploaded file. Sizes are bytes. */
export const fileLimits = {
  /** After decompression. */
  unpackedBytesMax: 20 * 1024 ** 3,
  recordBytesMax: 1024 * 1024,
  /** Columns of a CSV file. */
  columnsMax: 2_000,
  segmentRecordsMax: 100_000,
  /** A segment before compression. */
  segmentBytesMax: 32 * 1024 * 1024,
  /**
   * The row of an imported event. An event has at most 32 KiB when it is sent, but up to seven times as much when it is
   * exported: the names of nested properties are repeated, and `1e20` has become 21 digits. It must come back whole.
   */
  eventRowBytesMax: 256 * 1024,
} as const
