import type { LimitState, Spent } from './ports.ts'

/** What is known of one counter: what was counted, and until when that holds. */
export class Window {
  used = 0
  /** Unix ms; 0 before the first. */
  endsAt = 0
  readonly #lengthMs: number

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /** One that ends later than any could was begun before the clock was set back. */
  isOpen(now: number): boolean {
    return now < this.endsAt && this.endsAt - now <= this.#lengthMs
  }

  /** What counts now. */
  usedAt(now: number): number {
    return this.isOpen(now) ? this.used : 0
  }

  /** Counts `cost`, whatever the limit; begins a window when none is open. */
  count(cost: number, now: number): void {
    if (this.isOpen(now)) {
      this.used += cost
    } else if (cost > 0) {
      this.used = cost
      this.endsAt = now + this.#lengthMs
    }
  }

  /** Less was counted, after all. */
  giveBack(cost: number, now: number): void {
    this.used = Math.max(0, this.usedAt(now) - cost)
  }

  /**
   * Takes over what Redis said, `counted` being what it has just counted for this process. As long as a window is open,
   * what is known of it does not fall: a Redis that lost its data, or that did not hear what was counted while it was
   * away, is no reason to begin anew.
   */
  hear(used: number, endsAt: number, counted: number, now: number): void {
    if (this.isOpen(now)) {
      this.used = Math.max(this.used + counted, used)
    } else {
      this.used = used
      this.endsAt = endsAt
    }
  }

  /** Of `limit`, once `used` of it is gone. */
  stateAfter(used: number, limit: number, now: number): LimitState {
    return {
      remaining: Math.max(0, limit - used),
      resetAt: this.isOpen(now) ? this.endsAt : now + this.#lengthMs,
    }
  }

  /** Counts `cost` if it fits whole. */
  spend(cost: number, limit: number, now: number): Spent {
    const granted = this.usedAt(now) + cost <= limit
    if (granted) this.count(cost, now)
    const { remaining, resetAt } = this.stateAfter(this.usedAt(now), limit, now)
    return { granted, remaining, resetAt }
  }
}
