import type { Consumption, LimitState } from '@sluice/access/limiter'

/**
 * What this process knows of a counter's time window: the consumed part of the limit, and the end of the window. Every
 * `now` is Unix ms.
 */
export class LimitWindow {
  consumed = 0
  /** Unix ms; 0 before the first window. */
  endsAt = 0
  readonly #lengthMs: number

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /**
   * False also when the end is further away than the length of a window, because the clock was set back in the
   * meantime.
   */
  isOpen(now: number): boolean {
    return now < this.endsAt && this.endsAt - now <= this.#lengthMs
  }

  /** The consumed part of the limit; 0 when no window is open. */
  consumedAt(now: number): number {
    return this.isOpen(now) ? this.consumed : 0
  }

  /** Counts `cost` without comparing it with a limit. Opens a window when none is open. */
  count(cost: number, now: number): void {
    if (this.isOpen(now)) {
      this.consumed += cost
    } else if (cost > 0) {
      this.consumed = cost
      this.endsAt = now + this.#lengthMs
    }
  }

  /** Subtracts a cost that was counted. */
  refund(cost: number, now: number): void {
    this.consumed = Math.max(0, this.consumedAt(now) - cost)
  }

  /**
   * Merges the state that Redis returned. `counted` is the cost that Redis has just counted for this process, negative
   * for a refund. Within an open window, only refunds lower the local count: it remains valid when Redis has lost its
   * data, or was unavailable while this process counted locally.
   */
  mergeRemote(consumed: number, endsAt: number, counted: number, now: number): void {
    if (this.isOpen(now)) {
      this.consumed = Math.max(this.consumed + counted, consumed)
    } else {
      this.consumed = consumed
      this.endsAt = endsAt
    }
  }

  /** The state of a limit of which `consumed` is consumed. */
  stateAfter(consumed: number, limit: number, now: number): LimitState {
    return {
      remaining: Math.max(0, limit - consumed),
      resetAt: this.isOpen(now) ? this.endsAt : now + this.#lengthMs,
    }
  }

  /** Counts `cost` if all of it fits into `limit`. */
  consume(cost: number, limit: number, now: number): Consumption {
    const granted = this.consumedAt(now) + cost <= limit
    if (granted) this.count(cost, now)
    const { remaining, resetAt } = this.stateAfter(this.consumedAt(now), limit, now)
    return { granted, remaining, resetAt }
  }
}
