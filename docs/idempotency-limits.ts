import { idempotencyLimits } from '@sluice/contracts/idempotency'
import { type LimitDescription, number, refused } from './limit-description.ts'

/** Every limit of requests with `Idempotency-Key`. */
export const idempotencyLimitDescriptions: Readonly<Record<keyof typeof idempotencyLimits, LimitDescription>> = {
  keyLengthMax: {
    what: '`Idempotency-Key`',
    value: `${idempotencyLimits.keyLengthMax} characters`,
    beyond: refused(400, `Invalid field: Idempotency-Key must have 1 to ${idempotencyLimits.keyLengthMax} characters`),
  },
  storedBytesMax: {
    what: 'stored answers of an API key, compressed and encrypted, counted for 24 hours from the first one',
    value: `${number(idempotencyLimits.storedBytesMax)} bytes`,
    beyond: refused(429, 'Rate limit exceeded. Retry after <n> seconds.'),
  },
}
