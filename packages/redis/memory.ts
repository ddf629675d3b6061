import { LRUCache } from 'lru-cache'
import type { Begun, FoundSession, IdempotentAnswers, Limiter, Redis, Sessions, StoredAnswer, Times } from './ports.ts'
import { Window } from './window.ts'

/** Beyond them the least recently used are forgotten. */
const countersMax = 100_000
const sessionsMax = 100_000
const answersMax = 100_000
const answerCharactersMax = 32 * 1024 * 1024

/** Counts, sessions and answers of this process, as long as it lives. */
export function openMemory(times: Times): Redis {
  return {
    limiter: memoryLimiter(times),
    sessions: memorySessions(times),
    answers: memoryAnswers(times),
    check: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}

function memoryLimiter({ limitWindowSeconds }: Times): Limiter {
  const windows = new LRUCache<string, Window>({ max: countersMax })
  const unused = new Window(limitWindowSeconds * 1000)

  const windowOf = (counter: string): Window => {
    let window = windows.get(counter)
    if (window === undefined) {
      window = new Window(limitWindowSeconds * 1000)
      windows.set(counter, window)
    }
    return window
  }

  return {
    spend: (counter, cost, limit) => windowOf(counter).spend(cost, limit, Date.now()),
    giveBack: (counter, cost) => {
      windows.get(counter)?.giveBack(cost, Date.now())
      return Promise.resolve()
    },
    known: (counter, limit) => {
      const now = Date.now()
      const window = windows.get(counter) ?? unused
      return window.stateAfter(window.usedAt(now), limit, now)
    },
  }
}

function memorySessions({ sessionIdleMs, sessionAgeMsMax }: Times): Sessions {
  interface Stored {
    keyHash: string
    /** Unix ms: it ends then however much it is used … */
    endsAt: number
    /** … and then, unless it is used before. */
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

function memoryAnswers({ claimMs, answerMs }: Times): IdempotentAnswers {
  interface Claim {
    fingerprint: string
    /** JSON, as in Redis: nobody can change it afterwards. */
    answer: string | undefined
    /** Unix ms. */
    expiresAt: number
  }
  const claims = new LRUCache<string, Claim>({
    max: answersMax,
    maxSize: answerCharactersMax,
    sizeCalculation: ({ answer = '' }, id) => id.length + answer.length + 1,
  })

  const find = (id: string): Claim | undefined => {
    const claim = claims.get(id)
    return claim !== undefined && Date.now() < claim.expiresAt ? claim : undefined
  }

  const begin = (id: string, fingerprint: string): Begun => {
    const claim = find(id)
    if (claim === undefined) {
      claims.set(id, { fingerprint, answer: undefined, expiresAt: Date.now() + claimMs })
      return { state: 'new' }
    }
    if (claim.fingerprint !== fingerprint) return { state: 'other' }
    if (claim.answer === undefined) return { state: 'running' }
    return { state: 'answered', answer: JSON.parse(claim.answer) as StoredAnswer }
  }

  return {
    begin: (id, fingerprint) => Promise.resolve(begin(id, fingerprint)),
    finish: (id, fingerprint, answer) => {
      const claim = find(id)
      if (claim === undefined || (claim.fingerprint === fingerprint && claim.answer === undefined)) {
        claims.set(id, { fingerprint, answer: JSON.stringify(answer), expiresAt: Date.now() + answerMs })
      }
      return Promise.resolve()
    },
    abandon: (id) => {
      if (find(id)?.answer === undefined) claims.delete(id)
      return Promise.resolve()
    },
  }
}
