import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, internalError } from '@sluice/runtime/errors'

const fileName = 'credentials.json'

/**
 * Passwords by user, as stored in `<dir>/credentials.json`; undefined when there are none yet. Throws AppError `internal`
 * when the file holds none.
 */
export function readCredentials(dir: string): Record<string, string> | undefined {
  const path = join(dir, fileName)
  let text
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    return JSON.parse(text) as Record<string, string>
  } catch (error) {
    throw internalError(
      `${path} is not the file that Sluice has written. Restore it (docs/backup.md#standalone).`,
      error,
    )
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
    writeFileSync(draft, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600, flush: true })
    renameSync(draft, join(dir, fileName)) // atomic, so that a kill leaves the old file or the new one
    // A power failure must not lose the only copy of passwords that the engines have.
    const folder = openSync(dir, 'r')
    fsyncSync(folder)
    closeSync(folder)
  }
  return credentials
}
