import type { Consumption, LimitState } from '@sluice/access/limiter'

/**
 * The time window of one counter as this process knows it: the consumed part of the limit, and the end of the window.
 * Every `now` is Unix ms.
 */
export class LimitWindow {
  consumed = 0
  /** Unix ms; 0 before the first window. */
  endsAt = 0
  readonly #lengthMs: number

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /** False also for an end that is further away than a window is long: the clock was set back since. */
  isOpen(now: number): boolean {
    return now < this.endsAt && this.endsAt - now <= this.#lengthMs
  }

  /** The consumed part of the limit; 0 when no window is open. */
  consumedAt(now: number): number {
    return this.isOpen(now) ? this.consumed : 0
  }

  /** Counts `cost` whatever the limit; opens a window when none is open. */
  count(cost: number, now: number): void {
    if (this.isOpen(now)) {
      this.consumed += cost
    } else if (cost > 0) {
      this.consumed = cost
      this.endsAt = now + this.#lengthMs
    }
  }

  /** Takes back a cost that was counted. */
  refund(cost: number, now: number): void {
    this.consumed = Math.max(0, this.consumedAt(now) - cost)
  }

  /**
   * Merges the state that Redis returned; `counted` is the cost that Redis has just counted for this process. Within an
   * open window the local count does not fall below what it was: a Redis that lost its data, or that was unavailable
   * while this process counted by itself, is no reason to start anew.
   */
  mergeRemote(consumed: number, endsAt: number, counted: number, now: number): void {
    if (this.isOpen(now)) {
      this.consumed = Math.max(this.consumed + counted, consumed)
    } else {
      this.consumed = consumed
      this.endsAt = endsAt
    }
  }

  /** The state of `limit` when `consumed` of it is consumed. */
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
