import { type Client, openClient, type RetryPolicy } from './client.ts'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'
import { formatDuration } from './output/format.ts'
import { safeText } from './output/safe-text.ts'
import { losesTls, readSettings, requireKey, type Settings, type SiteOptions } from './settings.ts'

/** The message when `losesTls` is true for the address in SLUICE_COLLECT_URL, with what to do. */
export const unencryptedSetting = (url: string, collectUrl: string): string =>
  `SLUICE_COLLECT_URL is ${collectUrl}, which is not encrypted, but ${url} is: set it to an address with https.`

/** The message when `losesTls` is true for the address that Sluice names, with what to do. */
export const unencrypted = (url: string, collectUrl: string): string =>
  `${url} names ${safeText(collectUrl)} for events, which is not encrypted: set SLUICE_COLLECT_URL to the address of the gateway ` +
  'with https, here or on the query service; or SLUICE_TRUSTED_PROXIES there, to the proxy that ends TLS.'

/** The settings of a command, and the client that was opened with them. */
export interface Connection {
  settings: Settings
  client: Client
}

/** The settings of a command and a client of the query service. Throws a Failure without a key. */
export async function openConnection(
  context: Context,
  options: SiteOptions,
  { retries = 'some' }: { retries?: RetryPolicy } = {},
): Promise<Connection> {
  const settings = await readSettings(context, options)
  return { settings, client: clientFor(context, settings, { url: settings.url, retries }) }
}

/** A client of one of the services with the key of the settings. */
export function clientFor(
  { terminal, signal }: Context,
  settings: Settings,
  { url, retries }: { url: string; retries: RetryPolicy },
): Client {
  return openClient({
    url,
    setting: url === settings.url ? 'SLUICE_URL' : 'SLUICE_COLLECT_URL',
    key: requireKey(settings),
    signal,
    retries,
    onRetry: (reason, waitMs) => {
      const text = `${safeText(reason)} Trying again in ${formatDuration(waitMs)}.`
      terminal.note(terminal.style('dim', text, 'notes'))
    },
  })
}

/**
 * The address of the gateway: from the settings, or from the query service. A service without sessions is the gateway
 * itself. Throws a Failure when the service has TLS and the gateway has not, because the key would be sent in clear.
 */
export async function collectUrlOf({ settings, client }: Connection): Promise<string> {
  const { url, collectUrl: given } = settings
  if (given !== undefined) {
    if (losesTls(url, given)) throw new Failure(unencryptedSetting(url, given))
    return given
  }
  try {
    const { collect_url: collectUrl } = await client.session()
    if (losesTls(url, collectUrl)) throw new Failure(unencrypted(url, collectUrl))
    return collectUrl
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 404) return url
    throw error
  }
}
