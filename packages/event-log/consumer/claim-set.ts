import type { Logger } from '@sluice/runtime/logger'
import type { ConsumerOptions } from '../log.ts'
import type { ClaimFeed } from './claim-feed.ts'

/** The claims of one member and the handlers that run on them. */
export interface ClaimSet {
  /**
   * Runs the handler on a new claim after the handler of the partition's previous claim has settled, so that a member
   * never runs two handlers on one partition at the same time.
   */
  start(feed: ClaimFeed): void
  /** The claim of a partition that may still receive blocks. */
  get(partition: number): ClaimFeed | undefined
  /** All claims that were neither ended nor lost. */
  current(): readonly ClaimFeed[]
  lose(partition: number, reason: string): void
  loseAll(reason: string): void
  /**
   * Ends every claim gracefully. Resolves when all handlers have settled, including those of lost claims; never
   * rejects. After a failure, a claim whose handler takes longer than 5 s is lost, because the handler may wait for an
   * unavailable store.
   */
  drain(options?: { hasFailed: boolean }): Promise<void>
}

/** Time that the other handlers of a member get to settle after one has failed, in ms. */
const graceMs = 5_000

/** `onFailure` gets the error of a handler that rejected, or that returned before its claim ended. */
export function createClaimSet(
  onClaim: ConsumerOptions['onClaim'],
  onFailure: (error: unknown) => void,
  logger: Pick<Logger, 'debug'>,
): ClaimSet {
  const feeds = new Map<number, ClaimFeed>()
  const handlers = new Map<number, Promise<void>>()

  async function runHandler(feed: ClaimFeed, previous: Promise<void> | undefined): Promise<void> {
    await previous
    if (feed.hasEnded()) return
    const { partition, lost } = feed.claim
    try {
      await onClaim(feed.claim)
      if (!feed.hasEnded())
        onFailure(new Error(`The handler of partition ${partition} returned before its claim ended`))
    } catch (error) {
      // A handler usually rethrows the error of a refused commit. If the claim is lost, such an error ends the claim
      // but not the member.
      if (lost.aborted) logger.debug({ err: error, partition }, 'claim handler failed after its partition was lost')
      else onFailure(error)
    } finally {
      feed.end()
    }
  }

  const get = (partition: number) => {
    const feed = feeds.get(partition)
    return feed === undefined || feed.hasEnded() ? undefined : feed
  }

  const lose = (partition: number, reason: string) => {
    feeds.get(partition)?.lose(reason)
    feeds.delete(partition)
  }

  const loseAll = (reason: string) => {
    for (const partition of [...feeds.keys()]) lose(partition, reason)
  }

  return {
    start(feed) {
      const { partition } = feed.claim
      lose(partition, 'claimed again')
      feeds.set(partition, feed)
      handlers.set(partition, runHandler(feed, handlers.get(partition)))
    },
    get,
    current: () => [...feeds.values()].filter((feed) => !feed.hasEnded()),
    lose,
    loseAll,
    async drain({ hasFailed } = { hasFailed: false }) {
      for (const feed of feeds.values()) feed.end()
      const loseSlow = (): void => loseAll('another handler failed')
      const timer = hasFailed ? setTimeout(loseSlow, graceMs) : undefined
      await Promise.all(handlers.values())
      clearTimeout(timer)
    },
  }
}
