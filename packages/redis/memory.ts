import { LRUCache } from 'lru-cache'
import type { ClaimResult, IdempotencyStore, StoredResponse } from '@sluice/access/idempotency'
import type { Limiter } from '@sluice/access/limiter'
import type { FoundSession, Sessions } from '@sluice/access/sessions'
import type { SignInCodes } from '@sluice/access/sign-in-codes'
import { idempotencyLimits } from '@sluice/contracts/idempotency'
import { LimitWindow } from './limit-window.ts'
import type { Redis, RedisLifetimes } from './port.ts'

/** Above these numbers, the least recently used entries are removed. */
const countersMax = 100_000
const sessionsMax = 100_000
const signInCodesMax = 1_000
const claimsMax = 100_000
const claimCharactersMax = 32 * 1024 * 1024

/** Keeps counts, sessions, sign-in codes and results in the memory of this process, until it ends. */
export function openMemory(times: RedisLifetimes): Redis {
  return {
    limiter: memoryLimiter(times),
    sessions: memorySessions(times),
    signInCodes: memorySignInCodes(times),
    idempotency: memoryIdempotency(times),
    check: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}

function memoryLimiter({ limitWindowSeconds }: RedisLifetimes): Limiter {
  const windows = new LRUCache<string, LimitWindow>({ max: countersMax })
  const unusedWindow = new LimitWindow(limitWindowSeconds * 1000)

  const getWindow = (counter: string): LimitWindow => {
    let window = windows.get(counter)
    if (window === undefined) {
      window = new LimitWindow(limitWindowSeconds * 1000)
      windows.set(counter, window)
    }
    return window
  }

  return {
    consume: (counter, cost, limit) => getWindow(counter).consume(cost, limit, Date.now()),
    refund: (counter, cost) => {
      windows.get(counter)?.refund(cost, Date.now())
      return Promise.resolve()
    },
    peek: (counter, limit) => {
      const now = Date.now()
      const window = windows.get(counter) ?? unusedWindow
      return window.stateAfter(window.consumedAt(now), limit, now)
    },
  }
}

function memorySessions({ sessionIdleMs, sessionAgeMsMax }: RedisLifetimes): Sessions {
  interface Stored {
    keyHash: string
    /** Unix ms at which the session ends even if it is used. */
    endsAt: number
    /** Unix ms at which the session ends unless it is used before. */
    expiresAt: number
  }
  const sessions = new LRUCache<string, Stored>({ max: sessionsMax })

  return {
    create: (tokenHash, { keyHash }) => {
      const now = Date.now()
      const endsAt = now + sessionAgeMsMax
      sessions.set(tokenHash, { keyHash, endsAt, expiresAt: Math.min(now + sessionIdleMs, endsAt) })
      return Promise.resolve()
    },
    find: (tokenHash): Promise<FoundSession | undefined> => {
      const session = sessions.get(tokenHash)
      const now = Date.now()
      if (session === undefined || now >= session.expiresAt) {
        sessions.delete(tokenHash)
        return Promise.resolve(undefined)
      }
      session.expiresAt = Math.min(now + sessionIdleMs, session.endsAt)
      return Promise.resolve({ keyHash: session.keyHash, expiresAt: session.expiresAt })
    },
    delete: (tokenHash) => {
      sessions.delete(tokenHash)
      return Promise.resolve()
    },
  }
}

function memorySignInCodes({ signInCodeMs }: RedisLifetimes): SignInCodes {
  const codes = new LRUCache<string, { keyHash: string; expiresAt: number }>({ max: signInCodesMax })

  const find = (codeHash: string): { keyHash: string } | undefined => {
    const code = codes.get(codeHash)
    return code !== undefined && Date.now() < code.expiresAt ? { keyHash: code.keyHash } : undefined
  }

  return {
    create: (codeHash, { keyHash }) => {
      codes.set(codeHash, { keyHash, expiresAt: Date.now() + signInCodeMs })
      return Promise.resolve()
    },
    find: (codeHash) => Promise.resolve(find(codeHash)),
    take: (codeHash) => {
      const found = find(codeHash)
      codes.delete(codeHash)
      return Promise.resolve(found)
    },
  }
}

function memoryIdempotency({ claimMs, resultMs }: RedisLifetimes): IdempotencyStore {
  interface Claim {
    fingerprint: string
    owner: string
    /** JSON, as in Redis, so that later changes of the object have no effect. Undefined while the request runs. */
    answer: string | undefined
    /** Unix ms. */
    expiresAt: number
  }
  const claims = new LRUCache<string, Claim>({
    max: claimsMax,
    maxSize: claimCharactersMax,
    sizeCalculation: ({ answer = '' }, id) => id.length + answer.length + 1,
  })
  /** The characters of the results of each API key, until `endsAt` (Unix ms), when the first of them is forgotten. */
  const storedSizes = new LRUCache<string, { size: number; endsAt: number }>({ max: countersMax })

  const find = (id: string): Claim | undefined => {
    const claim = claims.get(id)
    return claim !== undefined && Date.now() < claim.expiresAt ? claim : undefined
  }

  const findStoredSize = (keyId: string): { size: number; endsAt: number } | undefined => {
    const stored = storedSizes.get(keyId)
    return stored !== undefined && Date.now() < stored.endsAt ? stored : undefined
  }

  const claimRequest = (id: string, fingerprint: string, owner: string, keyId: string): ClaimResult => {
    const claim = find(id)
    if (claim === undefined) {
      const stored = findStoredSize(keyId)
      if (stored !== undefined && stored.size >= idempotencyLimits.storedBytesMax) {
        return { state: 'full', resetAt: stored.endsAt }
      }
      claims.set(id, { fingerprint, owner, answer: undefined, expiresAt: Date.now() + claimMs })
      return { state: 'new' }
    }
    if (claim.fingerprint !== fingerprint) return { state: 'other' }
    if (claim.answer === undefined) return { state: 'running' }
    return { state: 'answered', answer: JSON.parse(claim.answer) as StoredResponse }
  }

  return {
    claim: (id, fingerprint, owner, keyId) => Promise.resolve(claimRequest(id, fingerprint, owner, keyId)),
    complete: (id, fingerprint, answer, keyId) => {
      const claim = find(id)
      if (claim === undefined || (claim.fingerprint === fingerprint && claim.answer === undefined)) {
        const owner = claim?.owner ?? ''
        const json = JSON.stringify(answer)
        const expiresAt = Date.now() + resultMs
        claims.set(id, { fingerprint, owner, answer: json, expiresAt })
        const { size, endsAt } = findStoredSize(keyId) ?? { size: 0, endsAt: expiresAt }
        storedSizes.set(keyId, { size: size + id.length + fingerprint.length + json.length, endsAt })
      }
      return Promise.resolve()
    },
    release: (id, owner) => {
      const claim = find(id)
      if (claim?.owner === owner && claim.answer === undefined) claims.delete(id)
      return Promise.resolve()
    },
  }
}
