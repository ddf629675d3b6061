/**
 * Removes the files of a site's exports that were made of events received before `before` (Unix ms), and starts those
 * again that are being made. Called before an erasure is completed, possibly several times; must not return before no such
 * file can be downloaded. Throws AppError, retryable while an engine is away.
 */
export type ExpireExports = (siteId: string, before: number) => Promise<void>
