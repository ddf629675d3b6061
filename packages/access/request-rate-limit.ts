import { defaultLimits, type LimitClass, limitWindowSeconds } from '@sluice/contracts/rate-limits'
import { tooLarge } from '@sluice/runtime/errors'
import type { Credential } from './credential.ts'
import { type Consumption, type Limiter, rateLimitedUntil } from './limiter.ts'

/** The limit of events that one address may send with a key. */
interface AddressLimit {
  counter: string
  limit: number
}

/** The limits of one request's key, and the request's cost; the `X-RateLimit-*` headers show its fields. */
export class RequestRateLimit {
  readonly limit: number
  remaining: number
  /** Unix ms. */
  resetAt: number
  readonly #limitClass: LimitClass
  readonly #counter: string
  readonly #limiter: Limiter
  readonly #address: AddressLimit | undefined
  #consumed = 0

  /** `readAddress` is called for a key that limits the events of an address. */
  constructor(
    limiter: Limiter,
    limitClass: LimitClass,
    { keyId, rateLimits }: Pick<Credential, 'keyId' | 'rateLimits'>,
    readAddress?: () => string,
  ) {
    this.limit = rateLimits?.[`${limitClass}_per_minute`] ?? defaultLimits[limitClass]
    this.#limitClass = limitClass
    this.#counter = `${limitClass}:${keyId}`
    this.#limiter = limiter
    const perAddress = limitClass === 'events' ? rateLimits?.events_per_minute_per_address : undefined
    this.#address =
      perAddress === undefined || !readAddress
        ? undefined
        : { counter: `${this.#counter}:${readAddress()}`, limit: perAddress }
    const { remaining, resetAt } = limiter.peek(this.#counter, this.limit)
    this.remaining = remaining
    this.resetAt = resetAt
  }

  /**
   * Throws AppError `rate_limited` when not even a cost of 1 fits, as far as this process knows. Refunds of other
   * processes become known with its next call to Redis.
   */
  rejectIfExhausted(): void {
    if (this.remaining < 1) throw rateLimitedUntil(this.resetAt)
    if (!this.#address) return
    const { remaining, resetAt } = this.#limiter.peek(this.#address.counter, this.#address.limit)
    if (remaining < 1) throw rateLimitedUntil(resetAt)
  }

  /**
   * Counts `cost`. Throws AppError `rate_limited` when it does not fit, `too_large` when it exceeds a whole limit;
   * nothing is counted then.
   */
  consume(cost: number): void | Promise<void> {
    if (cost > this.limit) {
      throw tooLarge(
        `The request holds ${cost} ${this.#limitClass}, and the key may send ${this.limit} in ${limitWindowSeconds} seconds: send smaller batches`,
      )
    }
    return this.#address ? this.#consumeWithAddress(cost, this.#address) : this.#consumeOfKey(cost)
  }

  #consumeOfKey(cost: number): void | Promise<void> {
    const consumption = this.#limiter.consume(this.#counter, cost, this.limit)
    if (!(consumption instanceof Promise)) this.#update(consumption, cost)
    else return consumption.then((settled) => this.#update(settled, cost))
  }

  async #consumeWithAddress(cost: number, { counter, limit }: AddressLimit): Promise<void> {
    if (cost > limit) {
      throw tooLarge(
        `The request holds ${cost} ${this.#limitClass}, and one address may send ${limit} with this key in ${limitWindowSeconds} seconds: send smaller batches`,
      )
    }
    const { granted, resetAt } = await this.#limiter.consume(counter, cost, limit)
    if (!granted) throw rateLimitedUntil(resetAt)
    try {
      await this.#consumeOfKey(cost)
    } catch (error) {
      await this.#limiter.refund(counter, cost, limit)
      throw error
    }
  }

  #update({ granted, remaining, resetAt }: Consumption, cost: number): void {
    this.remaining = remaining
    this.resetAt = resetAt
    if (!granted) throw rateLimitedUntil(resetAt)
    this.#consumed += cost
  }

  /** Counts 1 unless something was counted; for a request that fails anyway, so a 429 is ignored. */
  async consumeAtLeastOne(): Promise<void> {
    if (this.#consumed > 0) return
    try {
      await this.consume(1)
    } catch {
      // The response is that of the earlier failure.
    }
  }

  /**
   * Takes back the request's cost: a request that is refused with 413 or 429, or with 503 if it sends events, costs
   * nothing (docs/http-interface.md#rate-limits).
   */
  async refund(): Promise<void> {
    const cost = this.#consumed
    if (cost === 0) return
    this.#consumed = 0
    this.remaining += cost
    await Promise.all([
      this.#limiter.refund(this.#counter, cost, this.limit),
      this.#address && this.#limiter.refund(this.#address.counter, cost, this.#address.limit),
    ])
  }
}
