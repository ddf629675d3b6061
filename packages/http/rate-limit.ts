import { rateLimited, tooLarge } from '@sluice/contracts/errors'
import { defaultLimits, limitWindowSeconds } from '@sluice/contracts/limits'
import type { LimitClass } from '@sluice/contracts/scopes'
import type { Limiter, Spent } from './access.ts'
import type { Credential } from './route.ts'

/** One request's dealings with its key's limit; what the `X-RateLimit-*` headers tell. */
export class RateLimit {
  readonly limit: number
  remaining: number
  /** Unix ms. */
  resetAt: number
  readonly #counter: string
  readonly #limiter: Limiter
  #spent = 0

  constructor(limiter: Limiter, limitClass: LimitClass, { keyId, rateLimits }: Credential) {
    this.limit = rateLimits?.[`${limitClass}_per_minute`] ?? defaultLimits[limitClass]
    this.#counter = `${limitClass}:${keyId}`
    this.#limiter = limiter
    const { remaining, resetAt } = limiter.known(this.#counter, this.limit)
    this.remaining = remaining
    this.resetAt = resetAt
  }

  /** Throws the 429 when not even a cost of 1 can fit: what is known here never is too low. */
  refuseExhausted(): void {
    if (this.remaining < 1) throw this.#refusal()
  }

  /** Throws 429 when `cost` does not fit, 413 when it never could; nothing is counted then. */
  spend(cost: number): void | Promise<void> {
    if (cost > this.limit) {
      throw tooLarge(`Request counts ${cost} times, the key may make ${this.limit} in ${limitWindowSeconds} seconds`)
    }
    const spent = this.#limiter.spend(this.#counter, cost, this.limit)
    if (!(spent instanceof Promise)) this.#hear(spent, cost)
    else
      return spent.then((answer) => {
        this.#hear(answer, cost)
      })
  }

  #hear({ granted, remaining, resetAt }: Spent, cost: number): void {
    this.remaining = remaining
    this.resetAt = resetAt
    if (!granted) throw this.#refusal()
    this.#spent += cost
  }

  /** Counts 1 unless something was counted; a request that was refused anyway is not refused for this. */
  async spendAtLeastOne(): Promise<void> {
    if (this.#spent > 0) return
    try {
      await this.spend(1)
    } catch {
      // As it would have been answered anyway.
    }
  }

  /** The request turned out too large, which costs nothing (contract section 10). */
  async giveBack(): Promise<void> {
    const cost = this.#spent
    if (cost === 0) return
    this.#spent = 0
    this.remaining += cost
    await this.#limiter.giveBack(this.#counter, cost, this.limit)
  }

  #refusal() {
    return rateLimited(Math.max(1, Math.ceil((this.resetAt - Date.now()) / 1000)))
  }
}
