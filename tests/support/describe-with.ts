import { describe, test } from '@jest/globals'

type Define<Body> = (name: string, body: Body, timeoutMs?: number) => void

/**
 * `describe` for suites that need something that a machine may lack. Without it, the suite is skipped, and its name
 * says what is missing.
 */
export function describeWith(needed: string, isThere: boolean): Define<() => void> {
  return isThere ? describe : (name, suite) => describe.skip(nameWithout(needed, name), suite)
}

/** The same for `test`. */
export function testWith(needed: string, isThere: boolean): Define<() => void | Promise<void>> {
  return isThere ? test : (name, body) => test.skip(nameWithout(needed, name), body)
}

function nameWithout(needed: string, name: string): string {
  return `${name} (no ${needed})`
}
