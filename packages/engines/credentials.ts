import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode } from '@sluice/runtime/errors'

const fileName = 'credentials.json'

/** Passwords by user, as stored in `<dir>/credentials.json`; undefined when there are none yet. */
export function readCredentials(dir: string): Record<string, string> | undefined {
  try {
    return JSON.parse(readFileSync(join(dir, fileName), 'utf8')) as Record<string, string>
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * The passwords of `users`, generated at the first call (192 random bits, characters that need no encoding in URLs) and
 * stored in `<dir>/credentials.json`, which only this user may read.
 */
export function loadOrCreateCredentials<User extends string>(
  dir: string,
  users: readonly User[],
): Record<User, string> {
  const known = readCredentials(dir)
  const credentials = Object.fromEntries(
    users.map((user) => [user, known?.[user] ?? randomBytes(24).toString('base64url')]),
  ) as Record<User, string>
  if (users.some((user) => known?.[user] === undefined)) {
    const draft = join(dir, `.${fileName}.new`)
    writeFileSync(draft, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600 })
    renameSync(draft, join(dir, fileName)) // atomic, so that a kill leaves the old file or the new one
  }
  return credentials
}
