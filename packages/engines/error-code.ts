/**
 * The `code` of a system error (`ENOENT`) or of Postgres (`57P03`); undefined for anything else. Doesn't ask for
 * `instanceof Error`, because a test runner's modules have an Error of their own.
 */
export function errorCode(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
}
