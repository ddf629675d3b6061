import { describe, expect, test } from '@jest/globals'
import { type AttemptFacts, decideAfterAttempt, retryDelaysMs } from './retry-schedule.ts'

const hourMs = 3_600_000
const now = 1_700_000_000_000
const well = { isEnabled: true, canBeDisabled: true, failingSince: null, failuresInRow: 0, exhausted: 0 }
const failed = { succeeded: false, status: 500, retryAfterMs: null }

const decide = (parts: Partial<AttemptFacts> = {}) =>
  decideAfterAttempt({
    attempt: 1,
    channel: 'webhook',
    result: failed,
    health: well,
    startedAt: now - 100,
    now,
    random: 0.5,
    ...parts,
  })

test('the schedule is that of the documentation', () => {
  const [s, m, h] = [1_000, 60_000, hourMs]
  const expected = [0, 5 * s, m, 5 * m, 30 * m, 2 * h, 5 * h, 10 * h, 14 * h, 20 * h, 24 * h, 24 * h]
  expect(retryDelaysMs).toStrictEqual(expected)
  for (let attempt = 1; attempt < 12; attempt += 1) {
    expect(decide({ attempt }).dueAt).toBe(now + (expected[attempt] ?? 0))
    for (const [random, factor] of [
      [0, 0.8],
      [1, 1.2],
    ] as const) {
      expect(decide({ attempt, random }).dueAt).toBe(now + Math.round((expected[attempt] ?? 0) * factor))
    }
  }
  expect(decide({ attempt: 12 })).toMatchObject({ status: 'failed', dueAt: null, health: { exhausted: 1 } })
})

test('Retry-After postpones the next attempt, up to twice the delay, and never brings it forward', () => {
  for (let attempt = 1; attempt < 12; attempt += 1) {
    const delay = retryDelaysMs[attempt] ?? 0
    for (const random of [0, 0.3, 1]) {
      const plain = (decide({ attempt, random }).dueAt ?? 0) - now
      for (const retryAfterMs of [0, 0.9, 1.1, 1.9, 2, 2.1, 100].map((factor) => factor * delay)) {
        const asked = (decide({ attempt, random, result: { ...failed, retryAfterMs } }).dueAt ?? 0) - now
        expect(asked).toBe(Math.round(Math.max(plain, Math.min(retryAfterMs, 2 * delay))))
      }
    }
  }
})

test('a success forgets the failures, and a failure counts from the first one', () => {
  const health = { ...well, failingSince: 5, failuresInRow: 9, exhausted: 3 }
  expect(decide({ health, result: { succeeded: true, status: 204, retryAfterMs: null } })).toStrictEqual({
    status: 'succeeded',
    dueAt: null,
    health: { failingSince: null, failuresInRow: 0, exhausted: 0 },
  })
  expect(decide().health).toStrictEqual({ failingSince: now - 100, failuresInRow: 1, exhausted: 0 })
  const later = { ...well, failingSince: now - hourMs, failuresInRow: 9, exhausted: 3 }
  expect(decide({ health: later }).health).toStrictEqual({
    failingSince: now - hourMs,
    failuresInRow: 10,
    exhausted: 3,
  })
})

describe('an endpoint is disabled', () => {
  test('by a 410, which is no status of HTTP in an e-mail', () => {
    const result = { ...failed, status: 410 }
    expect(decide({ result })).toMatchObject({ status: 'failed', disabledReason: expect.stringMatching(/410/) })
    expect(decide({ result, channel: 'email' })).not.toHaveProperty('disabledReason')
  })

  test.each([
    [120, 2, true],
    [120, 1, false],
    [119.99, 2, false],
    [500, 0, false],
  ])('after %d h without a success and %d deliveries that ran out of attempts: %s', (hours, exhausted, isOff) => {
    const health = { ...well, failingSince: now - hours * hourMs, failuresInRow: 50, exhausted }
    expect('disabledReason' in decide({ health })).toBe(isOff)
    expect(decide({ health }).status).toBe(isOff ? 'failed' : 'pending')
  })

  test('unless it is the target of an alert rule, whose notifications are tried to the last attempt', () => {
    const health = {
      ...well,
      canBeDisabled: false,
      failingSince: now - 500 * hourMs,
      failuresInRow: 50,
      exhausted: 9,
    }
    const outcome = decide({ health, result: { ...failed, status: 410 } })
    expect(outcome).toMatchObject({ status: 'pending', dueAt: expect.any(Number) })
    expect(outcome).not.toHaveProperty('disabledReason')
  })

  test('and gets one attempt of what somebody asks for', () => {
    const outcome = decide({ health: { ...well, isEnabled: false }, result: { ...failed, status: 410 } })
    expect(outcome).toMatchObject({ status: 'failed', dueAt: null })
    // It is off already.
    expect(outcome).not.toHaveProperty('disabledReason')
  })
})
