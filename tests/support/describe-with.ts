import { describe, test } from '@jest/globals'

type Define<Body> = (name: string, body: Body, timeoutMs?: number) => void

/** `describe` for suites that need what a machine may lack: without it they are counted as skipped, and named so. */
export function describeWith(needed: string, isThere: boolean): Define<() => void> {
  return isThere
    ? describe
    : (name, suite) => {
        describe.skip(nameWithout(needed, name), suite)
      }
}

/** `test` for tests that need what a machine may lack, likewise. */
export function testWith(needed: string, isThere: boolean): Define<() => void | Promise<void>> {
  return isThere
    ? test
    : (name, body) => {
        test.skip(nameWithout(needed, name), body)
      }
}

function nameWithout(needed: string, name: string): string {
  return `${name} (no ${needed})`
}
