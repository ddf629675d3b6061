import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { errorCode } from '@sluice/runtime/errors'
import { Failure, messageOf } from './failure.ts'

/** The settings that `sluice login` saves. */
export interface SavedSettings {
  url: string
  api_key: string
  site?: string
}

/** `$SLUICE_CONFIG`, else `$XDG_CONFIG_HOME/sluice/config.json`, else the same below `~/.config`. */
export function configFile(env: Readonly<Record<string, string | undefined>>): string {
  if (env.SLUICE_CONFIG) return env.SLUICE_CONFIG
  const { XDG_CONFIG_HOME: folder = '' } = env
  return join(folder === '' ? join(homedir(), '.config') : folder, 'sluice', 'config.json')
}

/** The settings of a file, or undefined when there is none. Throws a Failure for a file that can't be read. */
export async function readSavedSettings(file: string): Promise<SavedSettings | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw new Failure(`${file} can't be read (${messageOf(error)}): change its permissions, or remove it.`)
  }
  const settings = parse(text)
  if (settings === undefined) {
    throw new Failure(`${file} does not hold settings of sluice: run "sluice login" again, or remove it.`)
  }
  return settings
}

/** Writes the file so that its user alone can read it. */
export async function saveSettings(file: string, settings: SavedSettings): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  // Written to another file and renamed, because writing to an existing file would not change its mode.
  const aside = `${file}.${process.pid}`
  await writeFile(aside, `${JSON.stringify(settings, undefined, 2)}\n`, { mode: 0o600 })
  await chmod(aside, 0o600)
  await rename(aside, file)
}

/** Removes the file; false when there was none. Throws a Failure for a file that `sluice login` has not written. */
export async function removeSettings(file: string): Promise<boolean> {
  if ((await readSavedSettings(file)) === undefined) return false
  try {
    await rm(file)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw new Failure(`${file} can't be removed: ${messageOf(error)}`)
  }
}

function parse(text: string): SavedSettings | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const member = (name: string): string | undefined => {
    const found: unknown = Object.entries(value).find(([key]) => key === name)?.[1]
    return typeof found === 'string' && found !== '' ? found : undefined
  }
  const [url, key, site] = [member('url'), member('api_key'), member('site')]
  if (url === undefined || key === undefined) return undefined
  return { url, api_key: key, ...(site && { site }) }
}

function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')
}
