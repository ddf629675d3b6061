/** Limits of the paths for Segment's clients (docs/http-interface.md#segment), in bytes after decompression. */
export const segmentLimits = {
  /**
   * Body of a single message. Segment allows 32 kB. Fields that are not stored (`integrations`, `_metadata`) count
   * towards this limit, but not towards the 32 KiB of the event.
   */
  messageBodyBytesMax: 64 * 1024,
  /** Body of a batch. Segment allows 500 kB. */
  batchBodyBytesMax: 1024 * 1024,
} as const
