import { type Command, Option } from 'commander'
import { environments } from '@sluice/contracts/scopes'
import { configFile, readSavedSettings, type SavedSettings } from './config-file.ts'
import type { Context } from './context.ts'
import { exitCodes, Failure, usageFailure } from './failure.ts'
import { parseText } from './parse-options.ts'

/** The options that `addConnectionOptions` adds. */
export interface ConnectionOptions {
  url?: string
  apiKey?: string
}

/** The options that `addSiteOption` and `addConnectionOptions` add. */
export interface SiteOptions extends ConnectionOptions {
  site?: string
}

/**
 * The address of Sluice, the key and the site. Each comes from the first of these that has it: the options, the
 * environment, the file of `sluice login`.
 */
export interface Settings {
  /** The query service, without a slash at the end. */
  url: string
  urlSource: string
  key: string | undefined
  keySource: string
  /** Whether SLUICE_KEY is set, from which the curl commands of the documentation take the key. */
  hasKeyOfCurl: boolean
  site: string | undefined
  /** The gateway, if it was named. */
  collectUrl: string | undefined
}

/** Where `npm start` serves Sluice. */
const defaultUrl = 'http://localhost:8080'

/** Adds the options that say where Sluice is and with which key requests are made. */
export function addConnectionOptions(command: Command): Command {
  return command
    .option('--url <url>', 'where Sluice is (SLUICE_URL)', parseText)
    .option('--api-key <key>', 'the API key, or - to read it from standard input (SLUICE_API_KEY)', parseText)
}

/** Adds the option that names the site of a command. */
export function addSiteOption(command: Command): Command {
  return command.option('-s, --site <site>', 'the site (SLUICE_SITE)', parseText)
}

/** The option that says which environment's events a command reads. */
export function environmentOption(): Option {
  const description = 'the environment of the events (default: that of the key)'
  return new Option('--environment <name>', description).choices([...environments, 'all'])
}

/**
 * Reads the settings. Throws a usage Failure for an invalid URL, and a Failure for a file of `sluice login` that can't
 * be read, unless the URL and the key are given otherwise. `isReplaced`: the file is about to be replaced, so a file
 * that can't be read counts as absent.
 */
export async function readSettings(
  { env, input }: Pick<Context, 'env' | 'input'>,
  options: SiteOptions,
  { isReplaced = false }: { isReplaced?: boolean } = {},
): Promise<Settings> {
  const file = configFile(env)
  const given = firstOf([options.url, '--url'], [env.SLUICE_URL, 'SLUICE_URL'])
  const givenKey = firstOf([options.apiKey, '--api-key'], [env.SLUICE_API_KEY, 'SLUICE_API_KEY'])
  const isNeeded = given === undefined || givenKey === undefined
  const saved = await readSaved(file).catch((error: unknown) => {
    if (isReplaced || !isNeeded) return undefined
    throw error
  })
  const [url, urlSource] = given ?? [saved?.url ?? defaultUrl, saved ? file : 'the default']
  const checkedUrl = checkUrl(url, urlSource)
  // A saved key belongs to the Sluice that it was saved for, and is sent to no other.
  const isSavedUrl = saved?.url === checkedUrl
  const asked = options.apiKey === '-' ? await readKey(input) : options.apiKey
  const [key, keySource] = firstOf(
    [asked, '--api-key'],
    [env.SLUICE_API_KEY, 'SLUICE_API_KEY'],
    [isSavedUrl ? saved.api_key : undefined, file],
  ) ?? [undefined, '']
  const [site] = firstOf([options.site, ''], [env.SLUICE_SITE, ''], [isSavedUrl ? saved.site : undefined, '']) ?? []
  const { SLUICE_COLLECT_URL: collectUrl } = env
  return {
    url: checkedUrl,
    urlSource,
    key,
    keySource,
    hasKeyOfCurl: Boolean(env.SLUICE_KEY),
    site,
    collectUrl: collectUrl ? checkUrl(collectUrl, 'SLUICE_COLLECT_URL') : undefined,
  }
}

/** The settings of a file, with addresses as `checkUrl` gives them. */
async function readSaved(file: string): Promise<SavedSettings | undefined> {
  const saved = await readSavedSettings(file)
  return saved && { ...saved, url: checkUrl(saved.url, file) }
}

/** Whether events would be sent without TLS, although Sluice is asked with it. */
export const losesTls = (url: string, collectUrl: string): boolean =>
  url.startsWith('https:') && collectUrl.startsWith('http:')

/** What a header can hold: fetch refuses other keys with an error that repeats them. */
const keyPattern = /^[!-~]+$/

/** The key, which every command needs. Throws the Failure that says how to give one, and never holds it. */
export function requireKey({ key, keySource, hasKeyOfCurl, url }: Settings): string {
  if (key !== undefined) {
    if (keyPattern.test(key)) return key
    throw new Failure(
      `The API key from ${keySource} has characters that no API key has: copy it again, without anything around it.`,
      exitCodes.authentication,
    )
  }
  const hint = hasKeyOfCurl ? ' (SLUICE_KEY is set, but only the curl examples read it)' : ''
  throw new Failure(
    `There is no API key for ${url}: set SLUICE_API_KEY${hint}, or run "sluice login".`,
    exitCodes.authentication,
  )
}

/** The site. Throws the usage Failure that says how to name one. */
export function requireSite({ site }: Settings): string {
  if (site !== undefined) return site
  throw usageFailure('No site is named: give --site <site>, or set SLUICE_SITE.')
}

/** Throws a usage Failure for `--api-key -` when the command reads its data from standard input. */
export function refuseKeyOnInput({ apiKey }: ConnectionOptions): void {
  if (apiKey === '-') {
    throw usageFailure('Standard input can hold the events or the key, not both: set SLUICE_API_KEY instead.')
  }
}

/** A key has some forty bytes. A longer input is another file, or endless. */
const inputBytesMax = 4 * 1024

/** Reads the key from standard input. Throws a usage Failure when it holds none, or more than one can be. */
export async function readKey(input: Context['input']): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of input) {
    const bytes = chunk as Uint8Array
    chunks.push(bytes)
    size += bytes.length
    if (size > inputBytesMax) throw usageFailure('Standard input holds more than an API key: pipe in the key alone.')
  }
  const key = Buffer.concat(chunks).toString('utf8').trim()
  if (key === '') throw usageFailure('Standard input holds no API key: pipe one in.')
  return key
}

function firstOf(...candidates: (readonly [string | undefined, string])[]): [string, string] | undefined {
  for (const [value, source] of candidates) if (value) return [value, source]
  return undefined
}

/** The URL without a slash at its end. */
function checkUrl(value: string, source: string): string {
  let url: URL | undefined
  try {
    url = new URL(value)
  } catch {
    // Reported below.
  }
  if (!url || !['http:', 'https:'].includes(url.protocol)) {
    throw usageFailure(`${source} is not a valid address: give one like https://stats.example.com.`)
  }
  if (url.username || url.password) {
    throw usageFailure(`${source} holds a user name or password: Sluice takes an API key instead.`)
  }
  return (url.origin + url.pathname).replace(/\/+$/, '')
}
