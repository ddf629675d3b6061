import type { ClaimFeed } from './claim-feed.ts'
import type { ConsumerOptions } from './log.ts'
import type { EventLogLogger } from './logger.ts'

/** The claims of one member and the handlers that run on them. */
export interface ClaimSet {
  /**
   * Runs the handler on a new claim, once the handler of the partition's claim before has settled: a member never
   * works twice on one partition at a time.
   */
  start(feed: ClaimFeed): void
  /** The claim of a partition that may still receive blocks. */
  get(partition: number): ClaimFeed | undefined
  /** All claims that were neither ended nor lost. */
  current(): readonly ClaimFeed[]
  lose(partition: number, reason: string): void
  loseAll(reason: string): void
  /** Ends every claim gracefully; resolves when all handlers settled, those of lost claims included. Never rejects. */
  drain(): Promise<void>
}

/** `onFailure` is told of a handler that rejected, or that returned while its claim was going on. */
export function createClaimSet(
  onClaim: ConsumerOptions['onClaim'],
  onFailure: (error: unknown) => void,
  logger: EventLogLogger,
): ClaimSet {
  const feeds = new Map<number, ClaimFeed>()
  const handlers = new Map<number, Promise<void>>()

  async function handle(feed: ClaimFeed, before: Promise<void> | undefined): Promise<void> {
    await before
    if (feed.ended()) return
    const { partition, lost } = feed.claim
    try {
      await onClaim(feed.claim)
      if (!feed.ended()) onFailure(new Error(`The handler of partition ${partition} returned before its claim ended`))
    } catch (error) {
      // A handler usually lets the refused commit of a lost claim through; that ends the claim, not the member.
      if (lost.aborted) logger.debug({ err: error, partition }, 'handler of a lost partition ended')
      else onFailure(error)
    } finally {
      feed.end()
    }
  }

  const get = (partition: number) => {
    const feed = feeds.get(partition)
    return feed === undefined || feed.ended() ? undefined : feed
  }

  const lose = (partition: number, reason: string) => {
    feeds.get(partition)?.lose(reason)
    feeds.delete(partition)
  }

  return {
    start(feed) {
      const { partition } = feed.claim
      lose(partition, 'claimed anew')
      feeds.set(partition, feed)
      handlers.set(partition, handle(feed, handlers.get(partition)))
    },
    get,
    current: () => [...feeds.values()].filter((feed) => !feed.ended()),
    lose,
    loseAll(reason) {
      for (const partition of [...feeds.keys()]) lose(partition, reason)
    },
    async drain() {
      for (const feed of feeds.values()) feed.end()
      await Promise.all(handlers.values())
    },
  }
}
