import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, internalError } from '@sluice/runtime/errors'
import { makeFolder } from '@sluice/runtime/make-folder'
import { readSecretsKey } from '@sluice/runtime/secret-cipher'

/**
 * The key that encrypts secrets: SLUICE_SECRETS_KEY, else that of the file `secrets.key` in the data folder, which is
 * made if it is not there and which only this user may read. Throws AppError `internal` when the file holds no key.
 */
export async function secretsKeyOf(config: {
  SLUICE_SECRETS_KEY: string | undefined
  SLUICE_DATA_DIR: string
}): Promise<string> {
  if (config.SLUICE_SECRETS_KEY !== undefined) return config.SLUICE_SECRETS_KEY
  const file = join(config.SLUICE_DATA_DIR, 'secrets.key')
  const key = (await readIfThere(file)) ?? (await makeKey(config.SLUICE_DATA_DIR, file))
  try {
    readSecretsKey(key)
  } catch (error) {
    const reason = `${file} holds no key. Restore the file, or set SLUICE_SECRETS_KEY; without the key, stored secrets of webhooks are lost.`
    throw internalError(reason, error)
  }
  return key
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Writes the key to a temporary file and links it into place, so that a crash leaves a whole file or none. If two
 * processes race, the first key wins.
 */
async function makeKey(folder: string, file: string): Promise<string> {
  makeFolder(folder)
  const written = `${file}.${process.pid}`
  await rm(written, { force: true })
  const handle = await open(written, 'wx', 0o600)
  try {
    await handle.writeFile(`${randomBytes(32).toString('base64')}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  try {
    await link(written, file)
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error
  } finally {
    await rm(written, { force: true })
  }
  return (await readFile(file, 'utf8')).trim()
}
